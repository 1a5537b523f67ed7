"""Follow the file of a run's calls to its model while it grows. The run may come from a stranger."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from evopolicygym.files import GrowingFile
from evopolicygym.gateway.metering import ModelCall

NAME: Final = "logs/agent/model_calls.jsonl"
MAX_READ: Final = 16 << 20  # bytes at a time
MAX_CALLS: Final = 200_000
DECODER: Final = msgspec.json.Decoder(ModelCall)


class CallFile:
    """The calls in a run's folder. Each look reads what was added since the last one."""

    def __init__(self, run_folder: Path) -> None:
        self._file = GrowingFile(run_folder, NAME, MAX_READ)
        self._calls: list[ModelCall] = []

    def since(self, turn: int) -> list[ModelCall]:
        """Return the calls of a turn and those after it."""
        self._read()
        return [call for call in self._calls if call.turn >= turn]

    def _read(self) -> None:
        for line in self._file.lines()[: max(0, MAX_CALLS - len(self._calls))]:
            try:
                self._calls.append(DECODER.decode(line))
            except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
                continue
