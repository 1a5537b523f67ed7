"""Inside the limited process: make inert what an agent left, then look for signs in it, and print both as JSON.

Each part is one line, printed when it is done: what ends this process then costs the other part alone. Standard library
only.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from evopolicygym.analysis.limited_process import limit
from evopolicygym.sandbox.autorun import NAMES, OF_A_REPOSITORY, found_in

SIMULATORS: Final = "gymnasium|gym|mujoco|dm_control|minigrid|highway_env|Box2D|box2d|gymnasium_robotics|evopolicygym"
PATTERNS: Final = {
    "simulator_import": rf"^[ \t]*(?:import|from)[ \t]{{1,9}}(?:{SIMULATORS})\b|import_module\(\W(?:{SIMULATORS})\b",
    "install": r"\b(?:pip3?|uv|conda|npm|apt|apt-get)[ \t]{1,9}(?:-\S{1,99}[ \t]{1,9}){0,20}"
    r"(?:install|download|add)[ \t]{1,9}\S{1,99}",
    "download": r"\b(?:curl|wget|git[ \t]{1,9}clone)[ \t].{0,80}https?://(?!127\.0\.0\.1|localhost)\S{1,99}",
    "read_outside": r"ledger\.jsonl|hidden/(?:validation|heldout)|seal\.key"
    r"|/proc/(?:\d{1,9}|\*)/(?:mem|environ|maps|fd)",
    "copied_dynamics": r"\bLINK_(?:LENGTH|MASS|MOI)_?\d?|\brk4\(|\bmj_step\b|<mujoco\b|\bb2World\b"
    r"|0\.0025[ \t]{0,9}\*",
}
COMPILED: Final = {kind: re.compile(pattern) for kind, pattern in PATTERNS.items()}
OURS: Final = frozenset({"AGENTS.md", "submit.py"})
FEEDBACK: Final = "feedback"
MAX_BYTES: Final = 24 << 20  # of transcripts, and as much of the workspace
MAX_FILE_BYTES: Final = 8 << 20
LONGEST_LINE: Final = 10_000
EXAMPLE: Final = 160
READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class FoundSign:
    """``where`` is the first file it is in, ``example`` the text there."""

    kind: str
    count: int
    where: str
    example: str


class SignCounter:
    """Counted over the files of folders that a walk comes to: feedback and what we wrote ourselves aside."""

    def __init__(self) -> None:
        self._signs: dict[str, FoundSign] = {}
        self._left, self._unread = MAX_BYTES, 0

    def begin(self) -> None:
        """Another part of what the agent left, of which as much is read again."""
        self._left = MAX_BYTES

    def look_in(self, folder: ScannedFolder) -> None:
        folder.folders = sorted(set(folder.folders) - {FEEDBACK}, reverse=True)
        for name in sorted(set(folder.files) - OURS):
            text = _beginning(name, min(self._left, MAX_FILE_BYTES))
            self._left -= len(text)
            self._unread += _is_larger(name, len(text))
            self._look_at(text, folder.path(name))

    def found(self) -> list[FoundSign]:
        return [self._signs[kind] for kind in PATTERNS if kind in self._signs]

    def unread(self) -> list[str]:
        most = f"{MAX_FILE_BYTES >> 20} MiB of a file and {MAX_BYTES >> 20} MiB of all"
        return [f"what lies beyond {most}: {self._unread} files"] if self._unread else []

    def _look_at(self, text: bytes, where: str) -> None:
        for line in _lines(text):
            for kind, pattern in COMPILED.items():
                for match in pattern.finditer(line):
                    known = self._signs.get(kind) or FoundSign(kind, 0, where, match.group().strip()[:EXAMPLE])
                    self._signs[kind] = replace(known, count=known.count + 1)


def _lines(text: bytes) -> Iterator[str]:
    """Those of a text in JSON as well; long ones in pieces, and none that is no text."""
    for line in text.decode(errors="replace").replace("\\n", "\n").split("\n"):
        pieces = (line[start : start + LONGEST_LINE] for start in range(0, len(line), LONGEST_LINE))
        yield from (piece for piece in pieces if "\0" not in piece)


def _beginning(name: str, most: int) -> bytes:
    """Of a file in the current folder; nothing of what cannot be read."""
    try:
        with open(os.open(name, READ), "rb") as file:
            return file.read(most) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""


def _is_larger(name: str, read: int) -> bool:
    try:
        return os.lstat(name).st_size > read
    except OSError:
        return True


SUFFIX: Final = ".left-by-agent"
NAMED: Final = 50


class AutorunRenamer:
    """What was renamed, and what could not be."""

    def __init__(self) -> None:
        self._renamed, self._count = list[str](), 0
        self._failed, self._failures = "", 0

    def rename_in(self, folder: ScannedFolder) -> None:
        """In the current folder of this process."""
        for name in _dangerous(folder):
            target = _free(name + SUFFIX)
            try:
                _rename(name, target)
            except OSError as error:
                self._failures += 1
                self._failed = self._failed or f"{folder.path(name)}: {error.strerror}"
            else:
                folder.folders = [target if entry == name else entry for entry in folder.folders]
                self._count += 1
                self._renamed += [folder.path(name)] if self._count <= NAMED else []

    def names(self) -> list[str]:
        return [*self._renamed, *([f"and {self._count - NAMED} more"] if self._count > NAMED else [])]

    def failures(self) -> list[str]:
        if not self._failures:
            return []
        return [f"{self._failures} entries that could not be renamed (first: {self._failed}): run no git there"]


def _dangerous(folder: ScannedFolder) -> list[str]:
    """A folder that is not listed whole is asked for each name."""
    return sorted(found_in(filter(os.path.lexists, NAMES | OF_A_REPOSITORY) if folder.is_cut else folder.names))


def _free(name: str) -> str:
    return f"{name}-{secrets.token_hex(4)}" if os.path.lexists(name) else name


def _rename(name: str, target: str) -> None:
    try:
        os.rename(name, target)
    except PermissionError:  # its folder can be read and not written to
        mode = stat.S_IMODE(os.stat(".").st_mode)
        os.chmod(".", mode | stat.S_IRWXU)
        os.rename(name, target)
        os.chmod(".", mode)


FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
ENTRIES: Final = 1_000_000
SHOWN_PARTS: Final = 12
SHOWN: Final = 300


@dataclass
class ScannedFolder:
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


class FolderWalk:
    """Steps into each folder with the whole process, and out by `..`: no path is ever long, and no link is followed.
    The agent is gone, so nothing moves meanwhile."""

    def __init__(self, entries: int = ENTRIES) -> None:
        self.entries = self._remaining = entries
        self.closed = 0

    @property
    def is_cut(self) -> bool:
        return self._remaining <= 0

    def below(self, root: Path, name: str) -> Iterator[ScannedFolder]:
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

    def _list(self, parts: list[str]) -> ScannedFolder:
        folder = ScannedFolder(parts)
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


def _kind(folder: ScannedFolder, entry: os.DirEntry[str]) -> list[str]:
    if entry.is_dir(follow_symlinks=False):
        return folder.folders
    return folder.files if entry.is_file(follow_symlinks=False) else folder.others


CPU_S: Final = 60
MEMORY: Final = 1 << 30
TRANSCRIPTS: Final = "logs/agent"
WORKSPACE: Final = "workspace"
OF_THE_AGENT: Final = (WORKSPACE, "agent/home", "agent/tmp")


def main(root: str) -> None:
    limit(CPU_S, MEMORY)
    print(json.dumps(rename_autorun(Path(root))), flush=True)
    print(json.dumps(find_signs(Path(root))), flush=True)


def rename_autorun(root: Path) -> dict[str, Any]:
    """The part of ``records.run.Integrity`` that tells what was renamed, and what could not be."""
    walk, disarmed = FolderWalk(), AutorunRenamer()
    for name in OF_THE_AGENT:
        for folder in walk.below(root / name, name):
            disarmed.rename_in(folder)
    return {"signs": [], "renamed": disarmed.names(), "not_checked": [*disarmed.failures(), *_unseen(walk)]}


def find_signs(root: Path) -> dict[str, Any]:
    """The part that tells of signs, of the beginnings of transcripts and of the workspace's files."""
    walk, signs = FolderWalk(), SignCounter()
    for name in (TRANSCRIPTS, WORKSPACE):
        signs.begin()
        for folder in walk.below(root / name, name):
            signs.look_in(folder)
    return {"signs": [asdict(sign) for sign in signs.found()], "not_checked": signs.unread()}


def _unseen(walk: FolderWalk) -> list[str]:
    closed = f"{walk.closed} folders that cannot be entered" if walk.closed else ""
    cut = f"entries of the agent's folders beyond the first {walk.entries}" if walk.is_cut else ""
    return [f"{text}: run no program there that looks for its own files, such as git" for text in (closed, cut) if text]
