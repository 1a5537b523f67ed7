"""What an agent may use up beside its budget of episodes. Hitting a limit is a result: the run is scored."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from evopolicygym.agents.turn import FailureKind, Turn, TurnFailure
from evopolicygym.judge.events import Turned
from evopolicygym.judge.judge import Judge
from evopolicygym.judge.state import RunPhase

TOKENS = ("fresh_input", "cache_read", "cache_write", "output")


@dataclass(frozen=True)
class AgentLimit:
    """``used`` is None where nobody knows: such a limit is never hit, and the record says so."""

    name: str
    value: float
    used: float | None

    @property
    def is_hit(self) -> bool:
        return self.used is not None and self.used >= self.value

    @property
    def left(self) -> str:
        rest = self.value - (self.used or 0)
        if self.name == "hours":
            return f"{round(rest, 1):,g} hours" if rest >= 1.5 else f"{math.ceil(rest * 60)} minutes"
        return "1 turn, which is this one" if (self.name, rest) == ("turns", 1) else f"{rest:,.0f} {self.name}"


@dataclass(frozen=True)
class AgentLimits:
    """None is no limit. ``retries`` of a turn that failed for a reason that waiting may mend, ``silent_minutes`` of a
    turn: what is given to a provider or client in trouble, not to the agent."""

    turns: int | None = None
    hours: float | None = 24.0
    tokens: int | None = None
    dollars: float | None = None
    retries: int = 8
    silent_minutes: float | None = 60.0

    def limits(self, turns: Iterable[Turned]) -> list[AgentLimit]:
        turns = list(turns)
        used: dict[str, float | None] = {
            "turns": len(turns),
            "hours": sum(turn.wall_s for turn in turns) / 3600,
            **asdict(spending(turns)),
        }
        return [AgentLimit(name, value, used[name]) for name in used if (value := getattr(self, name)) is not None]

    def left(self, turns: Iterable[Turned]) -> list[str]:
        """In words, for the agent: of each limit what is not used up yet. Money is nothing that it could count."""
        return [limit.left for limit in self.limits(turns) if limit.name != "dollars"]

    def hit(self, turns: Iterable[Turned]) -> str | None:
        return next((limit.name for limit in self.limits(turns) if limit.is_hit), None)

    @property
    def is_metered(self) -> bool:
        return self.tokens is not None or self.dollars is not None

    def seconds_left(self, turns: Iterable[Turned]) -> float | None:
        if self.hours is None:
            return None
        return max(0.0, self.hours * 3600 - sum(turn.wall_s for turn in turns))


@dataclass(frozen=True)
class AgentSpending:
    """At least this much; None when nobody metered it."""

    tokens: float | None
    dollars: float | None


def spending(turns: Iterable[Turned]) -> AgentSpending:
    turns = list(turns)
    dollars = _total(turn.usage["cost_usd"] if turn.usage else None for turn in turns)
    return AgentSpending(_total(_tokens(turn.usage) for turn in turns), dollars)


def _tokens(usage: dict[str, Any] | None) -> float | None:
    """Cached tokens count: they were processed. Reasoning is part of the output."""
    if usage is None:
        return None
    known = [usage[name] for name in TOKENS if usage[name] is not None]
    return sum(known) if known else None


def _total(parts: Iterable[float | None]) -> float | None:
    """At least this much: of turns that nobody metered nothing is counted. None when none was metered."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


GRACE_S: Final = 60.0  # for the last words of an agent whose budget is spent
METER_S: Final = 2.0  # between two looks at what a turn has used so far
METER_SHARE: Final = 20  # and at least so many times as long as the last look took


@dataclass(frozen=True)
class TurnProgress:
    """Of a turn under way. ``heard`` is how much it has said, None where silence means nothing; ``so_far`` reads what
    is known of it by now."""

    heard: Callable[[], int] | None = None
    so_far: Callable[[], Turn] | None = None


class TurnWatch:
    """Over one turn. ``price`` turns what was read of it into what the ledger would say."""

    def __init__(
        self, judge: Judge, allowance: AgentLimits, stop: threading.Event, price: Callable[[Turn], Turned]
    ) -> None:
        self._judge, self._allowance, self._stop, self._price = judge, allowance, stop, price
        left = allowance.seconds_left(judge.state.turns)
        self._deadline = None if left is None else time.monotonic() + left
        self._closed_at: float | None = None
        self._life: tuple[int, int] = (-1, -1)
        self._alive_at = self._metered_at = time.monotonic()
        self._pause_s = METER_S

    def __call__(self, signs: TurnProgress) -> TurnFailure | None:
        """Why it must end, if it must."""
        if self._stop.is_set():
            return TurnFailure(FailureKind.TIMEOUT, "it was stopped")
        return self._too_late() or self._silent(signs) or self._used_up(signs)

    def _too_late(self) -> TurnFailure | None:
        now = time.monotonic()
        if self._judge.state.phase is not RunPhase.OPEN and self._closed_at is None:
            self._closed_at = now
        if self._closed_at is not None and now > self._closed_at + GRACE_S:
            return TurnFailure(FailureKind.TIMEOUT, "its run was closed")
        is_late = self._deadline is not None and now > self._deadline
        return TurnFailure(FailureKind.TIMEOUT, "its time was over") if is_late else None

    def _silent(self, signs: TurnProgress) -> TurnFailure | None:
        """Neither a word nor a submission: it hangs, or waits for a provider that does."""
        minutes = self._allowance.silent_minutes
        if signs.heard is None or minutes is None:
            return None
        life = (signs.heard(), len(self._judge.state.submissions))
        if life != self._life:
            self._life, self._alive_at = life, time.monotonic()
        is_silent = time.monotonic() > self._alive_at + 60 * minutes
        return TurnFailure(FailureKind.TIMEOUT, f"it said nothing for {minutes:g} minutes") if is_silent else None

    def _used_up(self, signs: TurnProgress) -> TurnFailure | None:
        """As far as the client tells before its turn ends."""
        began = time.monotonic()
        if signs.so_far is None or not self._allowance.is_metered or began < self._metered_at + self._pause_s:
            return None
        turns = [*self._judge.state.turns, self._price(replace(signs.so_far(), wall_s=0.0))]
        self._metered_at = time.monotonic()
        self._pause_s = max(METER_S, METER_SHARE * (self._metered_at - began))
        hit = replace(self._allowance, turns=None, hours=None).hit(turns)
        return TurnFailure(FailureKind.LIMIT, f"its allowance of {hit} was used up") if hit else None
