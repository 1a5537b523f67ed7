"""Tokens and dollars of a turn, and how they are read from the events of a client."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

from evopolicygym.agents.json_events import Scalar, event_matches, text_at, values_at
from evopolicygym.config import StrictModel


@dataclass(frozen=True)
class Usage:
    """Tokens and dollars of one turn. None: unknown, which is not zero. The three inputs never overlap. ``output`` is
    all output; ``reasoning`` is the part of it that was reasoning, if the client reports it (not all do, so outputs
    without reasoning could not be compared). ``source``: ``client`` (its output), ``file`` (its session file) or
    ``gateway`` (the calls themselves, as the model gateway saw them). ``requests``: calls for an answer, which only the
    gateway counts."""

    fresh_input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cost_usd: float | None = None
    requests: int | None = None
    source: str = "client"

    def since(self, before: Usage | None) -> Usage:
        """Subtract earlier totals. If a total has shrunk, the client has started to count anew, and nothing is
        subtracted."""
        if before is None or any(later < earlier for later, earlier in _pairs(self, before)):
            return self
        return replace(self, **{name: _less(getattr(self, name), getattr(before, name)) for name in AMOUNTS})

    def beyond(self, before: Usage | None) -> Usage:
        """Subtract earlier totals that may have counted more than these do, never going below zero."""
        if before is None:
            return self
        differences: dict[str, Any] = {name: _less(getattr(self, name), getattr(before, name)) for name in AMOUNTS}
        floored: dict[str, Any] = {
            name: None if amount is None else max(0, amount) for name, amount in differences.items()
        }
        return replace(self, **floored)


MAX_AMOUNT: Final = 10**15  # tokens or dollars: larger figures are not believed
AMOUNTS: Final = tuple(field.name for field in fields(Usage) if field.name != "source")


def total_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """Add the usage of several turns: a lower bound, because unmetered turns are missing. None if no turn was
    metered."""
    metered = [usage for usage in usages if usage is not None]
    if not metered:
        return None
    return Usage(
        **{name: _sum(getattr(usage, name) for usage in metered) for name in AMOUNTS},
        source=metered[-1].source,
    )


def _pairs(later: Usage, earlier: Usage) -> Iterable[tuple[float, float]]:
    pairs = ((getattr(later, name), getattr(earlier, name)) for name in AMOUNTS)
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def _less(later: Any, earlier: Any) -> Any:
    return later if later is None or earlier is None else later - earlier


def _sum(values: Iterable[Any]) -> Any:
    metered = [value for value in values if value is not None]
    return sum(metered) if metered and sum(metered) < MAX_AMOUNT else None


class Meter(StrictModel):
    """Where a client reports its usage, and what the figures mean.

    ``where``: the events, in its output or, with ``file`` (a glob below its HOME), in its session files. ``take``: the
    last of these events, or the sum of all. ``each`` (a path): of consecutive events that are equal there, only the
    last counts. ``scope``: the figures cover this ``turn`` or the whole ``session``; session figures become
    differences. The other fields are paths; ``total`` is used if reasoning must be derived from it. A cost of zero
    means that the client does not know the price.
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
        """Return the usage in an event; None if it has none."""
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

    def of_turn(self, reported: Usage, before: Usage | None) -> Usage:
        if self.scope == "turn":
            return reported
        return reported.beyond(before) if self.take == "sum" else reported.since(before)


class UsageCounter:
    """Add up the usage that the events of one meter report."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self._earlier: Usage | None = None
        self._last: Usage | None = None
        self._key = ""

    def read(self, event: Any) -> None:
        if (usage := self.meter.read(event)) is None:
            return
        key = text_at(event, self.meter.each) if self.meter.each else ""
        if not key or key != self._key:
            self._earlier = total_usage([self._earlier, self._last])
        self._last, self._key = usage, key

    @property
    def usage(self) -> Usage | None:
        return self._last if self.meter.take == "last" else total_usage([self._earlier, self._last])


def _count(event: Any, path: str) -> int | None:
    """Add the figures at a path (one for each model). An implausible figure makes the sum unknown."""
    figures = values_at(event, path) if path else []
    if not figures or not all(type(value) is int and 0 <= value < MAX_AMOUNT for value in figures):
        return None
    return int(sum(figures)) if sum(figures) < MAX_AMOUNT else None


def _dollars(event: Any, path: str) -> float | None:
    figures = values_at(event, path) if path else []
    if not figures or not all(type(value) in (int, float) and 0 <= value < MAX_AMOUNT for value in figures):
        return None
    return float(sum(figures)) or None if sum(figures) < MAX_AMOUNT else None
