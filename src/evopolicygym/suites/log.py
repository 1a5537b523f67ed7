"""What the process of a run said, attempt by attempt: the foreman notes when one begins and how it ended."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from evopolicygym.files import read_file
from evopolicygym.runs.locks import WAITS

BEGUN: Final = "=== begun"
ENDED: Final = re.compile(r"=== ended, exit code (-?[0-9]{1,3})\b")
MAX_BYTES: Final = 64 << 20
COMPLAINT: Final = "evopolicygym: "
GAVE_UP: Final = 1
STOPPED: Final = 128 + signal.SIGTERM  # exit code of a run that was asked to stop


@dataclass(frozen=True)
class Attempt:
    """``reason`` is None for one that was asked to stop, or went well. ``exit_code`` is None while nobody saw its
    end."""

    exit_code: int | None
    reason: str | None

    @property
    def gave_up(self) -> bool:
        return self.exit_code is not None and self.exit_code > 0 and self.exit_code != STOPPED


def begin(path: Path) -> None:
    _note(path, f"{BEGUN} {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")


def end(path: Path, exit_code: int) -> None:
    _note(path, f"=== ended, exit code {exit_code}")


def give_up(path: Path, why: str) -> None:
    """Of one that could not even be started."""
    _note(path, f"{COMPLAINT}{why}")
    end(path, GAVE_UP)


def last_attempt(path: Path) -> Attempt | None:
    """None before the first."""
    try:
        data = read_file(path.parent.parent, f"{path.parent.name}/{path.name}", MAX_BYTES)
    except OSError:  # there is none, or none that we wrote
        return None
    text = data.decode(errors="replace").rpartition(BEGUN)[2]
    ended = ENDED.findall(text)
    code = int(ended[-1]) if ended else None
    return Attempt(code, _reason(text, code) if code not in (None, 0, STOPPED, -signal.SIGTERM) else None)


def waits_for(path: Path) -> str | None:
    """Why a run that is at work stands still, if it says so: the last that it said."""
    try:
        said = path.read_text(errors="replace").rstrip("\n").rpartition("\n")[2]
    except FileNotFoundError:
        return None
    return said if said.startswith(WAITS) else None


def _reason(text: str, code: int) -> str:
    """What killed it; or the complaint of the command line, whole; or else the last that was said."""
    if code < 0:
        return f"its process was killed by {_name(-code)}"
    said = [line.strip() for line in text.splitlines()[1:] if line.strip() and not ENDED.match(line)]
    complaints = [number for number, line in enumerate(said) if line.startswith(COMPLAINT)]
    if complaints:
        return " ".join(said[complaints[-1] :]).removeprefix(COMPLAINT)
    return said[-1] if said else f"its process ended with exit code {code}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _note(path: Path, line: str) -> None:
    with open(path, "a") as file:
        file.write(f"{line}\n")
