"""The log of a run's process: its output, and lines by the scheduler that say when each attempt began and ended."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from evopolicygym.files import read_file
from evopolicygym.runs.locks import WAITING_PREFIX

BEGUN: Final = "=== begun"
ENDED: Final = re.compile(r"=== ended, exit code (-?[0-9]{1,3})\b")
MAX_BYTES: Final = 64 << 20
ERROR_PREFIX: Final = "evopolicygym: "
GAVE_UP: Final = 1
STOPPED: Final = 128 + signal.SIGTERM  # exit code of a run that was asked to stop


@dataclass(frozen=True)
class Attempt:
    """One attempt at a run. ``reason`` is None if it succeeded or was asked to stop, ``exit_code`` is None if the
    scheduler did not see its end."""

    exit_code: int | None
    reason: str | None

    @property
    def gave_up(self) -> bool:
        return self.exit_code is not None and self.exit_code > 0 and self.exit_code != STOPPED


def begin(path: Path) -> None:
    _append(path, f"{BEGUN} {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")


def end(path: Path, exit_code: int) -> None:
    _append(path, f"=== ended, exit code {exit_code}")


def give_up(path: Path, reason: str) -> None:
    """Log an attempt whose process could not be started."""
    _append(path, f"{ERROR_PREFIX}{reason}")
    end(path, GAVE_UP)


def last_attempt(path: Path) -> Attempt | None:
    """Return the last attempt, or None before the first."""
    try:
        data = read_file(path.parent.parent, f"{path.parent.name}/{path.name}", MAX_BYTES)
    except OSError:  # missing, or not a file that the scheduler wrote
        return None
    text = data.decode(errors="replace").rpartition(BEGUN)[2]
    ended = ENDED.findall(text)
    code = int(ended[-1]) if ended else None
    return Attempt(code, _reason(text, code) if code not in (None, 0, STOPPED, -signal.SIGTERM) else None)


def waits_for(path: Path) -> str | None:
    """Return why a running run stands still, if the last line of its log says so."""
    try:
        last_line = path.read_text(errors="replace").rstrip("\n").rpartition("\n")[2]
    except FileNotFoundError:
        return None
    return last_line if last_line.startswith(WAITING_PREFIX) else None


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


def _append(path: Path, line: str) -> None:
    with open(path, "a") as file:
        file.write(f"{line}\n")
