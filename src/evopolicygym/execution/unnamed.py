"""Files that get their name when they are complete: whoever is killed before, by whatever signal, leaves none behind.

Where a file system cannot do that (NFS, FUSE), a file is copied to its name in the end, and a kill in that moment
leaves ``.NAME.part``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import IO


def unnamed(folder: Path) -> IO[bytes]:
    """On the disk of ``folder``, to be written and read; gone when it is closed, unless it was given a name."""
    try:
        return open(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666), "w+b")
    except OSError:
        return tempfile.TemporaryFile(dir=folder)  # has a name for a moment; says what is wrong if it is something else


def give_name(file: IO[bytes], path: Path) -> None:
    """In place of what an earlier attempt has left there."""
    file.flush()
    path.unlink(missing_ok=True)
    descriptor = file.fileno()
    try:
        # A descriptor to start from, needless beside an absolute path, is what makes Python follow the link.
        os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor)
    except OSError:
        _copy(file, path)


def _copy(file: IO[bytes], path: Path) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        with open(part, "wb") as copy:
            file.seek(0)
            shutil.copyfileobj(file, copy, 1 << 20)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
