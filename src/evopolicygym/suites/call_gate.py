"""Let the runs of a suite make calls to models: at a bounded rate to each provider, and within the limits of all."""

from __future__ import annotations

from collections import Counter, deque
from functools import reduce
from typing import Final

from pydantic import Field

from evopolicygym.config import StrictModel
from evopolicygym.gateway.call_limits import CallAdmission, CallLimits, CallTotals

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
    """Counts calls and what they use, without a clock of its own. ``owner`` is the process that makes a call: what it
    has under way ends with it.

    Args:
        rate: Of the calls to one provider.
        cap: Limits on what all runs of the suite use together.
    """

    def __init__(self, rate: CallRate, cap: CallLimits | None = None) -> None:
        self._rate, self._cap = rate, cap or CallLimits()
        self._under_way: Counter[tuple[object, str]] = Counter()
        self._begun: dict[str, deque[float]] = {}
        self._used: dict[str, CallTotals] = {}

    @property
    def is_limiting(self) -> bool:
        return self._rate.is_limited or self._cap.is_limited

    @property
    def limit_reached(self) -> str | None:
        """The limit of the suite that is used up, if one is."""
        return self._cap.first_reached(self._total())

    def note(self, run: str, used: CallTotals) -> None:
        """Take note that a run has used so much, at least."""
        self._used[run] = used.at_least(self._used.get(run, CallTotals()))

    def begin_again(self, run: str) -> None:
        """Take note that a run begins anew; what it used before is noted under another name."""
        self._used.pop(run, None)

    def begin(self, owner: object, provider: str, now: float) -> CallAdmission:
        """Say whether a call may begin now, and count it if so. A call that would exceed a limit only together with
        those under way has to wait for them."""
        if limit := self.limit_reached:
            return CallAdmission(limit=limit)
        if self._cap.first_reached(self._total(), self._under_way.total()):
            return CallAdmission(RETRY_S)
        begun = self._begun.setdefault(provider, deque())
        while begun and begun[0] <= now - MINUTE_S:
            begun.popleft()
        if self._rate.per_minute is not None and len(begun) >= self._rate.per_minute:
            return CallAdmission(begun[0] + MINUTE_S - now)
        if self._rate.at_a_time is not None and self._under_way_at(provider) >= self._rate.at_a_time:
            return CallAdmission(RETRY_S)
        begun.append(now)
        self._under_way[owner, provider] += 1
        return CallAdmission()

    def end(self, owner: object, provider: str) -> None:
        self._under_way[owner, provider] -= 1

    def forget(self, owner: object) -> None:
        """End all calls of a process that is gone."""
        for key in [key for key in self._under_way if key[0] is owner]:
            del self._under_way[key]

    def _total(self) -> CallTotals:
        return reduce(CallTotals.plus, self._used.values(), CallTotals())

    def _under_way_at(self, provider: str) -> int:
        return sum(count for (_, name), count in self._under_way.items() if name == provider)
