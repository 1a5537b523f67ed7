"""What an agent may use up beside its budget of episodes. Hitting a limit is a result: the run is scored."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from evopolicygym.judge.events import Turned

TOKENS = ("fresh_input", "cache_read", "cache_write", "output")


@dataclass(frozen=True)
class Limit:
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
class Allowance:
    """None is no limit. ``retries`` of a turn that failed for a reason that waiting may mend, ``silent_minutes`` of a
    turn: what is given to a provider or client in trouble, not to the agent."""

    turns: int | None = None
    hours: float | None = 24.0
    tokens: int | None = None
    dollars: float | None = None
    retries: int = 8
    silent_minutes: float | None = 60.0

    def limits(self, turns: Iterable[Turned]) -> list[Limit]:
        turns = list(turns)
        used: dict[str, float | None] = {
            "turns": len(turns),
            "hours": sum(turn.wall_s for turn in turns) / 3600,
            **asdict(spent(turns)),
        }
        return [Limit(name, value, used[name]) for name in used if (value := getattr(self, name)) is not None]

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
class Spent:
    """At least this much; None when nobody metered it."""

    tokens: float | None
    dollars: float | None


def spent(turns: Iterable[Turned]) -> Spent:
    turns = list(turns)
    dollars = _total(turn.usage["cost_usd"] if turn.usage else None for turn in turns)
    return Spent(_total(_tokens(turn.usage) for turn in turns), dollars)


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
