"""`python as_user.py COMMAND...` (as root): run a command as the user nobody.

The command can read this Python and this repository even below a folder that is closed to others, such as root's home,
and likewise the folders that ``EVOPOLICYGYM_TEST_SHOW`` lists (separated as in PATH). It uses a lock folder of its own,
as each user does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from evopolicygym.sandbox import kernel
from evopolicygym.sandbox.runtime import runtime

NOBODY = 65534


def main(command: list[str]) -> None:
    shown = os.environ.pop("EVOPOLICYGYM_TEST_SHOW", sys.prefix).split(os.pathsep)
    places = (sys.base_prefix, sys.prefix, runtime().package_root, Path(__file__).parent, *shown)
    needed = {Path(path).resolve() for path in places}
    os.umask(0o022)  # or nobody could pass the folders that are made here
    if locks := os.environ.get("EVOPOLICYGYM_LOCKS"):
        os.environ["EVOPOLICYGYM_LOCKS"] = locks = f"{locks}-nobody"
        os.makedirs(locks, 0o700, exist_ok=True)
        os.chown(locks, NOBODY, NOBODY)
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    for closed in {door for path in needed if (door := _closed_door(path))}:
        _open_up(closed, [path for path in needed if closed in path.parents])
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.execv(command[0], command)


def _closed_door(path: Path) -> Path | None:
    """Return the first folder on the way to a path that other users may not enter."""
    return next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)


def _open_up(closed: Path, paths: list[Path]) -> None:
    """Mount an open folder over a closed one, with only these paths in it."""
    handles = {path: os.open(path, os.O_PATH) for path in paths}
    kernel.mount("tmpfs", str(closed), "tmpfs", 0, "mode=755")
    for path, handle in handles.items():
        path.mkdir(parents=True)
        kernel.mount(f"/proc/self/fd/{handle}", str(path), None, kernel.MS_BIND)
        os.close(handle)


if __name__ == "__main__":
    main(sys.argv[1:])
