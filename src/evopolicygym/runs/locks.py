"""On one machine either agents live or hidden cases are played, of one task and splits: never both at a time.

Hidden cases make load, and what the kernel counts can be read by everybody: an agent that lives beside them could learn
of them. Agents of several runs may live together, and several runs may be scored together. Every holder has a file of
its own and an flock on it, which dies with the process; what dead holders leave is removed by whoever comes next.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import secrets
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from evopolicygym.errors import UserError

VARIABLE: Final = "EVOPOLICYGYM_LOCKS"
POLL_S: Final = 0.2
MUTEX: Final = "mutex"
WAITING_PREFIX: Final = "waiting: "  # begins the message of who waits; a suite shows it in its table
GOES_ON: Final = "the wait is over"
LONGEST_LABEL: Final = 4096  # bytes read of another holder's file
NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Notify = Callable[[str], object]


class CaseUse(StrEnum):
    """What a process does with the cases of a task. A scorer that waits keeps new agents out, or a stream of them could
    keep it waiting for ever."""

    AGENT = "agent"
    WAITING = "waiting"
    HIDDEN = "hidden"


BARRED_BY: Final = {CaseUse.AGENT: (CaseUse.HIDDEN, CaseUse.WAITING), CaseUse.HIDDEN: (CaseUse.AGENT,)}


@dataclass(frozen=True)
class CaseSet:
    """Whose cases: runs of equal task and splits play the same hidden ones."""

    task: str
    splits: str

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.task}\0{self.splits}".encode()).hexdigest()[:32]


@contextmanager
def hidden_cases_lock(cases: CaseSet, label: str, remedy: str, tell: Notify | None = None) -> Iterator[None]:
    """Wait until no agent on these cases is alive, and let none start until the block is left.

    Args:
        cases: task and splits of the hidden cases that the block plays.
        label: the run's folder, or the command: shown to those who wait for us.
        remedy: what a person who does not want to wait can do.
        tell: gets one message if there is somebody to wait for, and one when the wait is over; default stderr.
    """
    why = f"hidden cases of {cases.task} are not played while an agent on the same cases is alive on this machine"
    with _Claim(cases, CaseUse.HIDDEN, label) as claim:
        for _ in claim.attempts(why, remedy, tell or to_stderr):
            time.sleep(POLL_S)
        yield


@asynccontextmanager
async def living_agent_lock(cases: CaseSet, label: str, remedy: str, tell: Notify | None = None) -> AsyncIterator[None]:
    """Wait until nobody plays hidden cases of this task and splits or waits to do so, and keep them from it until the
    block is left: by then the agent must be dead. Arguments as of ``hidden_cases``."""
    why = f"no agent starts on {cases.task} while hidden cases of it are played on this machine, or are next"
    with _Claim(cases, CaseUse.AGENT, label) as claim:
        for _ in claim.attempts(why, remedy, tell or to_stderr):
            await asyncio.sleep(POLL_S)
        yield


def to_stderr(text: str) -> None:
    with suppress(OSError):  # a reader that left costs nobody a score
        print(text, file=sys.stderr, flush=True)


class _Claim:
    """One holder, or one who waits. Leaving the block lets go of everything."""

    def __init__(self, cases: CaseSet, use: CaseUse, label: str) -> None:
        self._key, self._use, self._label = cases.key, use, label
        self._folder = _folder()
        self._held: dict[CaseUse, tuple[str, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for use in list(self._held):
            self._drop(use)
        os.close(self._folder)

    def attempts(self, why: str, remedy: str, tell: Notify) -> Iterator[None]:
        """Ends when the claim is held. The caller sleeps at each step."""
        began, told = time.monotonic(), False
        while (others := self._attempt()) is None or others:
            if others and not told:
                tell(f"{WAITING_PREFIX}{why}: {', '.join(others)}. {remedy}")
                told = True
            yield
        if told:
            tell(f"{GOES_ON} after {time.monotonic() - began:.0f} s")

    def _attempt(self) -> list[str] | None:
        """Who is in the way; nobody: the claim is held now. None: not to be known in this moment."""
        try:
            with _mutex(self._folder) as is_ours:
                if not is_ours:
                    return None
                others = [other for use in BARRED_BY[self._use] for other in self._holders(use)]
                if not others:
                    self._hold(self._use)
                elif self._use is CaseUse.HIDDEN:
                    self._hold(CaseUse.WAITING)
        except OSError as error:
            raise _unusable(str(folder_path()), error.strerror or str(error)) from error
        if not others:
            self._drop(CaseUse.WAITING)
        return others

    def _holders(self, use: CaseUse) -> Iterator[str]:
        for name in sorted(os.listdir(self._folder)):
            if name.startswith(f"{self._key}.{use}.") and (label := self._living(name)):
                yield label

    def _living(self, name: str) -> str | None:
        """What a holder says of itself; None if it is dead, and then its file is removed."""
        try:
            file = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)
        except FileNotFoundError:
            return None  # it left in this moment
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _printable(os.read(file, LONGEST_LABEL)) or "a process"
        finally:
            os.close(file)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)
        return None

    def _hold(self, use: CaseUse) -> None:
        if use in self._held:
            return
        name = f"{self._key}.{use}.{os.getpid()}-{secrets.token_hex(4)}"
        file = os.open(name, NEW, 0o600, dir_fd=self._folder)
        self._held[use] = (name, file)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(file, f"process {os.getpid()} ({use}: {self._label})".encode(errors="replace"))

    def _drop(self, use: CaseUse) -> None:
        if use in self._held:
            name, file = self._held.pop(use)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._folder)
            os.close(file)


def folder_path() -> Path:
    """Of the user, whatever TMPDIR says: all runs of one user on one machine must meet here."""
    return Path(os.environ.get(VARIABLE) or f"/tmp/evopolicygym-{os.geteuid()}")


def _folder() -> int:
    path = folder_path()
    try:
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _unusable(str(path), error.strerror or str(error)) from error
    facts = os.fstat(folder)
    if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o022:
        os.close(folder)
        raise _unusable(str(path), "it belongs to another user, or others may write there")
    return folder


def _unusable(path: str, why: str) -> UserError:
    return UserError(
        f"the folder of this machine's locks cannot be used: {path}: {why}",
        f"It keeps hidden cases from being played while agents are alive. Remove what is there, or name a folder of "
        f"your own with {VARIABLE}, the same for all runs.",
    )


@contextmanager
def _mutex(folder: int) -> Iterator[bool]:
    """Whether it is ours; held for an instant. It is never waited for here: an event loop may be the caller."""
    file = os.open(MUTEX, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(file)


def _printable(label: bytes) -> str:
    return "".join(char if char.isprintable() else "?" for char in label.decode(errors="replace"))


LOCK_FILE: Final = ".lock"
PATIENCE_S: Final = 0.5  # in a suite: somebody who looks how it stands holds each lock for an instant
RETRY_S: Final = 0.01


class RunIsOwned(UserError):
    """Another process owns the run."""


class RunLock:
    def __init__(self, root: Path, patience_s: float = 0.0) -> None:
        self._file = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if not _locked(self._file, time.monotonic() + patience_s):
            os.close(self._file)
            raise RunIsOwned(
                f"another process owns the run {root}",
                f"Wait until it ends, or let it close and score the run now: `evopolicygym finish {root}`. "
                "A run that `serve` owns takes submissions in its workspace.",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._file)


def _locked(file: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(RETRY_S)
