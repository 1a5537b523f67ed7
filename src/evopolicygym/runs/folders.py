"""Walking through folders of an agent, who may have left any: of any depth, with any names, and closed ones."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
ENTRIES: Final = 1_000_000
SHOWN_PARTS: Final = 12
SHOWN: Final = 300


@dataclass
class Folder:
    """The current folder of this process. ``others`` are links, pipes, sockets and devices. ``is_cut``: there is more
    than is listed. Whoever renames one of ``folders`` says so there, or the walk passes it over."""

    parts: list[str]
    folders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    is_cut: bool = False

    @property
    def names(self) -> Iterator[str]:
        yield from (*self.folders, *self.files, *self.others)

    def path(self, name: str) -> str:
        """For a reader: the end of it, where it is long."""
        return "/".join([*self.parts[-SHOWN_PARTS:], name])[-SHOWN:]


class Walk:
    """Steps into each folder with the whole process, and out by `..`: no path is ever long, and no link is followed.
    The agent is gone, so nothing moves meanwhile."""

    def __init__(self, entries: int = ENTRIES) -> None:
        self.entries = self._remaining = entries
        self.closed = 0

    @property
    def is_cut(self) -> bool:
        return self._remaining <= 0

    def below(self, root: Path, name: str) -> Iterator[Folder]:
        """``name`` is what ``root`` is called in paths."""
        parts = [name]
        if not self._enter(str(root)):
            return
        yield (folder := self._list(parts))
        waiting = [folder.folders]
        while waiting and not self.is_cut:
            if not waiting[-1]:
                waiting.pop()
                parts.pop()
                os.chdir("..")
            elif self._enter(inner := waiting[-1].pop()):
                parts.append(inner)
                yield (folder := self._list(parts))
                waiting.append(folder.folders)

    def _enter(self, name: str) -> bool:
        """A folder that is closed to us is opened, where it is ours."""
        try:
            _step_into(name)
        except FileNotFoundError:
            return False
        except OSError:
            try:
                if not stat.S_ISDIR(os.lstat(name).st_mode):
                    raise
                os.chmod(name, 0o700)
                _step_into(name)
            except OSError:
                self.closed += 1
                return False
        return True

    def _list(self, parts: list[str]) -> Folder:
        folder = Folder(parts)
        with os.scandir(".") as entries:
            for entry in entries:
                if self._remaining <= 0:
                    folder.is_cut = True
                    break
                self._remaining -= 1
                _kind(folder, entry).append(entry.name)
        return folder


def _step_into(name: str) -> None:
    descriptor = os.open(name, FOLDER)
    try:
        os.fchdir(descriptor)
    finally:
        os.close(descriptor)


def _kind(folder: Folder, entry: os.DirEntry[str]) -> list[str]:
    if entry.is_dir(follow_symlinks=False):
        return folder.folders
    return folder.files if entry.is_file(follow_symlinks=False) else folder.others
