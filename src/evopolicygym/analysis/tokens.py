"""Tokens that mean the same for every client, and the rules by which single requests tell theirs.

No such figure is taken on trust: where the requests of a turn do not add up to what the turn was metered at, they are
not used (see `between.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from evopolicygym.run_record import Turn


@dataclass(frozen=True)
class Tokens:
    """The three inputs never overlap; ``reasoning`` is part of ``output``. None is unknown."""

    fresh_input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None


KINDS: Final = tuple(field.name for field in fields(Tokens))


def of_turn(turn: Turn) -> Tokens:
    told = turn.usage or {}
    return Tokens(**{kind: told[kind] if type(told.get(kind)) is int else None for kind in KINDS})


def total(parts: Iterable[int | None]) -> int | None:
    """Unknown as soon as a part is unknown."""
    known = list(parts)
    return None if None in known else sum(part for part in known if part is not None)


@dataclass(frozen=True)
class Step:
    """``where``: in events with these values at these paths. ``at``: where each kind of tokens stands. ``identity``:
    what is equal in several events about one request. ``late``: a request is told of after its tools have answered."""

    name: str
    where: Mapping[str, str]
    at: Mapping[str, str]
    identity: str = ""
    input_includes_cache: bool = False
    output_includes_reasoning: bool = True
    late: bool = False

    def read(self, event: Any) -> Tokens | None:
        if any(at(event, path) != value for path, value in self.where.items()):
            return None
        found = {kind: _count(at(event, path)) for kind, path in self.at.items()}
        if found["fresh_input"] is None or found["output"] is None:
            return None
        if self.input_includes_cache:
            found["fresh_input"] -= (found.get("cache_read") or 0) + (found.get("cache_write") or 0)
        if not self.output_includes_reasoning:
            found["output"] += found.get("reasoning") or 0
        return Tokens(**found)


OURS: Final = {kind: f"usage.{kind}" for kind in KINDS}
MESSAGE: Final = {
    "fresh_input": "message.usage.input_tokens",
    "cache_read": "message.usage.cache_read_input_tokens",
    "cache_write": "message.usage.cache_creation_input_tokens",
    "output": "message.usage.output_tokens",
}
PART: Final = {
    "fresh_input": "part.tokens.input",
    "cache_read": "part.tokens.cache.read",
    "cache_write": "part.tokens.cache.write",
    "output": "part.tokens.output",
    "reasoning": "part.tokens.reasoning",
}
ASSISTANT: Final = {"type": "assistant"}
STEPS: Final = (
    Step("ours", ASSISTANT, OURS),
    Step("message", ASSISTANT, MESSAGE, "message.id"),
    Step("message with cache", ASSISTANT, MESSAGE, "message.id", input_includes_cache=True),
    Step("part", {"type": "step_finish"}, PART, output_includes_reasoning=False, late=True),
)


def at(event: Any, path: str) -> Any:
    for step in path.split("."):
        event = event.get(step) if isinstance(event, dict) else None
    return event


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 10**15 else None
