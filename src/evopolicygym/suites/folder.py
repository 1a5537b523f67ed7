"""The folder of a suite: its resolved file, its runs, their logs, and superseded attempts.

A log holds the output of a run's process, and lines by the scheduler that say when each attempt began and ended.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import IO, Final

from evopolicygym.analysis.loading import SUPERSEDED
from evopolicygym.errors import UserError
from evopolicygym.files import read_file
from evopolicygym.judge.shortage import WAITING_PREFIX
from evopolicygym.run_paths import LOCK, RunPaths
from evopolicygym.runs.locks import RunIsOwned, RunLock
from evopolicygym.runs.run_status import has_begun, read_state
from evopolicygym.runs.settings import RunSettings
from evopolicygym.suites.file import PlannedRun

FILE: Final = "suite.toml"
BEGUN: Final = "=== begun"
TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
ENDED: Final = re.compile(r"=== ended, exit code (-?[0-9]{1,3})\b")
MAX_LOG_BYTES: Final = 64 << 20
MAX_SUPERSEDED_BYTES: Final = 1 << 30  # of the ledgers of superseded attempts: a suite leaves far less
ERROR_PREFIX: Final = "evopolicygym: "
GAVE_UP: Final = 1
STOPPED: Final = 128 + signal.SIGTERM  # exit code of a run that was asked to stop


@dataclass(frozen=True)
class SuiteFolder:
    root: Path

    @property
    def file(self) -> Path:
        return self.root / FILE

    @property
    def table(self) -> Path:
        return self.root / "suite.json"

    def run(self, name: str) -> Path:
        return self.root / "runs" / name

    def log(self, name: str) -> Path:
        """The output of a run's process, all attempts one after another."""
        return self.root / "logs" / f"{name}.log"

    def superseded(self) -> dict[str, list[Path]]:
        """Return the attempts that were moved out of the way, by the name of their run: one look for all runs. Raise
        UserError if there is more to read than a suite can leave."""
        attempts: dict[str, list[Path]] = {}
        total = 0
        for path in sorted((self.root / SUPERSEDED).glob("*__[0-9]*")):
            if not path.is_symlink():
                attempts.setdefault(path.name.rpartition("__")[0], []).append(path)
                total += size_of(RunPaths(path).ledger)
        if total > MAX_SUPERSEDED_BYTES:
            raise UserError(
                f"the ledgers in {self.root / SUPERSEDED} have {total >> 20} MiB; at most "
                f"{MAX_SUPERSEDED_BYTES >> 20} MiB are read",
                "Move attempts that you no longer need to another folder.",
            )
        return attempts

    def others(self, planned: Iterable[PlannedRun]) -> list[str]:
        """Return the runs in this folder that are not part of the suite."""
        names = {run.name for run in planned}
        return sorted(path.name for path in (self.root / "runs").glob("*") if path.name not in names)

    def make(self) -> None:
        """Make missing folders. Raise UserError for a link below the suite's folder, through which runs and logs would
        be written elsewhere: the folder may come from another person."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.root / "runs", self.root / "logs", self.root / SUPERSEDED):
            if folder.is_symlink():
                raise UserError(
                    f"{folder} is a link, which is not followed", "Make it a folder, or link the whole suite."
                )
            folder.mkdir(mode=0o700, exist_ok=True)

    def supersede(self, name: str) -> None:
        """Move an attempt that has no score out of the way of the next one; it stays as evidence."""
        names = (self.root / SUPERSEDED / f"{name}__{number}" for number in count(1))
        os.rename(self.run(name), next(path for path in names if not os.path.lexists(path)))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the suite's lock, so that one scheduler at a time works on it. The lock ends with its process."""
        lock = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                remedy = f"`evopolicygym suite status {shlex.quote(str(self.root))}` shows its progress."
                raise UserError(f"another process works on the suite in {self.root}", remedy) from None
            yield
        finally:
            os.close(lock)


def is_owned(run: Path) -> bool:
    """Whether a process works on a run. A symbolic link in a suite's folder is not one of its runs. Nothing is made:
    the folder may come from another person, and lead elsewhere."""
    if run.is_symlink() or not os.path.lexists(run / LOCK):
        return False
    try:
        with RunLock(run):
            return False
    except RunIsOwned:
        return True
    except OSError:
        return False  # missing, or not accessible to this user


