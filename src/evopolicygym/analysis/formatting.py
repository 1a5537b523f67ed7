"""Format numbers, intervals and rank intervals as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from evopolicygym.analysis.stats.by_task import PairedTest
    from evopolicygym.analysis.stats.estimates import Interval, Number
    from evopolicygym.analysis.stats.measured import Coverage
    from evopolicygym.analysis.stats.ranks import RankInterval

UNKNOWN: Final = "-"


def format_number(value: float | None, digits: int = 4) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}g}"


def describe_unchanged(unchanged: int, started: int) -> str:
    """Say how many of the runs with an ``ok`` submission never changed their policy after it."""
    if started and not unchanged:
        return "every run changed its policy after the first submission"
    return f"{unchanged} of {started} runs never changed their policy after the first submission"


def format_gain(value: float | None, digits: int = 4) -> str:
    """Return a difference with its sign; 0 has none."""
    return UNKNOWN if value is None else f"{value:+.{digits}g}" if value else "0"


def format_fixed(value: float | None, digits: int = 3) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def format_count(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun in the right form: "1 run", "2 runs"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_interval(interval: Interval | None, digits: int = 4) -> str:
    return UNKNOWN if interval is None else f"{interval.low:.{digits}g} to {interval.high:.{digits}g}"


def format_with_interval(estimate: Number | None, digits: int = 3) -> str:
    if estimate is None:
        return UNKNOWN
    interval = estimate.interval
    suffix = "" if interval is None else f" [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
    return f"{estimate.value:.{digits}f}{suffix}"


def format_number_with_interval(estimate: Number | None, digits: int = 4) -> str:
    """Return a return with its interval, with so many significant digits."""
    if estimate is None:
        return UNKNOWN
    interval = estimate.interval
    suffix = "" if interval is None else f" [{interval.low:.{digits}g}, {interval.high:.{digits}g}]"
    return f"{estimate.value:.{digits}g}{suffix}"


def format_ranks(ranks: RankInterval) -> str:
    return f"{ranks.first}" if ranks.first == ranks.last else f"{ranks.first}-{ranks.last}"


def format_probability(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if value < 0.001:
        return "<0.001"
    return ">0.999" if 0.9995 <= value < 1.0 else f"{value:.3f}"


def describe_policies(runs: int, policies: int | None) -> list[str]:
    """Return a note where runs selected the same policy: they are not independent."""
    if policies is None or policies == runs:
        return []
    return [f"{pluralize(runs, 'run')}, {policies} distinct selected {'policy' if policies == 1 else 'policies'}"]


def coverage_warning(coverage: Coverage | None, count: int | None = None, noun: str = "run") -> list[str]:
    """Return a warning where intervals from so few runs were measured to contain the true value too rarely."""
    if coverage is None or coverage.is_nominal:
        return []
    sample = f"so few {noun}s" if count is None else pluralize(count, noun)
    share = f"{100 * coverage.low:.0f} to {100 * coverage.high:.0f} % of simulations"
    return [f"95 % intervals from {sample} contained the true value in {share}"]


def misleading_warning(statement: str, rate: float | None) -> list[str]:
    """Return a warning where a statement was measured to set entrants with equal means apart too often."""
    if rate is None:
        return []
    return [f"with so few runs, {statement} came from equal means in up to {100 * rate:.0f} % of simulations"]


def describe_wins(test: PairedTest) -> str:
    """Return the tasks that each side won, with the sign test."""
    p_value = "" if test.p_sign is None else f", p {format_probability(test.p_sign)}"
    return f"{test.won}:{test.lost}{p_value}"
