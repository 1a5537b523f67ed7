"""From a client's figures to tokens that mean the same for every client."""

from __future__ import annotations

from typing import Any, Literal

from evopolicygym.agents.picks import Scalar, matches, text_at, values
from evopolicygym.agents.turns import LARGEST, Usage, total
from evopolicygym.config import StrictModel


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
        if not matches(event, self.where) or fresh is None or output is None:
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


class Tally:
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
            self._earlier = total([self._earlier, self._last])
        self._last, self._key = usage, key

    @property
    def told(self) -> Usage | None:
        return self._last if self.meter.take == "last" else total([self._earlier, self._last])


def _count(event: Any, path: str) -> int | None:
    """Several figures (of several models) add up. A figure that cannot be one is not known."""
    found = values(event, path) if path else []
    if not found or not all(type(value) is int and 0 <= value < LARGEST for value in found):
        return None
    return int(sum(found)) if sum(found) < LARGEST else None


def _dollars(event: Any, path: str) -> float | None:
    found = values(event, path) if path else []
    if not found or not all(type(value) in (int, float) and 0 <= value < LARGEST for value in found):
        return None
    return float(sum(found)) or None if sum(found) < LARGEST else None
