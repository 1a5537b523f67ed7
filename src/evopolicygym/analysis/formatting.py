"""Numbers, intervals and places as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from evopolicygym.analysis.stats.coverage import Coverage
    from evopolicygym.analysis.stats.estimates import Interval, Number
    from evopolicygym.analysis.stats.ranks import RankInterval

UNKNOWN: Final = "-"


def number(value: float | None, digits: int = 4) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}g}"


def fixed(value: float | None, digits: int = 3) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the right form: "1 run", "2 runs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def between(interval: Interval | None, digits: int = 4) -> str:
    return UNKNOWN if interval is None else f"{interval.low:.{digits}g} to {interval.high:.{digits}g}"


def with_interval(found: Number | None, digits: int = 3) -> str:
    if found is None:
        return UNKNOWN
    held = found.interval
    inner = "" if held is None else f" [{held.low:.{digits}f}, {held.high:.{digits}f}]"
    return f"{found.value:.{digits}f}{inner}"


def span(places: RankInterval) -> str:
    return f"{places.first}" if places.first == places.last else f"{places.first}-{places.last}"


def probability(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def caution(coverage: Coverage | None) -> list[str]:
    """Of few runs an interval says more than it can keep."""
    if coverage is None or coverage.is_nominal:
        return []
    return [f"few runs: holds {coverage.low:.0%} to {coverage.high:.0%} of the time, not 95%"]
