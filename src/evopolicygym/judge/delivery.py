"""The agent's copy of its feedback: written into a folder that the agent owns, may have replaced, and may be watching.

Every name is resolved by descriptor and never through a link, so nothing that the agent puts there can steer a write
outside of its workspace. What cannot be delivered is not: the judge's own copy is the one that counts.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from evopolicygym.files import open_file

FOLDER: Final = "feedback"
MAX_DEPTH: Final = 4
MAX_FILE_BYTES: Final = 1 << 30  # many times what an episode may record
NO_FOLLOW: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class DeliveryFailed(Exception):
    """The agent's copy could not be written, and why."""


def copy_to_workspace(source: Path, workspace: Path) -> None:
    """Copy one finished feedback folder, under the same name. One that is there already is left alone."""
    try:
        with _folder(workspace) as space, _own_folder(space, FOLDER) as feedback:
            if not _exists(feedback, source.name):
                _copy_in(source, feedback)
    except OSError as error:
        raise DeliveryFailed(f"{source.name} could not be copied to the workspace: {error}") from error


def replace_file(workspace: Path, name: str, data: bytes) -> None:
    """A file of the workspace that the judge maintains, such as the address of the door."""
    with _folder(workspace) as space:
        staged = f".{name}-{secrets.token_hex(8)}"
        with open(os.open(staged, NEW_FILE, 0o644, dir_fd=space), "wb") as file:
            file.write(data)
        if _is_folder(space, name):
            os.rename(name, f"{name}-{secrets.token_hex(4)}", src_dir_fd=space, dst_dir_fd=space)
        os.rename(staged, name, src_dir_fd=space, dst_dir_fd=space)


@contextmanager
def _folder(path: Path | str, parent: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, NO_FOLLOW, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _own_folder(parent: int, name: str) -> Iterator[int]:
    """A real folder of that name that can be written to; what stands in its place is moved aside, not followed."""
    if _exists(parent, name) and not _is_folder(parent, name):
        os.rename(name, f"{name}-{secrets.token_hex(4)}", src_dir_fd=parent, dst_dir_fd=parent)
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=parent)
    with _folder(name, parent) as descriptor:
        if not os.fstat(descriptor).st_mode & stat.S_IWUSR:
            os.fchmod(descriptor, 0o755)
        yield descriptor


def _copy_in(source: Path, feedback: int) -> None:
    """Complete before it has its name."""
    staged = f".{source.name}-{secrets.token_hex(8)}"
    os.mkdir(staged, 0o700, dir_fd=feedback)
    try:
        with _folder(staged, feedback) as target:
            _copy_tree(source, target)
            os.fchmod(target, 0o555)
            os.rename(staged, source.name, src_dir_fd=feedback, dst_dir_fd=feedback)
    except OSError:
        with suppress(OSError):
            _take_back(source, staged, feedback)
        raise


def _take_back(source: Path, name: str, parent: int) -> None:
    """What was copied, and nothing else: an agent could put there what has no end."""
    entries = list(os.scandir(source))
    with _folder(name, parent) as copy:
        os.fchmod(copy, 0o700)
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    _take_back(Path(entry.path), entry.name, copy)
                else:
                    os.unlink(entry.name, dir_fd=copy)
    os.rmdir(name, dir_fd=parent)


def _copy_tree(source: Path, target: int, depth: int = MAX_DEPTH) -> None:
    if depth < 0:
        raise OSError(errno.ENAMETOOLONG, "nested too deep", str(source))
    for entry in sorted(os.scandir(source), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            os.mkdir(entry.name, 0o700, dir_fd=target)
            with _folder(entry.name, target) as inner:
                _copy_tree(Path(entry.path), inner, depth - 1)
                os.fchmod(inner, 0o555)
        else:
            _copy_file(source, entry.name, target)


def _copy_file(folder: Path, name: str, target: int) -> None:
    """The folder of a run that is taken up may come from elsewhere: a link in it leads nowhere."""
    with (
        open_file(folder, name, MAX_FILE_BYTES) as original,
        open(os.open(name, NEW_FILE, 0o444, dir_fd=target), "wb") as copy,
    ):
        shutil.copyfileobj(original, copy, 1 << 20)


def _exists(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _is_folder(parent: int, name: str) -> bool:
    return _exists(parent, name) and stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
