"""The leaderboard as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evopolicygym import __version__
from evopolicygym.analysis.entrants import Entrant
from evopolicygym.analysis.formatting import pluralize
from evopolicygym.analysis.knowledge_gap import KnowledgeGap
from evopolicygym.analysis.leaderboard.aggregates import FEWEST_TASKS, Aggregate
from evopolicygym.analysis.leaderboard.build import BoardTable, Leaderboard, PaperRows
from evopolicygym.analysis.leaderboard.detail_tables import (
    cost_table,
    crossed_tables,
    profile_table,
    score_at_cost_table,
    variance_table,
)
from evopolicygym.analysis.leaderboard.task_table import TaskTable
from evopolicygym.analysis.leaderboard.text_tables import (
    TextTable,
    describe_scale,
    differences_table,
    entrants_table,
    exchange_table,
    feedback_table,
    keys_table,
    knowledge_gap_table,
    other_aggregates_table,
    published_table,
    selection_table,
    sensitivity_table,
    standings_table,
    task_scores_table,
    unchanged_runs,
)
from evopolicygym.analysis.provenance import Provenance, made_on
from evopolicygym.cli.output import print_table, print_text

MORE = "other aggregates, variances, worth of the feedback, exchange rates, certainty of the selection, and cost"


def show_leaderboard(leaderboard: Leaderboard, details: bool = False) -> None:
    """Print ranks, scores and gains; with ``details`` all that is known of them."""
    for number, board in enumerate(leaderboard.boards, 1):
        space = "" if number == 1 else "\n"
        print_text(f"{space}board {number} of {len(leaderboard.boards)}: {_conditions(board.conditions)}")
        for reason in board.apart:
            print_text(f"  apart: {reason}")
        for difference in board.differs:
            print_text(f"  differs from board 1 in {difference}")
        _show_board(board, details)
    for gap in leaderboard.knowledge_gaps:
        show_knowledge_gap(gap)
    for keys in leaderboard.keys:
        table = keys_table(keys)
        print_text(f"\n{table.title} ({_conditions(keys.conditions)})")
        _print(table)
    print_text(
        f"\nscores: mean over tasks of {describe_scale(leaderboard.scale_version)}; intervals and "
        f"P(first): `evopolicygym docs statistics`, {leaderboard.draws:,} draws"
    )
    print_text("intervals: over runs and cases, unless a note says otherwise")
    print_text("checkpoints: distinct ones that hidden validation chose among, mean over runs")
    if not details:
        print_text(f"more: --details adds {MORE}")
    show_origin(leaderboard.entrants, leaderboard.provenance)


def show_origin(entrants: Sequence[Entrant], provenance: Provenance) -> None:
    """Print who is behind the names of a table, and where its runs come from."""
    table = entrants_table(entrants)
    print_text(f"\n{table.title}")
    _print(table)
    print_text(f"\nmade on {made_on()} with evopolicygym {__version__}; {provenance.line}")


def _show_board(board: BoardTable, details: bool) -> None:
    for aggregate in board.aggregates:
        if aggregate.standings:
            _show_aggregate(aggregate, details)
    for table in board.tasks:
        _show_task(table)
    if details:
        _show_details(board)
    if finding := unchanged_runs(board):
        print_text(f"\n{finding}")
    if board.paper_rows is PaperRows.APART and board.published:
        published = published_table(board)
        print_text(f"\n{published.title}")
        _print(published)
    if unranked := [_most_tasks(aggregate) for aggregate in board.aggregates if not aggregate.standings]:
        print_text(f"\nnot ranked, because no entrant has all tasks of the group: {', '.join(unranked)}")


def _show_details(board: BoardTable) -> None:
    crossed = crossed_tables(board.crossed) if board.crossed else []
    costs = (cost_table(board.costs), score_at_cost_table(board.costs))
    about_runs = (feedback_table(board), exchange_table(board), selection_table(board))
    for table in (variance_table(board.variance), *crossed, *about_runs, *costs):
        if table.rows:
            print_text(f"\n{table.title}")
            _print(table)


def _aggregate_details(aggregate: Aggregate) -> Iterator[TextTable]:
    yield other_aggregates_table(aggregate)
    if aggregate.tasks >= FEWEST_TASKS:
        yield profile_table(aggregate.name, aggregate.profiles)
        if aggregate.sensitivity:
            yield sensitivity_table(aggregate, aggregate.sensitivity)


def _most_tasks(aggregate: Aggregate) -> str:
    return f"{aggregate.name} (at most {max(aggregate.incomplete.values(), default=0)} of {aggregate.tasks})"


def show_knowledge_gap(gap: KnowledgeGap) -> None:
    table = knowledge_gap_table(gap)
    print_text(f"\n{table.title}")
    _print(table)
    for task, reason in gap.left_out.items():
        print_text(f"  not paired: {task}: {reason}")


def _show_aggregate(aggregate: Aggregate, details: bool) -> None:
    names = ", ".join(row.entrant for row in aggregate.standings)
    print_text(f"\n{aggregate.name}: {aggregate.tasks} tasks, N = {len(aggregate.standings)} complete: {names}")
    if aggregate.caution:
        print_text(f"  {aggregate.caution}")
    _print(standings_table(aggregate))
    if len(aggregate.differences) and aggregate.tasks >= FEWEST_TASKS:
        differences = differences_table(aggregate)
        print_text(f"  {differences.title}")
        _print(differences)
    for table in _aggregate_details(aggregate) if details else ():
        print_text(f"  {table.title}")
        _print(table)
    for entrant, tasks in aggregate.incomplete.items():
        print_text(f"  {entrant}: {tasks} of {aggregate.tasks}, no rank")


def _show_task(table: TaskTable) -> None:
    names = ", ".join(row.entrant for row in table.rows)
    print_text(f"\n{table.task} ({table.comparable_id}): {table.cases} cases, N = {table.entrants}: {names or 'none'}")
    if table.rows:
        if table.caution:
            print_text(f"  {table.caution}")
        _print(task_scores_table(table))
        if table.tests:
            print_text(f"  ranks: all hold at once; Holm over {pluralize(table.tests, 'difference')} of two entrants")
    if table.trivial:
        print_text("  trivial policies: " + ", ".join(f"{name} {mean:.5g}" for name, mean in table.trivial.items()))
    if table.no_anchors:
        print_text(f"  the random policy is no entrant here: {table.no_anchors}")
    for missing in table.missing:
        print_text(f"  missing: {missing.entrant}, {missing.run}: {missing.reason}")


def _print(table: TextTable) -> None:
    print_table(table.columns, table.rows, optional=table.optional, remarks=table.remarks)


def _conditions(conditions: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {str(value)[:24]}" for name, value in conditions.items())
