"""Safe reading of untrusted files, and atomic, durable writing of our own.

The rule for reading: the user names a folder, and nothing below it is trusted. No link below it is followed, only plain
files are read, and never more than a bound. Standard library only, because limited child processes import it too.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from evopolicygym.errors import SCARCE, UserError
from evopolicygym.printable import one_line

NAMED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FOLDER: Final = NAMED | os.O_NOFOLLOW
FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # opening a pipe must not wait for a writer
FOLLOWED: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
MAX_TEXT_BYTES: Final = 1 << 20
MAX_GROWN_BYTES: Final = 4 << 30
MAX_BRACKETS: Final = 2_000_000


@contextmanager
def open_folder(root: Path, name: str = "") -> Iterator[int]:
    """Open ``root``, or the folder ``name`` below it, step by step and never through a link. Raises OSError."""
    descriptor = os.open(root, NAMED)
    try:
        for part in _parts(name):
            inner = _open(part, FOLDER, descriptor, f"{root}/{name}")
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_file(root: Path, name: str, at_most: int) -> Iterator[BufferedReader]:
    """Open a plain file of at most ``at_most`` bytes below ``root``. Raises OSError for anything else."""
    parent, _, last = name.rpartition("/")
    with open_folder(root, parent) as folder:
        descriptor = _open(last, FILE, folder, f"{root}/{name}")
    with os.fdopen(descriptor, "rb") as file:
        _check_plain(descriptor, at_most, f"{root}/{name}")
        yield file


def read_file(root: Path, name: str, at_most: int) -> bytes:
    with open_file(root, name, at_most) as file:
        return file.read(at_most)


def read_json_file(root: Path, name: str, at_most: int) -> bytes:
    """Read a file of JSON that may come from another person. Raises OSError also for more lists and tables than a
    program has memory for: an empty one takes 3 bytes of a file, and 64 in memory."""
    data = read_file(root, name, at_most)
    if data.count(b"[") + data.count(b"{") > MAX_BRACKETS:
        raise OSError(errno.EFBIG, f"more than {MAX_BRACKETS:,} lists and tables", f"{root}/{name}")
    return data


def read_text_file(path: Path, at_most: int = MAX_TEXT_BYTES) -> str:
    """Read a file that a person or a setting names, which may be a link. Raises OSError and UnicodeDecodeError."""
    with os.fdopen(_open(str(path), FOLLOWED, None, str(path)), "rb") as file:
        _check_plain(file.fileno(), at_most, str(path))
        return file.read(at_most).decode()


def real_path(path: str | Path) -> Path:
    """Return an absolute path without links, for a path in a file of settings. A link that leads to itself stays as it
    is, where ``Path.resolve`` raises RuntimeError. Raises UserError for a text that is no path."""
    try:
        return Path(os.path.realpath(path))
    except ValueError as error:  # a zero byte
        raise UserError(f"{one_line(path)} is not a path: {error}", "Name a file or a folder.") from error


def is_folder(root: Path, name: str) -> bool:
    """Return whether ``name`` is a folder below ``root`` that no link leads through."""
    try:
        with open_folder(root, name):
            return True
    except OSError:
        return False


def list_files(root: Path, name: str, at_most: int, depth: int) -> list[str]:
    """List everything below ``name`` except folders, as sorted relative paths. Raises OSError beyond the bounds."""
    paths: list[str] = []
    with open_folder(root, name) as folder:
        _list(folder, "", at_most, depth, paths)
    return sorted(paths)


def file_digests(root: Path, names: Iterable[str], at_most: int) -> dict[str, str | None]:
    """Hash files below ``root`` until ``at_most`` bytes were read in all; the others, and what cannot be read, have
    none. Files without content on the disk (sparse ones) count with their size: reading them takes as long."""
    digests: dict[str, str | None] = {}
    remaining = at_most
    for name in names:
        try:
            data = read_file(root, name, remaining)
            remaining -= len(data)
            digests[name] = hashlib.sha256(data).hexdigest()
        except OSError:
            digests[name] = None
    return digests


def _list(folder: int, prefix: str, at_most: int, depth: int, paths: list[str]) -> None:
    if depth < 0:
        raise OSError(errno.ENAMETOOLONG, "nested too deep", prefix)
    with os.scandir(folder) as scan:
        entries = list(islice(scan, at_most + 1))  # closed here, so that each level needs one descriptor
    for entry in entries:
        path = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            inner = _open(entry.name, FOLDER, folder, path)
            try:
                _list(inner, f"{path}/", at_most, depth - 1, paths)
            finally:
                os.close(inner)
        else:
            paths.append(path)
        if len(paths) > at_most:
            raise OSError(errno.EFBIG, f"more than {at_most} files", prefix)


def _parts(name: str) -> tuple[str, ...]:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise OSError(errno.EINVAL, "not a path below its folder", name)
    return path.parts


def _open(name: str, flags: int, folder: int | None, shown: str) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except ValueError:  # a zero byte, or a lone surrogate
        raise OSError(errno.EINVAL, "not a name of a file", shown) from None
    except OSError as error:
        is_link = error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(name, folder)
        raise OSError(error.errno, "a link, which is not followed" if is_link else error.strerror, shown) from None


def _is_link(name: str, folder: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _check_plain(descriptor: int, at_most: int, shown: str) -> None:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "not a plain file", shown)
    if facts.st_size > at_most:
        raise OSError(errno.EFBIG, f"larger than {at_most} bytes", shown)


def is_shortage(error: BaseException | None) -> bool:
    """Return whether an error is a shortage of descriptors or memory, which says nothing about the file."""
    return isinstance(error, OSError) and error.errno in SCARCE


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file. Readers see the old content or the new one, never a part."""
    try:
        _write_staged(path, data)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # not the temporary name
        raise


