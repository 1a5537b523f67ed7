"""What the process of a run said, attempt by attempt: the foreman notes when one begins and how it ended."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

BEGUN: Final = "=== begun"
ENDED: Final = re.compile(r"=== ended, exit code (-?\d+)")
COMPLAINT: Final = "evopolicygym: "
STOPPED: Final = 128 + signal.SIGTERM  # exit code of a run that was asked to stop


@dataclass(frozen=True)
class Attempt:
    """``reason`` is None for one that was stopped from outside, or went well."""

    exit_code: int | None
    reason: str | None


def begin(path: Path) -> None:
    _note(path, f"{BEGUN} {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")


def end(path: Path, exit_code: int) -> None:
    _note(path, f"=== ended, exit code {exit_code}")


def last_attempt(path: Path) -> Attempt | None:
    """None before the first."""
    try:
        text = path.read_text(errors="replace").rpartition(BEGUN)[2]
    except FileNotFoundError:
        return None
    ended = ENDED.findall(text)
    code = int(ended[-1]) if ended else None
    gave_up = code is not None and code > 0 and code != STOPPED
    return Attempt(code, _reason(text, code) if gave_up else None)


def _reason(text: str, code: int | None) -> str:
    """The complaint of the command line, or else the last that was said."""
    said = [line.strip() for line in text.splitlines()[1:] if line.strip() and not ENDED.match(line)]
    complaints = [line.removeprefix(COMPLAINT) for line in said if line.startswith(COMPLAINT)]
    return (complaints or said or [f"its process ended with exit code {code}"])[-1]


def _note(path: Path, line: str) -> None:
    with open(path, "a") as file:
        file.write(f"{line}\n")
