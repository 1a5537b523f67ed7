"""Locks of a run: one process owns a run folder; and on one machine, agents and hidden cases exclude each other.

`RunLock` is an advisory lock on the run folder that dies with its holder.

`living_agent_lock` and `hidden_cases_lock` exclude each other for the same task and splits. Hidden cases cause load,
and every process can read the kernel's counters: an agent that is alive meanwhile could learn something of them.
Several agents may be alive together, and several runs may be scored together. Each holder has its own file and an flock
on it, which dies with the process; the next claimant removes the files of dead holders.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import secrets
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from evopolicygym.errors import UserError
from evopolicygym.judge.shortage import WAIT_OVER, WAITING_PREFIX, to_stderr
from evopolicygym.run_paths import LOCK

LOCK_TIMEOUT_S: Final = 0.5  # of a suite: a status command holds each lock for an instant
RETRY_S: Final = 0.01
VARIABLE: Final = "EVOPOLICYGYM_LOCKS"
POLL_S: Final = 0.2
MUTEX: Final = "mutex"
LONGEST_LABEL: Final = 4096  # bytes read of another holder's file
NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
Notify = Callable[[str], object]


class RunIsOwned(UserError):
    """Another process owns the run."""


class RunLock:
    """Ownership of a run folder. Raise RunIsOwned if another process holds it after ``patience_s`` seconds."""

    def __init__(self, root: Path, patience_s: float = 0.0) -> None:
        self._file = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
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


class CaseUse(StrEnum):
    """Use that a process makes of the cases of a task. A process that waits to score keeps new agents out; otherwise a
    stream of agents could keep it waiting forever."""

    AGENT = "agent"
    WAITING = "waiting"
    HIDDEN = "hidden"


EXCLUDED_BY: Final = {CaseUse.AGENT: (CaseUse.HIDDEN, CaseUse.WAITING), CaseUse.HIDDEN: (CaseUse.AGENT,)}


@dataclass(frozen=True)
class CaseSet:
    """The cases of a task and splits: runs with an equal set play the same hidden cases."""

    task: str
    splits: str

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.task}\0{self.splits}".encode()).hexdigest()[:32]


@contextmanager
def hidden_cases_lock(cases: CaseSet, label: str, remedy: str, notify: Notify | None = None) -> Iterator[None]:
    """Wait until no agent on these cases is alive, and let none start until the block is left.

    Args:
        cases: Task and splits of the hidden cases that the block plays.
        label: The run's folder, or the command: shown to processes that wait for this one.
        remedy: What a person who does not want to wait can do.
        notify: Gets one message if there is a wait, and one when it is over (default: stderr).
    """
    why = f"hidden cases of {cases.task} are not played while an agent on the same cases is alive on this machine"
    with _Claim(cases, CaseUse.HIDDEN, label) as claim:
        for _ in claim.attempts(why, remedy, notify or to_stderr):
            time.sleep(POLL_S)
        yield


@asynccontextmanager
async def living_agent_lock(
    cases: CaseSet, label: str, remedy: str, notify: Notify | None = None
) -> AsyncIterator[None]:
    """Wait until no process plays hidden cases of this task and splits or waits to do so, and let none begin until the
    block is left. The agent must have ended by then. For the arguments see `hidden_cases_lock`."""
    why = f"no agent starts on {cases.task} while hidden cases of it are played on this machine, or are next"
    with _Claim(cases, CaseUse.AGENT, label) as claim:
        for _ in claim.attempts(why, remedy, notify or to_stderr):
            await asyncio.sleep(POLL_S)
        yield


class _Claim:
    """The claim of one process, held or waiting. Leaving the block releases it."""

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

    def attempts(self, why: str, remedy: str, notify: Notify) -> Iterator[None]:
        """Try to get the claim; end when it is held. The caller sleeps at each step."""
        began, has_waited = time.monotonic(), False
        while (others := self._attempt()) is None or others:
            if others and not has_waited:
                notify(f"{WAITING_PREFIX}{why}: {', '.join(others)}. {remedy}")
                has_waited = True
            yield
        if has_waited:
            notify(f"{WAIT_OVER} after {time.monotonic() - began:.0f} s")

    def _attempt(self) -> list[str] | None:
        """Return the holders that exclude this claim; an empty list if the claim is held now; None if the folder is
        busy at this moment."""
        try:
            with _mutex(self._folder) as is_held:
                if not is_held:
                    return None
                others = [other for use in EXCLUDED_BY[self._use] for other in self._holders(use)]
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
        """Return the label of a living holder. Return None for a dead one, and remove its file."""
        try:
            file = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)
        except FileNotFoundError:
            return None  # released at this moment
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
    """Return the folder of the user's locks. It does not depend on TMPDIR: all runs of a user on a machine share it."""
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
        f"the lock folder of this machine cannot be used: {path}: {why}",
        f"It keeps hidden cases from being played while agents are alive. Remove what is there, or name a folder of "
        f"your own with {VARIABLE}, the same for all runs.",
    )


@contextmanager
def _mutex(folder: int) -> Iterator[bool]:
    """Yield whether the mutex is held, which it is for an instant. Never waits: the caller may be an event loop."""
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
