"""The HOME of a client in one run: fresh, with its declared settings, its login if needed, and nothing else.

The agent can write there, so links in it are never followed, also when the run is resumed.
"""

from __future__ import annotations

import errno
import json
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
MAX_LOGIN_BYTES: Final = 1 << 16


class HomeUnusable(UserError):
    """The agent has replaced a file or folder of its HOME that the run needs."""


def ensure(folder: Path) -> None:
    """Make a folder of the agent, or open it again where the agent has closed it to itself (and to us). The agent is
    not running. Raises HomeUnusable if something else has that name."""
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
        raise HomeUnusable(f"{folder} is not a usable folder any more: {error.strerror}") from error


def seed(home: Path, files: Mapping[str, str]) -> None:
    """Write the settings files; a resumed run keeps existing ones."""
    for name, text in files.items():
        _write_new(home, name, text.encode())


def copy_credentials(names: Iterable[str], source: Path, home: Path) -> dict[str, bytes]:
    """Copy the declared login files and return them. Raises HomeUnusable if HOME has one already: whoever wrote it, at
    the end of the run it would be taken for a renewed login of the user."""
    logins = {name: (source / name).read_bytes() for name in names if (source / name).is_file()}
    for name, data in logins.items():
        _write_new(home, name, data, keeps_existing=False)
    return logins


def return_renewed(name: str, copied: bytes, home: Path, source: Path) -> bool:
    """Copy a login that the client has renewed back to the user's own HOME, and return whether it was. Otherwise the
    user would be logged out: a provider accepts the token that renews a login only once.

    ``copied`` is what `copy_credentials` wrote. The agent could write to the file, too. So it must be plain and small,
    JSON of the same form as the one that was copied, and the user's own file must not have changed meanwhile. Nothing
    shows whether the client or the agent wrote its values: the residue that docs/security.md names."""
    renewed, target = _read_below(home, name), (source / name).resolve()
    if renewed is None or renewed == copied or not _has_form_of(renewed, copied):
        return False
    try:
        if target.read_bytes() != copied:
            return False
        staged = target.with_name(f"{target.name}{UNFINISHED}")
        staged.unlink(missing_ok=True)
        with open(os.open(staged, NEW, 0o600), "wb") as file:
            file.write(renewed)
            os.fsync(file.fileno())
        os.replace(staged, target)
    except OSError:
        return False
    return True


def _read_below(home: Path, name: str) -> bytes | None:
    """Read a small plain file below HOME without following links; None if there is none."""
    path = PurePosixPath(name)
    if not _is_below(path):
        return None
    with suppress(OSError), ExitStack() as opened:
        folder = os.open(home, DIRECTORY)
        opened.callback(os.close, folder)
        for part in path.parts[:-1]:
            folder = os.open(part, DIRECTORY, dir_fd=folder)
            opened.callback(os.close, folder)
        file = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        opened.callback(os.close, file)
        facts = os.fstat(file)
        if stat.S_ISREG(facts.st_mode) and facts.st_size <= MAX_LOGIN_BYTES:
            return os.read(file, MAX_LOGIN_BYTES)
    return None


def _has_form_of(data: bytes, original: bytes) -> bool:
    """Return whether two files are JSON with the same keys and types of values."""
    try:
        return _same_form(json.loads(data), json.loads(original))
    except (ValueError, RecursionError):
        return False


def _same_form(value: Any, original: Any) -> bool:
    if isinstance(value, dict) and isinstance(original, dict):
        return value.keys() == original.keys() and all(_same_form(value[key], original[key]) for key in value)
    if isinstance(value, list) and isinstance(original, list):
        return all(isinstance(item, str) for item in (*value, *original)) or value == original
    numbers = (int, float)
    return type(value) is type(original) or (type(value) in numbers and type(original) in numbers)


def remove(home: Path, name: str) -> None:
    """Remove a copied file if it is still below HOME; never anything elsewhere."""
    path = PurePosixPath(name)
    if not _is_below(path):
        return
    with suppress(OSError), ExitStack() as opened:
        folder = os.open(home, DIRECTORY)
        opened.callback(os.close, folder)
        for part in path.parts[:-1]:
            folder = os.open(part, DIRECTORY, dir_fd=folder)
            opened.callback(os.close, folder)
        _unlink(path.name, folder)  # first, because a client can make a folder of the other name
        _unlink(path.name + UNFINISHED, folder)


def _unlink(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _write_new(home: Path, name: str, data: bytes, keeps_existing: bool = True) -> None:
    """Write a file under a temporary name and rename it, so that a kill leaves no part. An existing file is kept, or
    makes HOME unusable."""
    path = PurePosixPath(name)
    if not _is_below(path):
        raise UserError(f"{name!r} is not a path below the client's HOME")
    with _folder(home, path.parts[:-1]) as folder:
        if _exists(path.name, folder):
            if keeps_existing:
                return
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
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
    """Open a folder below HOME, making missing ones; links are refused."""
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
    """Give a new file the owner of its folder: the agent may run as another user."""
    owner = os.fstat(like)
    if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()) and stat.S_ISDIR(owner.st_mode):
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
