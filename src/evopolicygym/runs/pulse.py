"""How long the turn under way has lived, by which it is timed when its driver is killed in it."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from evopolicygym.runs.agent_output import PLAIN, plain

LONGEST: Final = 64


class Pulse:
    """Written down: in a copy of the run a file has another time, and whoever owns a transcript can set it."""

    def __init__(self, transcripts: Path) -> None:
        self._path = transcripts / "pulse"

    def beat(self, turn: int, seconds: float) -> None:
        """Over the last one, at the same width: there is no moment without."""
        with suppress(OSError):  # no run ends for want of it
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | PLAIN, 0o644)
            try:
                os.write(descriptor, f"{turn:9d} {seconds:12.3f}\n".encode())
            finally:
                os.close(descriptor)

    def lived(self, turn: int) -> float:
        """Seconds until the last sign of life of a turn that was interrupted."""
        with plain(self._path) as file:
            text = file.read(LONGEST).decode(errors="replace")
        found = re.fullmatch(r" *(\d+) +(\d+\.\d+)\n", text, re.ASCII)
        return float(found[2]) if found and int(found[1]) == turn else 0.0
