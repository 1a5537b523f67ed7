"""A temporary folder that is gone afterwards, also when whoever asked for it is killed."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

JANITOR: Final = 'read _; chmod -R u+rwX "$0"; rm -rf "$0"'


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """Removed by a process of its own, which is there before the folder is and waits until its input ends: with the
    block, or with us."""
    place = Path(tempfile.gettempdir(), f"{prefix}{secrets.token_hex(8)}").resolve()
    janitor = ["/bin/sh", "-c", JANITOR, str(place)]
    with subprocess.Popen(janitor, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True):
        os.mkdir(place, 0o700)
        yield place
