"""The present activity of the owner of a run, for progress lines. Nothing of it is kept or decides anything."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass
class RunActivity:
    """``episodes`` of the submission or of the hidden pass that is being played have ended. ``next_attempt_at``: when
    the agent is prompted, or its model asked, again after an error (by time.monotonic), None if nothing waits for
    that. ``trouble``: the error of the model's provider that is being waited out."""

    episodes: int = 0
    next_attempt_at: float | None = None
    trouble: str = ""

    @property
    def next_attempt_s(self) -> float | None:
        """Seconds until the next attempt."""
        at = self.next_attempt_at
        return None if at is None else max(0.0, at - time.monotonic())
