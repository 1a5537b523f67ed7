"""Checkpoints: immutable copies of a policy folder, named by the hash of their content.

Files are copied by content, and entries whose meaning could change later (links, special files) are refused. A tree
that an agent can still change is never shown to a jail. Files that programs execute by themselves are left out, so that
a person who opens a checkpoint to read it runs nothing of the agent's.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evopolicygym.errors import UserError

MAX_BYTES: Final = 64 << 20
MAX_FILES: Final = 4_000
MAX_DEPTH: Final = 16
MAX_NAME_BYTES: Final = 200
HASH: Final = re.compile(r"[0-9a-f]{64}")
STAGED: Final = ".staged-"
STRIPPED_FOLDERS: Final = frozenset({"__pycache__"})
STRIPPED_SUFFIXES: Final = (".pyc", ".pyo")
# A time of last access that reading does not change (relatime): otherwise episodes could see what earlier ones read.
NEVER: Final = 4_102_444_800
NO_FOLLOW: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class SnapshotRefused(Exception):
    """The folder cannot become a checkpoint; the text says why."""


@dataclass(frozen=True)
class Checkpoint:
    """A stored tree. ``uses_scipy`` decides only what is loaded in advance, never what may be imported."""

    hash: str
    files: int
    bytes: int
    has_policy: bool
    uses_scipy: bool

    def __post_init__(self) -> None:
        """Check the values: the hash names a folder, and records from elsewhere are read into this class, too."""
        if not HASH.fullmatch(self.hash) or not (0 <= self.files <= MAX_FILES and 0 <= self.bytes <= MAX_BYTES):
            raise ValueError("not a checkpoint: the hash must be a sha256 and the sizes within the limits")


class CheckpointAltered(UserError):
    """A stored checkpoint is missing, or differs from what was submitted."""

    def __init__(self, checkpoint: Checkpoint, content: str) -> None:
        problem = f"is not what was submitted ({content[:200]})" if content else "is missing"
        super().__init__(f"checkpoint {checkpoint.hash[:16]} {problem}", "Nothing of it was played.")


class CheckpointStore:
    """A folder of content-addressed, read-only trees, created when the first one is stored."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, checkpoint: Checkpoint) -> Path:
        return self.root / checkpoint.hash

    def snapshot(
        self, source: Path, settle: Callable[[Path], None] = lambda _: None, is_stored: bool = False
    ) -> Checkpoint:
        """Copy ``source``. Raises SnapshotRefused for links, special files, and more than the limits allow. ``settle``
        is called with the copy before it gets its name, so that a named checkpoint is always complete. ``is_stored``:
        ``source`` is a checkpoint already, so no entry is left out."""
        self.root.mkdir(parents=True, exist_ok=True)
        staged = tempfile.mkdtemp(prefix=STAGED, dir=self.root)
        try:
            checkpoint = _Copy(staged, is_stored).tree(source)
            settle(Path(staged))
            self._publish(staged, checkpoint.hash)
        except BaseException:
            remove_tree(staged)
            raise
        return checkpoint

    def check(self, checkpoint: Checkpoint) -> int:
        """Raise CheckpointAltered unless the stored folder still holds what its name says. Return its bytes."""
        number = 0
        with tempfile.TemporaryDirectory(prefix="evopolicygym-") as copy:
            try:
                stored = CheckpointStore(Path(copy)).snapshot(self.folder(checkpoint), is_stored=True)
                content, number = stored.hash, stored.bytes
            except SnapshotRefused as error:
                content = "" if not self.folder(checkpoint).exists() else str(error)
            finally:
                remove_tree(copy)
        if content != checkpoint.hash:
            raise CheckpointAltered(checkpoint, content)
        return number

    def _publish(self, staged: str, name: str) -> None:
        os.chmod(staged, 0o755)
        try:
            os.rename(staged, self.root / name)
        except OSError:
            if not (self.root / name).is_dir():
                raise
            remove_tree(staged)  # the same content is there already
        os.chmod(self.root / name, 0o555)
        os.utime(self.root / name, (NEVER, 0))