def _write_staged(path: Path, data: bytes) -> None:
    descriptor, staged = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(staged, path)
    except BaseException:
        os.unlink(staged)
        raise


def write_json(path: Path, facts: Any) -> None:
    write_atomic(path, json.dumps(facts, indent=1, allow_nan=False).encode() + b"\n")


def sync_tree(folder: Path) -> None:
    """Sync all files, then folders from the inside out, so that a power loss loses none of it."""
    for parent, _, names in os.walk(folder, topdown=False):
        for path in (*(os.path.join(parent, name) for name in names), parent):
            sync(path)


def sync(path: str | Path) -> None:
    """Sync one file, or the names in one folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_unnamed(folder: Path) -> IO[bytes]:
    """Open a new file without a name on the disk of ``folder``, for writing and reading.

    It disappears when it is closed, unless ``link_unnamed`` gave it a name: a process that is killed while writing
    leaves no file behind."""
    try:
        return open(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666), "w+b")
    except OSError:
        return tempfile.TemporaryFile(dir=folder)  # has a name for a moment; raises if the folder itself is the problem


def link_unnamed(file: IO[bytes], path: Path) -> None:
    """Give a file of ``open_unnamed`` its name; replaces what an earlier attempt left there.

    If the file system cannot do that (NFS, FUSE), the file is copied, and a kill during the copy leaves
    ``.NAME.part``."""
    file.flush()
    path.unlink(missing_ok=True)
    descriptor = file.fileno()
    try:
        # src_dir_fd has no effect on an absolute path, but only with it does Python follow the link.
        os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor)
    except OSError:
        _copy_to_name(file, path)


def _copy_to_name(file: IO[bytes], path: Path) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        with open(part, "wb") as copy:
            file.seek(0)
            shutil.copyfileobj(file, copy, 1 << 20)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


class GrowingFile:
    """A file of lines below ``root`` that another process appends to. Each look returns the lines that were completed
    since the last one. The file may be missing yet, be replaced, or be written by an agent: no link is followed, and a
    line of more than ``at_most`` bytes is left out."""

    def __init__(self, root: Path, name: str, at_most: int) -> None:
        self._root, self._name, self._at_most = root, name, at_most
        self._offset, self._inode = 0, 0

    def lines(self, is_over: bool = False) -> list[bytes]:
        """Return new complete lines; an incomplete last one, too, if ``is_over``: then it stays as it is."""
        try:
            with open_file(self._root, self._name, MAX_GROWN_BYTES) as file:
                facts = os.fstat(file.fileno())
                if facts.st_ino != self._inode or facts.st_size < self._offset:
                    self._offset, self._inode = 0, facts.st_ino
                file.seek(self._offset)
                while b"\n" not in (data := file.read(self._at_most)) and file.tell() < facts.st_size:
                    self._offset += len(data)
        except OSError:
            return []
        end = len(data) if is_over and len(data) < self._at_most else data.rfind(b"\n") + 1
        self._offset += end
        return data[:end].splitlines()
