"""Limits on what calls to a model use: those of one run, and those of all runs of a suite together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CallTotals:
    """Usage of calls together."""

    tokens: float = 0
    dollars: float = 0.0
    requests: float = 0

    def plus(self, other: CallTotals) -> CallTotals:
        return CallTotals(self.tokens + other.tokens, self.dollars + other.dollars, self.requests + other.requests)

    def at_least(self, other: CallTotals) -> CallTotals:
        """Return the larger one of each amount."""
        return CallTotals(
            max(self.tokens, other.tokens), max(self.dollars, other.dollars), max(self.requests, other.requests)
        )


@dataclass(frozen=True)
class CallLimits:
    """Limits that are enforced call by call; None is no limit."""

    tokens: float | None = None
    dollars: float | None = None
    requests: float | None = None

    @property
    def is_limited(self) -> bool:
        return self != CallLimits()

    def first_reached(self, used: CallTotals, under_way: int = 0) -> str | None:
        """Return the first limit that one more call would exceed. Calls that are under way count as much as those
        before them on average.

        >>> limits = CallLimits(tokens=1000)
        >>> limits.first_reached(CallTotals(tokens=600, requests=3)), limits.first_reached(CallTotals(600, 0, 3), 2)
        (None, 'tokens')
        """
        share = 1 + under_way / max(1, used.requests)
        amounts = {
            "tokens": (used.tokens * share, self.tokens),
            "dollars": (used.dollars * share, self.dollars),
            "requests": (used.requests + under_way, self.requests),
        }
        return next((name for name, (amount, limit) in amounts.items() if limit is not None and amount >= limit), None)


@dataclass(frozen=True)
class CallAdmission:
    """Whether a call of a suite's run may begin: now, after ``wait_s`` seconds at the earliest, or never, because a
    ``limit`` of the suite is used up."""

    wait_s: float = 0.0
    limit: str | None = None


class SuiteLimitReached(Exception):
    """A call was not made: the suite's limit is used up."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit
