"""Tables beside the ranking as rows of text: performance profiles, variance components, harness and model, costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from evopolicygym.analysis.formatting import (
    UNKNOWN,
    coverage_warning,
    format_count,
    format_fixed,
    format_number,
    format_with_interval,
    pluralize,
)
from evopolicygym.analysis.leaderboard.aggregates import PROFILE
from evopolicygym.analysis.leaderboard.costs import CostRow
from evopolicygym.analysis.leaderboard.text_tables import LEVEL, TextTable, differences_text
from evopolicygym.analysis.leaderboard.variance_table import ALL_TASKS, CrossedFactors, VarianceRow
from evopolicygym.analysis.stats.estimates import Number

SHOWN: Final = (0.0, 0.25, 0.5, 0.75, 1.0)  # scores at which a profile is printed


def profile_table(name: str, profiles: Mapping[str, Sequence[Number]]) -> TextTable:
    """Return the share of runs of each entrant above some scores, from the shares above all of PROFILE."""
    columns = ("entrant", *(f"above {score:g}" for score in SHOWN))
    indices = [PROFILE.index(score) for score in SHOWN]
    rows = [
        (label, *(format_with_interval(profile[index], 2) for index in indices)) for label, profile in profiles.items()
    ]
    title = f"{name}: performance profile, share of runs above a normalised score [{LEVEL} over tasks]"
    return TextTable(title, columns, rows, optional=("above 0.25", "above 0.75"))


def variance_table(variance: Sequence[VarianceRow]) -> TextTable:
    """Return how much returns differ between runs, between cases, and by neither."""
    columns = ("task", "entrant", "runs", "between runs", "between cases", "rest", "shares", "unit")
    several = "; over all tasks, means of the squares" if any(row.task == ALL_TASKS for row in variance) else ""
    title = f"variance components: standard deviations [{LEVEL}]{several}; shares of runs, cases, rest"
    return TextTable(
        f"{title}{_variance_warning(variance)}",
        columns,
        [_variance(row) for row in variance],
        text=("task", "entrant", "unit"),
        optional=("unit", "runs", "shares"),
    )


def _variance_warning(variance: Sequence[VarianceRow]) -> str:
    measured = [row.coverage for row in variance if row.coverage]
    worst = min(measured, key=lambda coverage: coverage.low, default=None)
    return "".join(f"; {text}" for text in coverage_warning(worst))


def _variance(row: VarianceRow) -> tuple[str, ...]:
    parts = row.components
    shares = " / ".join(f"{100 * share:.0f}" for share in parts.shares) + " %" if parts.shares else "nothing varied"
    return (
        row.task,
        row.entrant,
        str(row.runs),
        *(format_with_interval(part, 3) for part in (parts.runs, parts.cases, parts.rest)),
        shares,
        row.unit,
    )


def crossed_tables(crossed: CrossedFactors) -> list[TextTable]:
    """Return the effects of harness and model: deviations, and the differences of every two of each."""
    title = (
        f"harness and model, crossed on {pluralize(crossed.tasks, 'task')}: standard deviations of the normalised "
        "score (few levels: no intervals)"
    )
    rows = [
        ("harness", str(len(crossed.harnesses)), format_fixed(crossed.harness)),
        ("model", str(len(crossed.models)), format_fixed(crossed.model)),
        ("harness with model", UNKNOWN, format_fixed(crossed.both)),
    ]
    tables = [TextTable(title, ("factor", "levels", "deviation"), rows, text=("factor",))]
    for name, shown in (("harness", crossed.harness_differences), ("model", crossed.model_differences)):
        other = "models" if name == "harness" else "harnesses"
        tables.append(differences_text(f"{name}, mean over {other}", shown, len(shown)))
    return tables


def cost_table(costs: Sequence[CostRow]) -> TextTable:
    """Return what the runs of each entrant cost."""
    columns = ("entrant", "runs", "checkpoints", "input tokens", "cached", "output", "dollars", "minutes",
               "score per dollar", "Pareto front")  # fmt: skip
    title = (
        f"cost: means over runs, {UNKNOWN} is unknown; dollars [{LEVEL} over runs] on the tasks of the first ranking; "
        "score per dollar only where the score is surely above 0; Pareto front: over tasks, Holm over all pairs"
        f"{_cost_warning(row for row in costs if row.dollars and row.dollars.interval)}"
    )
    optional = ("cached", "checkpoints", "score per dollar", "input tokens", "minutes")
    return TextTable(title, columns, [_cost(row) for row in costs], optional=optional)


def _cost_warning(with_interval: Iterable[CostRow]) -> str:
    measured = [row.coverage for row in with_interval if row.coverage]
    worst = min(measured, key=lambda coverage: coverage.low, default=None)
    return "".join(f"; {text}" for text in coverage_warning(worst))


def _cost(row: CostRow) -> tuple[str, ...]:
    cost = row.cost
    dollars = format_with_interval(row.dollars, 2) if row.dollars else format_fixed(cost.dollars, 2)
    return (
        row.entrant,
        str(row.runs),
        format_number(row.checkpoints),
        format_count(cost.input_tokens),
        format_count(cost.cached_tokens),
        format_count(cost.output_tokens),
        dollars,
        format_fixed(None if cost.wall_s is None else cost.wall_s / 60, 1),
        format_number(row.score_per_dollar),
        row.front or UNKNOWN,
    )


def score_at_cost_table(costs: Sequence[CostRow]) -> TextTable:
    """Return the scores that fixed amounts of dollars or tokens buy."""
    marks = next(([(at.unit, at.amount) for at in row.at] for row in costs if row.at), [])
    columns = ("entrant", *(_mark(*mark) for mark in marks))
    rows = [(row.entrant, *(format_with_interval(at.score, 2) for at in row.at)) for row in costs if row.at]
    title = (
        f"score at fixed cost: normalised validation score of the turns that ended by then [{LEVEL} over runs]; "
        f"{UNKNOWN}: reached within a turn"
        f"{_cost_warning(row for row in costs if any(at.score and at.score.interval for at in row.at))}"
    )
    return TextTable(title, columns, rows if any(at.score for row in costs for at in row.at) else [])


def _mark(unit: str, amount: float) -> str:
    return f"{amount:g} dollars" if unit == "dollars" else f"{amount:,.0f} tokens"
