"""The tables of a leaderboard as rows of text, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from evopolicygym.analysis.formatting import (
    UNKNOWN,
    coverage_warning,
    format_count,
    format_fixed,
    format_interval,
    format_number,
    format_probability,
    format_ranks,
    format_with_interval,
)
from evopolicygym.analysis.leaderboard.aggregates import Aggregate, AggregateRow
from evopolicygym.analysis.leaderboard.build import BoardTable, CostRow
from evopolicygym.analysis.leaderboard.task_table import TaskRow, TaskTable
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL, FULL_SCOPE

LEVEL: Final = f"{CONFIDENCE_LEVEL:.0%}"


@dataclass(frozen=True)
class TextTable:
    """A table of text.

    The columns named in ``text`` hold words, the others numbers. ``remarks`` is a column of sentences. Where there is
    no room for all columns, those in ``optional`` are left out, in that order.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: Collection[str] = ("task", "entrant")
    remarks: str | None = None
    optional: Sequence[str] = ()


def standings_table(aggregate: Aggregate) -> TextTable:
    """Return the ranking over all tasks of a collection or family."""
    columns = ("rank", "entrant", f"score [{LEVEL}]", "ranks", "P(first)", "rank score", "wins", "top-2",
               "interval of")  # fmt: skip
    rows = [_standing(row) for row in aggregate.standings]
    return TextTable(f"{aggregate.name}: {aggregate.tasks} tasks", columns, rows, remarks="interval of")


def other_aggregates_table(aggregate: Aggregate) -> TextTable:
    """Return other summaries of the same scores."""
    columns = ("entrant", "interquartile mean", "optimality gap", "P(improvement) on the next", "paper's normalised")
    following = zip_longest(aggregate.standings, aggregate.standings[1:])
    return TextTable(f"{aggregate.name}: other aggregates", columns, [_other(row, after) for row, after in following])


def task_scores_table(table: TaskTable) -> TextTable:
    """Return the entrants of one task, best first."""
    columns = ("rank", "entrant", "runs", "checkpoints", "score", f"{LEVEL} interval", "ranks", "P(first)",
               "normalised", "paper's", "rank score", "notes")  # fmt: skip
    optional = ("rank score", "paper's", "normalised", "checkpoints", "P(first)", "ranks", "runs")
    title = f"{table.task}: {table.cases} held-out cases, N = {table.entrants}"
    rows = [_task_row(row, table) for row in table.rows]
    return TextTable(title, columns, rows, remarks="notes", optional=optional)


def selection_table(board: BoardTable) -> TextTable:
    """Return what selection by validation gained and lost."""
    columns = ("task", "entrant", "runs", "candidates", "optimism", "regret", "regret known for")
    rows = [
        (table.task, row.entrant, str(selection.runs), format_number(selection.candidates),
         format_number(selection.optimism), format_number(selection.regret),
         f"{selection.measured} of {selection.runs}")
        for table in board.tasks for row in table.rows if (selection := row.selection)
    ]  # fmt: skip
    title = "selection: validation minus held-out of the selected (optimism), best candidate minus selected (regret)"
    return TextTable(title, columns, rows, optional=("regret known for", "candidates", "runs"))


def cost_table(board: BoardTable) -> TextTable:
    """Return what the runs of each entrant cost."""
    columns = ("entrant", "runs", "checkpoints", "input tokens", "cached", "output", "dollars", "minutes",
               "score per dollar", "Pareto")  # fmt: skip
    rows = [_cost(row) for row in board.costs]
    optional = ("cached", "score per dollar", "Pareto")
    return TextTable(f"cost: means over runs; {UNKNOWN} is unknown", columns, rows, optional=optional)


def published_table(board: BoardTable) -> TextTable:
    """Return the paper's rows, which were measured on other cases or under another budget."""
    agents = list(dict.fromkeys(agent for row in board.published.values() for agent in row))
    rows = [(task, *(format_number(row.get(agent), 5) for agent in agents)) for task, row in board.published.items()]
    title = "For reference only, the paper's rows (measured under other conditions, not comparable):"
    return TextTable(title, ("task", *agents), rows)


def _standing(row: AggregateRow) -> tuple[str, ...]:
    return (
        str(row.rank),
        row.entrant,
        format_with_interval(row.normalised),
        format_ranks(row.places),
        format_probability(row.p_first),
        format_with_interval(row.rank_score),
        str(row.wins),
        str(row.top2),
        "; ".join([row.scope, *coverage_warning(row.coverage)]),
    )


def _other(row: AggregateRow, after: AggregateRow | None) -> tuple[str, ...]:
    better = format_fixed(row.p_improvement[after.entrant]) if after else UNKNOWN
    middle, gap = format_with_interval(row.interquartile_mean), format_with_interval(row.optimality_gap)
    return row.entrant, middle, gap, better, format_fixed(row.paper_normalised)


def _task_row(row: TaskRow, table: TaskTable) -> tuple[str, ...]:
    return (
        str(row.rank),
        row.entrant,
        str(row.runs),
        format_number(row.checkpoints),
        format_number(row.score, 6),
        format_interval(row.interval),
        format_ranks(row.places),
        format_probability(row.p_first),
        format_fixed(row.normalised),
        format_fixed(row.paper_normalised),
        format_fixed(row.rank_score),
        "; ".join(_notes(row, table)),
    )


def _notes(row: TaskRow, table: TaskTable) -> Iterator[str]:
    if row.scope != FULL_SCOPE:
        yield row.scope
    if row.interval:
        yield from coverage_warning(row.coverage, row.runs)
    if row.beats_trivial is False:
        best = max(table.trivial, key=table.trivial.__getitem__)
        yield f"does not beat the trivial policy {best!r}"
    yield from row.flags


def _cost(row: CostRow) -> tuple[str, ...]:
    cost = row.cost
    return (
        row.entrant,
        str(row.runs),
        format_number(row.checkpoints),
        format_count(cost.input_tokens),
        format_count(cost.cached_tokens),
        format_count(cost.output_tokens),
        format_fixed(cost.dollars, 2),
        format_fixed(None if cost.wall_s is None else cost.wall_s / 60, 1),
        format_number(row.score_per_dollar),
        {True: "yes", False: "no", None: UNKNOWN}[row.pareto],
    )
