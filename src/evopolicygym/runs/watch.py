"""When a turn must end although the agent has not: asked every moment by whoever plays it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from evopolicygym.agents.turns import Failure, FailureKind, Turn
from evopolicygym.judge.events import Turned
from evopolicygym.judge.judge import Judge
from evopolicygym.judge.state import Phase
from evopolicygym.runs.allowance import Allowance

GRACE_S: Final = 60.0  # for the last words of an agent whose budget is spent
METER_S: Final = 2.0  # between two looks at what a turn has used so far
METER_SHARE: Final = 20  # and at least so many times as long as the last look took


@dataclass(frozen=True)
class Signs:
    """Of a turn under way. ``heard`` is how much it has said, None where silence means nothing; ``so_far`` reads what
    is known of it by now."""

    heard: Callable[[], int] | None = None
    so_far: Callable[[], Turn] | None = None


class Watch:
    """Over one turn. ``price`` turns what was read of it into what the ledger would say."""

    def __init__(
        self, judge: Judge, allowance: Allowance, stop: threading.Event, price: Callable[[Turn], Turned]
    ) -> None:
        self._judge, self._allowance, self._stop, self._price = judge, allowance, stop, price
        left = allowance.seconds_left(judge.state.turns)
        self._deadline = None if left is None else time.monotonic() + left
        self._closed_at: float | None = None
        self._life: tuple[int, int] = (-1, -1)
        self._alive_at = self._metered_at = time.monotonic()
        self._pause_s = METER_S

    def __call__(self, signs: Signs) -> Failure | None:
        """Why it must end, if it must."""
        if self._stop.is_set():
            return Failure(FailureKind.TIMEOUT, "it was stopped")
        return self._too_late() or self._silent(signs) or self._used_up(signs)

    def _too_late(self) -> Failure | None:
        now = time.monotonic()
        if self._judge.state.phase is not Phase.OPEN and self._closed_at is None:
            self._closed_at = now
        if self._closed_at is not None and now > self._closed_at + GRACE_S:
            return Failure(FailureKind.TIMEOUT, "its run was closed")
        is_late = self._deadline is not None and now > self._deadline
        return Failure(FailureKind.TIMEOUT, "its time was over") if is_late else None

    def _silent(self, signs: Signs) -> Failure | None:
        """Neither a word nor a submission: it hangs, or waits for a provider that does."""
        minutes = self._allowance.silent_minutes
        if signs.heard is None or minutes is None:
            return None
        life = (signs.heard(), len(self._judge.state.submissions))
        if life != self._life:
            self._life, self._alive_at = life, time.monotonic()
        is_silent = time.monotonic() > self._alive_at + 60 * minutes
        return Failure(FailureKind.TIMEOUT, f"it said nothing for {minutes:g} minutes") if is_silent else None

    def _used_up(self, signs: Signs) -> Failure | None:
        """As far as the client tells before its turn ends."""
        began = time.monotonic()
        if signs.so_far is None or not self._allowance.is_metered or began < self._metered_at + self._pause_s:
            return None
        turns = [*self._judge.state.turns, self._price(replace(signs.so_far(), wall_s=0.0))]
        self._metered_at = time.monotonic()
        self._pause_s = max(METER_S, METER_SHARE * (self._metered_at - began))
        hit = replace(self._allowance, turns=None, hours=None).hit(turns)
        return Failure(FailureKind.LIMIT, f"its allowance of {hit} was used up") if hit else None
