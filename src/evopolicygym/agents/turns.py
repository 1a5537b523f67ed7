"""One turn of an agent: what it was told is the driver's; how it ended and what it cost is here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final


@dataclass(frozen=True)
class Usage:
    """Tokens of one turn, and dollars. None is unknown, which is not zero. The three inputs never overlap; ``output``
    is all output, and ``reasoning`` the part of it that was reasoning, where the client tells (not all do, so that an
    output without reasoning could not be compared). ``source`` says whose word it is: ``client`` (its stream),
    ``file`` (its session file), ``proxy``."""

    fresh_input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cost_usd: float | None = None
    source: str = "client"

    def since(self, before: Usage | None) -> Usage:
        """Totals less the totals of an earlier time. Totals that have shrunk were counted anew by the client."""
        if before is None or any(now < then for now, then in _pairs(self, before)):
            return self
        return replace(self, **{name: _less(getattr(self, name), getattr(before, name)) for name in AMOUNTS})

    def beyond(self, before: Usage | None) -> Usage:
        """Totals less earlier totals that may have counted more than these do: never below zero."""
        if before is None:
            return self
        rest: dict[str, Any] = {name: _less(getattr(self, name), getattr(before, name)) for name in AMOUNTS}
        floored: dict[str, Any] = {name: None if left is None else max(0, left) for name, left in rest.items()}
        return replace(self, **floored)


LARGEST: Final = 10**15  # tokens or dollars: what is not below it cannot be true
AMOUNTS: Final = tuple(field.name for field in fields(Usage) if field.name != "source")


def total(usages: Iterable[Usage | None]) -> Usage | None:
    """Of several turns: at least this much, for what nobody metered is not in it. None when nothing was metered."""
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    return Usage(**{name: _sum(getattr(usage, name) for usage in known) for name in AMOUNTS}, source=known[-1].source)


def _pairs(now: Usage, then: Usage) -> Iterable[tuple[float, float]]:
    pairs = ((getattr(now, name), getattr(then, name)) for name in AMOUNTS)
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def _less(now: Any, then: Any) -> Any:
    return now if now is None or then is None else now - then


def _sum(values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known and sum(known) < LARGEST else None


class FailureKind(StrEnum):
    """Why a turn did not end as it should have."""

    AUTHENTICATION = "authentication"
    RATE_LIMIT = "rate_limit"
    PROVIDER = "provider"
    TURN_LIMIT = "turn_limit"
    TIMEOUT = "timeout"
    LIMIT = "limit"
    INTERRUPTED = "interrupted"
    CLIENT = "client"


TRANSIENT = frozenset({FailureKind.RATE_LIMIT, FailureKind.PROVIDER})


@dataclass(frozen=True)
class Failure:
    kind: FailureKind
    text: str

    @property
    def is_transient(self) -> bool:
        return self.kind in TRANSIENT


@dataclass(frozen=True)
class Turn:
    """``session`` is what resumes the conversation; ``text`` the agent's last words; ``stop``: it wants no more;
    ``model``: which one served it, by the client's own word."""

    exit_code: int | None
    wall_s: float
    session: str | None = None
    text: str = ""
    usage: Usage | None = None
    failure: Failure | None = None
    stop: bool = False
    model: str | None = None