def check_unchanged(folder: SuiteFolder, planned: Iterable[PlannedRun]) -> None:
    """Refuse to continue runs under settings other than those they began with."""
    changes: dict[str, list[str]] = {}
    for run in planned:
        root = folder.run(run.name)
        for difference in _differences(root, run.settings) if has_begun(root) else ():
            changes.setdefault(difference, []).append(run.name)
    if changes:
        lines = [f"  {difference} ({_some(names)})" for difference, names in changes.items()]
        raise UserError(
            f"{folder.root} holds runs of this suite with other settings:\n" + "\n".join(lines),
            "Nothing was started. Undo the change, give the changed agent another name in the suite file, or start "
            "a new suite in another folder with --folder.",
        )


def _differences(root: Path, settings: RunSettings) -> list[str]:
    """Return how settings differ. A run whose settings cannot be read has no differences: that run fails when it
    starts, and the other runs continue."""
    try:
        return RunSettings.read(root).differences(settings) + _other_cases(root, settings)
    except UserError:
        return []


def _other_cases(root: Path, settings: RunSettings) -> list[str]:
    """Return a difference when the run was opened with another sealing key."""
    opened = read_state(root).opened
    assert opened is not None
    before, now = opened.facts["ids"]["splits_id"], settings.splits().id
    return [] if before == now else [f"the cases are {before} there, {now} here: by another sealing key"]


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


@dataclass(frozen=True)
class Attempt:
    """One attempt at a run. ``reason`` is None if it succeeded or was asked to stop, ``exit_code`` is None if the
    scheduler did not see its end. ``number``: counted from 1. ``starts``: when the processes of this and all
    earlier attempts were started, in whole seconds since 1970."""

    exit_code: int | None
    reason: str | None
    number: int
    starts: tuple[float, ...] = ()

    @property
    def gave_up(self) -> bool:
        return self.exit_code is not None and self.exit_code > 0 and self.exit_code != STOPPED


def log_begin(path: Path) -> None:
    _append(path, f"{BEGUN} {datetime.now(UTC):{TIME}}")


def log_end(path: Path, exit_code: int) -> None:
    _append(path, f"=== ended, exit code {exit_code}")


def log_failed_start(path: Path, reason: str) -> None:
    """Log an attempt whose process could not be started."""
    _append(path, f"{ERROR_PREFIX}{reason}")
    log_end(path, GAVE_UP)


def last_attempt(path: Path) -> Attempt | None:
    """Return the last attempt, or None before the first."""
    try:
        *earlier, text = _read_log(path).split(BEGUN)
    except OSError:  # missing, or not a file that the scheduler wrote
        return None
    ended = ENDED.findall(text)
    code = int(ended[-1]) if ended else None
    reason = _reason(text, code) if code not in (None, 0, STOPPED, -signal.SIGTERM) else None
    return Attempt(code, reason, len(earlier), _starts([*earlier[1:], text]))


def _starts(attempts: Iterable[str]) -> tuple[float, ...]:
    starts = []
    for text in attempts:
        with suppress(ValueError):  # not a line that the scheduler wrote
            starts.append(datetime.strptime(text.partition("\n")[0].strip(), TIME).replace(tzinfo=UTC).timestamp())
    return tuple(starts)


def waiting_reason(path: Path) -> str | None:
    """Return why a running run waits, if the last line of its log says so."""
    try:
        last_line = _read_log(path).rstrip("\n").rpartition("\n")[2]
    except OSError:
        return None
    return last_line if last_line.startswith(WAITING_PREFIX) else None


def _read_log(path: Path) -> str:
    return read_file(path.parent.parent, f"{path.parent.name}/{path.name}", MAX_LOG_BYTES).decode(errors="replace")


def _reason(text: str, code: int) -> str:
    """Return the signal that killed the process, or its whole error message, or its last line."""
    if code < 0:
        return f"its process was killed by {_signal_name(-code)}"
    lines = [line.strip() for line in text.splitlines()[1:] if line.strip() and not ENDED.match(line)]
    errors = [number for number, line in enumerate(lines) if line.startswith(ERROR_PREFIX)]
    if errors:
        return " ".join(lines[errors[-1] :]).removeprefix(ERROR_PREFIX)
    return lines[-1] if lines else f"its process ended with exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def open_log(path: Path) -> IO[bytes]:
    """Open a log to append to it. A folder from another person may have a link in its place, which is not followed."""
    return open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666), "ab")


def _append(path: Path, line: str) -> None:
    with open_log(path) as file:
        file.write(f"{line}\n".encode(errors="replace"))


def size_of(path: Path) -> int:
    """Return the size of a file, 0 if it is missing."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
