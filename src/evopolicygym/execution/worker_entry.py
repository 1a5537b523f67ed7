"""Entry point of a worker: a clean process that forks before it holds any secret.

Started as ``python -P -S -B worker_entry.py PACKAGE_ROOT SITE CONNECTION_FD``, like a zygote: with an empty environment
and without ``site``. One half stays clean and forks zygotes for policies; the other becomes the worker.
"""

from __future__ import annotations

import socket
import sys
from typing import NoReturn

if __name__ == "__main__":
    sys.path[:0] = sys.argv[1:3]

from evopolicygym.sandbox.policy import zygote_forker


def become_worker(connection: socket.socket, forker_connection: socket.socket) -> NoReturn:
    """Become a normal Python, as the engine is: with site-packages, bytecode, and a random state of its own."""
    import site

    import numpy as np

    del sys.path[:2]
    sys.dont_write_bytecode = False
    site.main()
    np.random.seed()  # the other half keeps the state from before the fork

    from evopolicygym.execution.worker import main
    from evopolicygym.sandbox.policy.zygote_client import ZygoteForker

    main(connection, ZygoteForker(forker_connection))


if __name__ == "__main__":
    _forker_connection = zygote_forker.split()
    become_worker(socket.socket(fileno=int(sys.argv[3])), _forker_connection)
