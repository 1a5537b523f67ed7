"""The HOME of a client in one run: fresh, with its declared settings and, if need be, its login, and nothing else.

The agent can write there, so that no link in it is ever followed: neither now nor when a run is taken up again.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final

from evopolicygym.errors import FULL, UserError

DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
UNFINISHED: Final = ".unfinished"


class HomeUnusable(UserError):
    """The HOME is not as it was made: something stands where a file or a folder of ours belongs."""


def ensure(folder: Path) -> None:
    """Make a folder of the agent, or open it again where the agent has closed it to itself (and to us). The agent is
    not running. Raises HomeUnusable if something else stands there."""
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        mode = os.lstat(folder).st_mode
        if not stat.S_ISDIR(mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if ~mode & stat.S_IRWXU:
            os.chmod(folder, stat.S_IMODE(mode) | stat.S_IRWXU)
    except OSError as error:
        if error.errno in FULL:
            raise
        raise HomeUnusable(f"{folder} is no folder any more that the agent can use: {error.strerror}") from error


def seed(home: Path, files: Mapping[str, str]) -> None:
    """Settings are written once; a run that is taken up again keeps what is there."""
    for name, text in files.items():
        _write_new(home, name, text.encode())


def copy_credentials(names: Iterable[str], source: Path, home: Path) -> list[str]:
    """Which of the declared files there were. A login that a client has renewed meanwhile is kept."""
    found = [name for name in names if (source / name).is_file()]
    for name in found:
        _write_new(home, name, (source / name).read_bytes())
    return found


def remove(home: Path, name: str) -> None:
    """A file that was copied there, if it still is where it was; nothing that lies elsewhere."""
    path = PurePosixPath(name)
    if not _is_below(path):
        return
    with suppress(OSError), ExitStack() as opened:
        folder = os.open(home, DIRECTORY)
        opened.callback(os.close, folder)
        for part in path.parts[:-1]:
            folder = os.open(part, DIRECTORY, dir_fd=folder)
            opened.callback(os.close, folder)
        _unlink(path.name, folder)  # first: a client can make a folder of the other name
        _unlink(path.name + UNFINISHED, folder)


def _unlink(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _write_new(home: Path, name: str, data: bytes) -> None:
    """Complete before it has its name: we may be killed meanwhile, and what is there is kept."""
    path = PurePosixPath(name)
    if not _is_below(path):
        raise UserError(f"{name!r} is not a path below the client's HOME")
    with _folder(home, path.parts[:-1]) as folder:
        if _exists(path.name, folder):
            return
        staged = path.name + UNFINISHED
        _unlink(staged, folder)
        with open(os.open(staged, NEW, 0o600, dir_fd=folder), "wb") as file:
            file.write(data)
            _give(file.fileno(), folder)
        os.rename(staged, path.name, src_dir_fd=folder, dst_dir_fd=folder)


def _is_below(path: PurePosixPath) -> bool:
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _folder(home: Path, parts: Iterable[str]) -> Any:
    """Made on the way where it is missing; a link on the way is refused."""
    try:
        descriptor = os.open(home, DIRECTORY)
        try:
            for part in parts:
                descriptor = _step(descriptor, part)
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in FULL:
            raise
        raise HomeUnusable(f"cannot write below the client's HOME {home}: {error}") from error


def _step(parent: int, name: str) -> int:
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
        is_new = True
    except FileExistsError:
        is_new = False
    child = os.open(name, DIRECTORY, dir_fd=parent)
    if is_new:
        _give(child, parent)
    os.close(parent)
    return child


def _give(descriptor: int, like: int) -> None:
    """To whom the folder belongs: the agent may run as somebody else."""
    owner = os.fstat(like)
    if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()) and stat.S_ISDIR(owner.st_mode):
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
