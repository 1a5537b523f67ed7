"""Let the runs of a suite make calls to a model at a bounded rate, all runs with the same provider together."""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

from pydantic import Field

from evopolicygym.config import StrictModel

MINUTE_S: Final = 60.0
RETRY_S: Final = 0.2  # until a run asks again while all places are taken


class CallRate(StrictModel):
    """Limits on the calls to one provider, of all runs together; None is no limit."""

    at_a_time: int | None = Field(default=None, ge=1)
    per_minute: int | None = Field(default=None, ge=1)

    @property
    def is_limited(self) -> bool:
        return self.at_a_time is not None or self.per_minute is not None


class CallGate:
    """Counts calls, without a clock of its own. ``owner`` is the run that makes a call: what it has under way ends with
    it."""

    def __init__(self, rate: CallRate) -> None:
        self._rate = rate
        self._under_way: Counter[tuple[object, str]] = Counter()
        self._begun: dict[str, deque[float]] = {}

    def begin(self, owner: object, provider: str, now: float) -> float:
        """Count a call that begins now and return 0, or return the seconds after which to ask again."""
        begun = self._begun.setdefault(provider, deque())
        while begun and begun[0] <= now - MINUTE_S:
            begun.popleft()
        if self._rate.per_minute is not None and len(begun) >= self._rate.per_minute:
            return begun[0] + MINUTE_S - now
        if self._rate.at_a_time is not None and self._under_way_at(provider) >= self._rate.at_a_time:
            return RETRY_S
        begun.append(now)
        self._under_way[owner, provider] += 1
        return 0.0

    def end(self, owner: object, provider: str) -> None:
        self._under_way[owner, provider] -= 1

    def forget(self, owner: object) -> None:
        """End all calls of a run that is gone."""
        for key in [key for key in self._under_way if key[0] is owner]:
            del self._under_way[key]

    def _under_way_at(self, provider: str) -> int:
        return sum(count for (_, name), count in self._under_way.items() if name == provider)
