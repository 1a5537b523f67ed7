"""What tokens cost: by the client's own word, else estimated from a dated table. Unknown is unknown, not zero."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from evopolicygym.agents.usage import Usage
from evopolicygym.config import StrictModel, read_toml, validate

CLIENT: Final = "client"
UNKNOWN: Final = "unknown"
DATED: Final = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
TABLE: Final = Path(str(resources.files("evopolicygym.agents"))) / "prices.toml"


class Price(StrictModel):
    """Dollars per million tokens. None: not known, so that usage with such tokens has no known cost."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    as_of: str
    source: str


class _Table(StrictModel):
    models: dict[str, Price]


@dataclass(frozen=True)
class TurnCost:
    """``source``: ``client``, ``prices`` (then ``price`` is what it was estimated with, for the record to quote), or
    ``unknown``."""

    usd: float | None
    source: str
    price: dict[str, Any] | None = None


def table(own: Path | None = None) -> dict[str, Price]:
    """The prices that ship; those of the user's own file come first."""
    return _shipped() | (_load(own) if own else {})


def cost(usage: Usage | None, model: str | None, prices: dict[str, Price] | None = None) -> TurnCost:
    if usage is not None and usage.cost_usd is not None:
        return TurnCost(usage.cost_usd, CLIENT)
    price = price_of(model, table() if prices is None else prices)
    usd = _estimate(usage, price) if usage and price else None
    return TurnCost(None, UNKNOWN) if usd is None or price is None else TurnCost(usd, "prices", price.model_dump())


def price_of(model: str | None, prices: dict[str, Price]) -> Price | None:
    """By its whole name first, then without the provider before it and the date after it."""
    name = model or ""
    short = DATED.sub("", name.rpartition("/")[2])
    return prices.get(name) or prices.get(short)


def _estimate(usage: Usage, price: Price) -> float | None:
    if usage.fresh_input is None or usage.output is None:
        return None
    parts = [
        (usage.fresh_input, price.input),
        (usage.output, price.output),
        (usage.cache_read or 0, price.cache_read),
        (usage.cache_write or 0, price.cache_write),
    ]
    if any(tokens and dollars is None for tokens, dollars in parts):
        return None
    return sum(tokens * (dollars or 0.0) for tokens, dollars in parts) / 1e6


def _load(path: Path) -> dict[str, Price]:
    return validate(_Table, read_toml(path, "price file"), f"the price file {path}").models


@cache
def _shipped() -> dict[str, Price]:
    return _load(TABLE)
