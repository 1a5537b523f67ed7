"""How a worker begins: as a clean process that splits in two before it has learnt anything.

Started as ``python -P -S -B ancestor.py HARNESS SITE CONNECTION_FD``, like a zygote: with an empty environment, without
site. One half stays clean and becomes the nursery of the policies; the other becomes the worker.
"""

from __future__ import annotations

import socket
import sys
from typing import NoReturn

if __name__ == "__main__":
    sys.path[:0] = sys.argv[1:3]

from evopolicygym.sandbox.policy import zygote_forker


def become_worker(connection: socket.socket, nursery_line: socket.socket) -> NoReturn:
    """Now be the Python that the engine is: with its site-packages, able to write bytecode, random by itself."""
    import site

    import numpy as np

    del sys.path[:2]
    sys.dont_write_bytecode = False
    site.main()
    np.random.seed()  # the other half has the state that it was born with

    from evopolicygym.execution.worker import main
    from evopolicygym.sandbox.policy.zygote_client import ZygoteForker

    main(connection, ZygoteForker(nursery_line))


if __name__ == "__main__":
    _line = zygote_forker.split()
    become_worker(socket.socket(fileno=int(sys.argv[3])), _line)
