"""The leaderboard as text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from evopolicygym.analysis.formatting import between, caution, count, fixed, number, probability, span, with_interval
from evopolicygym.analysis.leaderboard.aggregates import Aggregate, AggregateRow
from evopolicygym.analysis.leaderboard.build import BoardTable, CostRow, Leaderboard, PaperRows
from evopolicygym.analysis.leaderboard.task_table import TaskRow, TaskTable
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL, FULL_SCOPE
from evopolicygym.cli.output import print_table, print_text

SURE = f"{CONFIDENCE_LEVEL:.0%}"
STANDING = ("place", "entrant", f"score [{SURE}]", "places", "P(first)", "rank score", "wins", "top-2", "interval of")
BESIDE = ("entrant", "interquartile mean", "optimality gap", "P(improvement) on the next", "paper's normalised")
ROW = ("rank", "entrant", "runs", "checkpoints", "score", f"{SURE} interval", "places", "P(first)", "normalised",
       "paper's", "rank score", "notes")  # fmt: skip
ROW_OPTIONAL = ("rank score", "paper's", "normalised", "checkpoints", "P(first)", "places", "runs")
COST = (
    "entrant",
    "runs",
    "checkpoints",
    "input tokens",
    "cached",
    "output",
    "dollars",
    "minutes",
    "score per dollar",
    "Pareto",
)


def show_leaderboard(made: Leaderboard) -> None:
    for number_, board in enumerate(made.boards, 1):
        print_text(f"{'' if number_ == 1 else chr(10)}board {number_} of {len(made.boards)}: {_conditions(board)}")
        for reason in board.apart:
            print_text(f"  apart: {reason}")
        for difference in board.differs:
            print_text(f"  differs from board 1 in {difference}")
        _show_board(board)
    print_text(
        f"\nscores: mean over tasks of (score - L) / (U - L), scale {made.scale_version}; intervals and P(first): "
        f"`evopolicygym docs statistics`, {made.draws:,} draws"
    )
    print_text("checkpoints: distinct ones that hidden validation chose among, mean over runs")


def _show_board(board: BoardTable) -> None:
    for aggregate in board.aggregates:
        _show_aggregate(aggregate)
    for table in board.tasks:
        _show_task(table)
    _show_selection(board)
    _show_costs(board)
    if board.paper_rows is PaperRows.APART:
        _show_published(board)


def _conditions(board: BoardTable) -> str:
    return ", ".join(f"{name} {str(value)[:24]}" for name, value in board.conditions.items())


def _show_aggregate(aggregate: Aggregate) -> None:
    names = ", ".join(one.entrant for one in aggregate.standings) or "none"
    print_text(f"\n{aggregate.name}: {aggregate.tasks} tasks, N = {len(aggregate.standings)} complete: {names}")
    if standings := aggregate.standings:
        print_table(STANDING, map(_standing, standings), remarks="interval of")
        print_table(BESIDE, (_beside(one, after) for one, after in zip_longest(standings, standings[1:])))
    for entrant, tasks in aggregate.incomplete.items():
        print_text(f"  {entrant}: {tasks} of {aggregate.tasks}, no rank")


def _standing(one: AggregateRow) -> tuple[str, ...]:
    return (
        str(one.rank),
        one.entrant,
        with_interval(one.normalised),
        span(one.places),
        probability(one.p_first),
        with_interval(one.rank_score),
        str(one.wins),
        str(one.top2),
        "; ".join([one.scope, *caution(one.coverage)]),
    )


def _beside(one: AggregateRow, after: AggregateRow | None) -> tuple[str, ...]:
    middle, gap = with_interval(one.interquartile_mean), with_interval(one.optimality_gap)
    better = fixed(one.p_improvement[after.entrant]) if after else "-"
    return one.entrant, middle, gap, better, fixed(one.paper_normalised)


def _show_task(table: TaskTable) -> None:
    names = ", ".join(row.entrant for row in table.rows)
    print_text(f"\n{table.task} ({table.comparable_id}): {table.cases} cases, N = {table.entrants}: {names or 'none'}")
    if table.rows:
        print_table(ROW, (_row(row, table) for row in table.rows), optional=ROW_OPTIONAL, remarks="notes")
    if table.trivial:
        print_text("  trivial policies: " + ", ".join(f"{name} {mean:.5g}" for name, mean in table.trivial.items()))
    if table.no_anchors:
        print_text(f"  the random policy is no entrant here: {table.no_anchors}")
    for one in table.missing:
        print_text(f"  missing: {one.entrant}, {one.run}: {one.reason}")


def _row(row: TaskRow, table: TaskTable) -> tuple[str, ...]:
    return (
        str(row.rank),
        row.entrant,
        str(row.runs),
        number(row.checkpoints),
        number(row.score, 6),
        between(row.interval),
        span(row.places),
        probability(row.p_first),
        fixed(row.normalised),
        fixed(row.paper_normalised),
        fixed(row.rank_score),
        "; ".join(_notes(row, table)),
    )


def _notes(row: TaskRow, table: TaskTable) -> Iterator[str]:
    if row.scope != FULL_SCOPE:
        yield row.scope
    if row.interval:
        yield from caution(row.coverage)
    if row.beats_trivial is False:
        best = max(table.trivial, key=table.trivial.__getitem__)
        yield f"does not beat the trivial policy {best!r}"
    yield from row.flags


def _show_selection(board: BoardTable) -> None:
    columns = ("task", "entrant", "runs", "candidates", "optimism", "regret", "regret known for")
    rows = [
        (table.task, row.entrant, str(one.runs), number(one.candidates), number(one.optimism), number(one.regret),
         f"{one.measured} of {one.runs}")
        for table in board.tasks for row in table.rows if (one := row.selection)
    ]  # fmt: skip
    if rows:
        print_text(
            "\nselection: validation minus held-out of the selected (optimism), best candidate minus selected (regret)"
        )
        print_table(columns, rows, optional=("regret known for", "candidates", "runs"))


def _show_costs(board: BoardTable) -> None:
    print_text("\ncost: means over runs; - is unknown")
    print_table(COST, map(_cost, board.costs), optional=("cached", "score per dollar", "Pareto"))


def _cost(row: CostRow) -> tuple[str, ...]:
    spent = row.cost
    return (
        row.entrant,
        str(row.runs),
        number(row.checkpoints),
        count(spent.input_tokens),
        count(spent.cached_tokens),
        count(spent.output_tokens),
        fixed(spent.dollars, 2),
        fixed(None if spent.wall_s is None else spent.wall_s / 60, 1),
        number(row.score_per_dollar),
        {True: "yes", False: "no", None: "-"}[row.pareto],
    )


def _show_published(board: BoardTable) -> None:
    """Beside, never among: these were measured on other cases or under another budget."""
    if not board.published:
        return
    names = list(next(iter(board.published.values())))
    print_text("\nfor reference only, the paper's rows (measured under other conditions, not comparable):")
    print_table(
        ("task", *names), ((task, *(number(row[name], 5) for name in names)) for task, row in board.published.items())
    )