class _Copy:
    """One walk over an untrusted tree, by descriptors: checks and copies use the same open file, so renames do not help
    an attacker."""

    def __init__(self, target: str, is_stored: bool) -> None:
        self._target, self._is_stored = target, is_stored
        self._files = self._bytes = 0
        self._manifest: list[str] = []
        self._uses_scipy = False

    def tree(self, source: Path) -> Checkpoint:
        try:
            descriptor = os.open(source, NO_FOLLOW | os.O_DIRECTORY)
        except OSError as error:
            raise SnapshotRefused(f"{source} is not a folder that can be read: {error.strerror}") from error
        try:
            self._folder(descriptor, "", self._target, 0)
        finally:
            os.close(descriptor)
        digest = hashlib.sha256("\n".join(sorted(self._manifest)).encode()).hexdigest()
        has_policy = os.path.isfile(os.path.join(self._target, "policy.py"))
        return Checkpoint(digest, self._files, self._bytes, has_policy, self._uses_scipy)

    def _folder(self, descriptor: int, prefix: str, target: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise SnapshotRefused(f"{prefix} is nested more than {MAX_DEPTH} folders deep")
        present = os.listdir(descriptor)
        left_out = set[str]() if self._is_stored else autorun_names(present)
        for name in sorted(set(present) - left_out):
            path = prefix + name
            self._check_name(name, path)
            if _is_folder(name, path, descriptor):
                if name not in STRIPPED_FOLDERS:
                    self._subfolder(descriptor, name, path, target, depth)
            elif not name.endswith(STRIPPED_SUFFIXES):
                self._file(descriptor, name, path, target)

    def _subfolder(self, parent: int, name: str, path: str, target: str, depth: int) -> None:
        try:
            descriptor = os.open(name, NO_FOLLOW | os.O_DIRECTORY, dir_fd=parent)
        except OSError as error:
            raise SnapshotRefused(f"{path} cannot be read: {error.strerror}") from error
        try:
            self._count(path)
            copy = os.path.join(target, name)
            os.mkdir(copy, 0o755)
            self._manifest.append(f"folder {path}")
            self._folder(descriptor, f"{path}/", copy, depth + 1)
            os.chmod(copy, 0o555)
            os.utime(copy, (NEVER, 0))
        finally:
            os.close(descriptor)

    def _file(self, parent: int, name: str, path: str, target: str) -> None:
        try:
            source = os.open(name, NO_FOLLOW | os.O_NONBLOCK, dir_fd=parent)
        except OSError as error:
            kind = "is a symbolic link" if error.errno == 40 else f"cannot be read: {error.strerror}"
            raise SnapshotRefused(f"{path} {kind}; a policy folder may hold plain files and folders only") from error
        with os.fdopen(source, "rb") as file:
            self._check_file(os.fstat(source), path)
            digest = self._contents(file.read(MAX_BYTES - self._bytes + 1), os.path.join(target, name), path)
        self._manifest.append(f"{digest} {path}")

    def _contents(self, data: bytes, target: str, path: str) -> str:
        self._bytes += len(data)
        if self._bytes > MAX_BYTES:
            raise SnapshotRefused(f"the folder holds more than {MAX_BYTES >> 20} MiB (reached at {path})")
        self._uses_scipy |= path.endswith(".py") and b"scipy" in data
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444), "wb") as copy:
            copy.write(data)
        os.utime(target, (NEVER, 0))
        return hashlib.sha256(data).hexdigest()

    def _check_file(self, facts: os.stat_result, path: str) -> None:
        self._count(path)
        if not stat.S_ISREG(facts.st_mode):
            raise SnapshotRefused(f"{path} is not a plain file; a policy folder may hold plain files and folders only")
        if facts.st_nlink != 1:
            raise SnapshotRefused(f"{path} is a hard link to another file; copy the file instead")

    def _count(self, path: str) -> None:
        self._files += 1
        if self._files > MAX_FILES:
            raise SnapshotRefused(f"the folder holds more than {MAX_FILES} files and folders (reached at {path})")

    def _check_name(self, name: str, path: str) -> None:
        if len(os.fsencode(name)) > MAX_NAME_BYTES or not name.isprintable():
            raise SnapshotRefused(f"{path!r} is not a name that a policy folder may hold")


