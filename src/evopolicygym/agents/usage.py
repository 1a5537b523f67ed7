"""From a client's figures to tokens that mean the same for every client."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

from evopolicygym.agents.json_events import Scalar, event_matches, text_at, values_at
from evopolicygym.config import StrictModel


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


MAX_AMOUNT: Final = 10**15  # tokens or dollars: what is not below it cannot be true
AMOUNTS: Final = tuple(field.name for field in fields(Usage) if field.name != "source")


def total_usage(usages: Iterable[Usage | None]) -> Usage | None:
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
    return sum(known) if known and sum(known) < MAX_AMOUNT else None


class Meter(StrictModel):
    """Where a client tells its usage, and what its figures mean.

    ``where``: the events, of its stream or, with ``file`` (a glob under its HOME), of its session files. ``take``: the
    last of these events, or the sum of all; with ``each`` (a path), of events in a row that agree there only the last
    counts. ``scope``: whether that covers this ``turn`` alone or the whole ``session``; session figures become
    differences. The rest are paths; ``total``, where reasoning can be told from it alone. A cost of zero is a price
    that the client does not know.
    """

    where: dict[str, Scalar] = {}
    file: str = ""
    take: Literal["last", "sum"] = "last"
    each: str = ""
    scope: Literal["turn", "session"]
    input: str
    output: str
    cache_read: str = ""
    cache_write: str = ""
    reasoning: str = ""
    total: str = ""
    cost: str = ""
    input_includes_cache: bool
    output_includes_reasoning: bool = True

    def read(self, event: Any) -> Usage | None:
        """None when this event says nothing of usage."""
        tokens = {name: _count(event, getattr(self, name)) for name in ("cache_read", "cache_write", "reasoning")}
        fresh, output = _count(event, self.input), _count(event, self.output)
        if not event_matches(event, self.where) or fresh is None or output is None:
            return None
        if (all_tokens := _count(event, self.total)) is not None:
            tokens["reasoning"] = max(0, all_tokens - fresh - output)
        if self.input_includes_cache:
            fresh -= min(fresh, (tokens["cache_read"] or 0) + (tokens["cache_write"] or 0))
        if not self.output_includes_reasoning:
            output += tokens["reasoning"] or 0
        return Usage(fresh, output=output, cost_usd=_dollars(event, self.cost), source=self.source, **tokens)

    @property
    def source(self) -> str:
        return "file" if self.file else "client"

    def of_turn(self, told: Usage, before: Usage | None) -> Usage:
        if self.scope == "turn":
            return told
        return told.beyond(before) if self.take == "sum" else told.since(before)


class UsageCounter:
    """What the events of one meter tell together."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self._earlier: Usage | None = None
        self._last: Usage | None = None
        self._key = ""

    def hear(self, event: Any) -> None:
        if (usage := self.meter.read(event)) is None:
            return
        key = text_at(event, self.meter.each) if self.meter.each else ""
        if not key or key != self._key:
            self._earlier = total_usage([self._earlier, self._last])
        self._last, self._key = usage, key

    @property
    def told(self) -> Usage | None:
        return self._last if self.meter.take == "last" else total_usage([self._earlier, self._last])


def _count(event: Any, path: str) -> int | None:
    """Several figures (of several models) add up. A figure that cannot be one is not known."""
    found = values_at(event, path) if path else []
    if not found or not all(type(value) is int and 0 <= value < MAX_AMOUNT for value in found):
        return None
    return int(sum(found)) if sum(found) < MAX_AMOUNT else None


def _dollars(event: Any, path: str) -> float | None:
    found = values_at(event, path) if path else []
    if not found or not all(type(value) in (int, float) and 0 <= value < MAX_AMOUNT for value in found):
        return None
    return float(sum(found)) or None if sum(found) < MAX_AMOUNT else None
