"""Cost of a turn: as the client reports it, else estimated from token prices. An unknown cost is None, not zero.

Prices come from the user's own file (``--prices``), then from the data that the `genai-prices` package ships. That data
is part of the installed version: nothing is fetched at run time, so the same installation gives the same estimate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from evopolicygym.agents.usage import Usage
from evopolicygym.config import StrictModel, read_toml, validate

CLIENT: Final = "client"
GATEWAY: Final = "gateway"
PRICES: Final = "prices"
UNKNOWN: Final = "unknown"
KINDS: Final = ("input", "output", "cache_read", "cache_write")
DATE_SUFFIX: Final = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$")


Dollars = Annotated[float, Field(ge=0, le=1e9)]  # a negative price would lift a limit, and none is beyond


class Price(StrictModel):
    """Dollars per million tokens. None: unknown, so that usage with such tokens has no known cost."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    as_of: str
    source: str


class _PriceFile(StrictModel):
    models: dict[str, Price]


@dataclass(frozen=True)
class TurnCost:
    """Dollars of one turn. ``source`` is ``client``, ``gateway`` (the sum over its calls), ``prices`` (an estimate of
    the whole turn), or ``unknown``. ``price`` is what an estimate used, for the record."""

    usd: float | None
    source: str
    price: dict[str, Any] | None = None


def load_prices(path: Path | None) -> dict[str, Price]:
    """Read the user's price file; an empty table without one. Raises UserError."""
    return validate(_PriceFile, read_toml(path, "price file"), f"the price file {path}").models if path else {}


def cost(usage: Usage | None, model: str | None, prices: dict[str, Price] | None = None) -> TurnCost:
    """Return what a turn cost. ``prices`` of the user take precedence over those that ship."""
    if usage is not None and usage.cost_usd is not None and usage.source != GATEWAY:
        return TurnCost(usage.cost_usd, CLIENT)
    price = price_of(model, prices or {})
    if usage is not None and usage.cost_usd is not None:
        return TurnCost(usage.cost_usd, GATEWAY, price.model_dump() if price else None)
    usd = _estimate(usage, price) if usage and price else None
    return TurnCost(None, UNKNOWN) if usd is None or price is None else TurnCost(usd, PRICES, price.model_dump())


def price_of(model: str | None, prices: dict[str, Price]) -> Price | None:
    """Look a model up by its whole name, then without the provider before it and the date after it."""
    name = model or ""
    short = DATE_SUFFIX.sub("", name.rpartition("/")[2])
    return prices.get(name) or prices.get(short) or (_shipped(short) if short else None)


def _shipped(model: str) -> Price | None:
    """Return today's price by genai-prices. Where long prompts cost more, it is the price of short ones: the
    tokens of a turn are known, but not how they were spread over requests."""
    import genai_prices  # takes 0.2 s

    try:
        calculation = genai_prices.calc_price(genai_prices.Usage(), model, genai_request_timestamp=datetime.now(UTC))
    except LookupError:
        return None
    base = {name: _base(getattr(calculation.model_price, f"{name}_mtok")) for name in KINDS}
    if base["input"] is None or base["output"] is None:
        return None
    urls = calculation.provider.pricing_urls or [calculation.provider.name]
    return Price.model_validate(base | {"as_of": f"genai-prices {version('genai-prices')}", "source": urls[0]})


def _base(price: Any) -> float | None:
    return None if price is None else float(getattr(price, "base", price))


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