def _is_folder(name: str, path: str, parent: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError as error:
        raise SnapshotRefused(f"{path} cannot be read: {error.strerror}") from error


def sweep(parent: Path) -> None:
    """Remove unfinished copies of a killed process."""
    for leftover in parent.glob(f"{STAGED}*"):
        remove_tree(leftover)


def remove_tree(folder: str | Path) -> None:
    """Remove a tree, also if its folders are read-only, or whatever else has its name. Of a link, remove the link and
    not its target."""
    if os.path.islink(folder) or (os.path.exists(folder) and not os.path.isdir(folder)):
        os.unlink(folder)
        return
    with suppress(OSError):
        os.chmod(folder, 0o755)
    for parent, inner, _ in os.walk(folder):  # which looks into a folder after it has listed the one around it
        for name in inner:
            if not os.path.islink(path := os.path.join(parent, name)):
                with suppress(OSError):
                    os.chmod(path, 0o755)
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
        return
    with suppress(OSError):
        _flatten(Path(folder))
        os.rmdir(folder)


def _flatten(folder: Path) -> None:
    """Empty a folder that is nested too deep for recursion: inner folders are moved up before they are removed, so that
    no path grows."""
    number = 0
    while inner := [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]:
        for path in inner:
            os.chmod(path, 0o755)
            for entry in list(os.scandir(path)):
                if entry.is_dir(follow_symlinks=False):
                    number += 1
                    os.rename(entry.path, folder / f".moved-{number}")
                else:
                    os.unlink(entry.path)
            os.rmdir(path)
    for entry in list(os.scandir(folder)):
        os.unlink(entry.path)


# Names of files that other programs execute by themselves when a person enters a folder: repositories of version
# control, whose settings name programs (`core.fsmonitor`), and files of shells, debuggers, editors and coding agents.
REPOSITORIES: Final = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".fslckout", "_darcs", "_fossil_"})
SHELLS: Final = frozenset({
    ".envrc", ".direnv", ".env", ".autoenv", ".autoenv.zsh", ".autoenv_leave.zsh", ".mise", ".mise.toml", "mise.toml",
    ".mise.local.toml", "mise.local.toml", ".rtx.toml", ".tool-versions", ".flox", ".lando.yml",
})  # fmt: skip
EDITORS: Final = frozenset({
    ".vscode", ".idea", ".fleet", ".zed", ".devcontainer", ".devcontainer.json", ".dir-locals.el", ".dir-locals-2.el",
    ".exrc", ".vimrc", ".lvimrc", ".nvimrc", ".nvim.lua", ".projectile",
})  # fmt: skip
DEBUGGERS: Final = frozenset({".gdbinit", ".lldbinit", ".pdbrc"})
# Not files that they only read (AGENTS.md, CLAUDE.md, GEMINI.md): a run's own instructions have these names.
CODING_AGENTS: Final = frozenset({".claude", ".mcp.json", ".cursor", ".codex", ".gemini", ".opencode"})
AUTORUN_NAMES: Final = REPOSITORIES | SHELLS | EDITORS | DEBUGGERS | CODING_AGENTS
HEAD: Final = "HEAD"  # without it, git does not take a folder for a repository
# With one of these sets of names beside HEAD, it does.
BESIDE_HEAD: Final = (frozenset({"objects", "refs"}), frozenset({"commondir"}))
BARE_REPOSITORY_NAMES: Final = frozenset({HEAD}).union(*BESIDE_HEAD)


def autorun_names(names: Iterable[str]) -> set[str]:
    """Return those of the names in one folder that make a program execute something; for a bare repository, HEAD."""
    present = {name for name in names if name.casefold() in AUTORUN_NAMES or name in BARE_REPOSITORY_NAMES}
    is_bare = HEAD in present and any(beside <= present for beside in BESIDE_HEAD)
    return {name for name in present if name.casefold() in AUTORUN_NAMES} | ({HEAD} if is_bare else set())
