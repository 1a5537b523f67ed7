"""Build the leaderboard: for each board its task tables, aggregates, variance components and costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from evopolicygym.analysis.entrants import NO_LABELS, Entrant, name_runs
from evopolicygym.analysis.exchange_rate import ExchangeRate, exchange_rates
from evopolicygym.analysis.knowledge_gap import KnowledgeGap, knowledge_gaps
from evopolicygym.analysis.leaderboard.aggregates import Aggregate, aggregate, shared_tasks, task_groups
from evopolicygym.analysis.leaderboard.boards import Board, boards, conditions
from evopolicygym.analysis.leaderboard.costs import CostRow, cost_rows
from evopolicygym.analysis.leaderboard.keys import KeyTable, key_tables
from evopolicygym.analysis.leaderboard.task_results import EntryKind, TaskResults, task_results
from evopolicygym.analysis.leaderboard.task_table import TaskTable, task_table
from evopolicygym.analysis.leaderboard.variance_table import (
    CrossedFactors,
    VarianceRow,
    crossed_factors,
    returns_of,
    variance_rows,
)
from evopolicygym.analysis.provenance import Provenance, provenance
from evopolicygym.analysis.scales import with_scales
from evopolicygym.analysis.stats.first_place import DRAWS
from evopolicygym.errors import UserError
from evopolicygym.reference import CURRENT_SCALE, paper
from evopolicygym.reference.anchors import AnchorFile
from evopolicygym.reference.curves import CurveRecord
from evopolicygym.run_record import RunRecord

MAX_ENTRANTS: Final = 200


class PaperRows(StrEnum):
    """Where published rows stand. ``mixed``: in the tables, as measured like these runs. ``apart``: for reference."""

    ABSENT = "absent"
    MIXED = "mixed"
    APART = "apart"


@dataclass(frozen=True)
class BoardTable:
    """Tables of one board. ``apart`` and ``differs`` say why its runs share no table with those of the first board.
    ``crossed``: effects of harness and model, where every harness was played with every model."""

    conditions: dict[str, Any]
    apart: tuple[str, ...]
    differs: tuple[str, ...]
    paper_rows: PaperRows
    published: dict[str, dict[str, float]]
    tasks: tuple[TaskTable, ...]
    aggregates: tuple[Aggregate, ...]
    variance: tuple[VarianceRow, ...]
    crossed: CrossedFactors | None
    costs: tuple[CostRow, ...]
    exchange_rates: tuple[EntrantExchange, ...]


@dataclass(frozen=True)
class EntrantExchange:
    """Cost of an entrant's task score with baselines that were trained on the same task and measured on the
    same cases."""

    task: str
    entrant: str
    rates: tuple[ExchangeRate, ...]


@dataclass(frozen=True)
class Leaderboard:
    """All boards, the largest publishable one first: the object behind `leaderboard --json`. Beside them what runs of
    different boards have in common: the knowledge gaps of entrants with runs on plain and on disguised tasks, the means
    over ``keys`` of generated tasks, the ``entrants`` behind the names, and the ``provenance`` of all runs."""

    scale_version: int
    draws: int
    boards: tuple[BoardTable, ...]
    knowledge_gaps: tuple[KnowledgeGap, ...]
    keys: tuple[KeyTable, ...]
    entrants: tuple[Entrant, ...]
    provenance: Provenance

    @property
    def missing(self) -> int:
        """Number of runs without a score."""
        return sum(len(table.missing) for board in self.boards for table in board.tasks)


def leaderboard(
    runs: Iterable[RunRecord],
    files: Sequence[AnchorFile],
    with_paper: bool = False,
    draws: int = DRAWS,
    scale: int = CURRENT_SCALE,
    labels: Mapping[str, str] = NO_LABELS,
    curves: Sequence[CurveRecord] = (),
) -> Leaderboard:
    """Build the leaderboard of runs.

    Args:
        runs: Records of runs, in any order.
        files: Anchor files; the first with anchors that fit a task is used.
        with_paper: Add the published rows.
        draws: Number of draws for P(first).
        scale: Version of the scale of normalised scores.
        labels: New names of entrants, by their names.
        curves: Learning curves of baselines, for exchange rates.

    Raises:
        UserError: There is no such scale, a label is for a name that no entrant has, or there are more than
            MAX_ENTRANTS; the work grows with the square of their number.
    """
    runs, entrants = name_runs(with_scales(runs, files, scale), labels)
    if len(entrants) > MAX_ENTRANTS:
        raise UserError(
            f"there are {len(entrants)} entrants; a leaderboard takes at most {MAX_ENTRANTS}",
            "Give folders with fewer.",
        )
    tables = tuple(_board(board, files, with_paper, draws, curves) for board in boards(runs))
    return Leaderboard(scale, draws, tables, knowledge_gaps(runs), key_tables(runs), entrants, provenance(runs))


def _board(
    board: Board, files: Sequence[AnchorFile], with_paper: bool, draws: int, curves: Sequence[CurveRecord]
) -> BoardTable:
    rows = _paper_rows(board, with_paper)
    mixed = rows is PaperRows.MIXED
    results = {task: task_results(group, files, mixed, draws) for task, group in board.groups.items()}
    scaled = {task: result for task, result in results.items() if result.scale}
    groups = shared_tasks(scaled) | task_groups(scaled)
    aggregates = [aggregate(name, tasks, scaled) for name, tasks in groups.items() if set(tasks) & set(scaled)]
    whole = aggregates[0] if aggregates else None
    return BoardTable(
        conditions=conditions(board.sample.ids.fingerprint),
        apart=board.apart,
        differs=board.differs,
        paper_rows=rows,
        published={task: row for task, row in paper.published().items() if task in results and rows is PaperRows.APART},
        tasks=tuple(task_table(result) for result in results.values()),
        aggregates=tuple(aggregates),
        variance=tuple(variance_rows(returns_of(results.values()))),
        crossed=crossed_factors(whole, results.values()),
        costs=tuple(_costs(results, whole)),
        exchange_rates=tuple(_exchange(results, curves)),
    )


def _exchange(results: dict[str, TaskResults], curves: Sequence[CurveRecord]) -> Iterator[EntrantExchange]:
    for task, result in results.items():
        for entry in sorted(result.entries, key=lambda entry: -entry.score):
            if entry.runs and (rates := exchange_rates(curves, entry.runs[0], entry.score)):
                yield EntrantExchange(task, entry.label, tuple(rates))


def _paper_rows(board: Board, with_paper: bool) -> PaperRows:
    """Return where published rows stand: in the tables only with publishable runs on the paper's cases, under its
    conditions."""
    if not with_paper:
        return PaperRows.ABSENT
    alike = not board.apart and all(_as_in_the_paper(group.sample) for group in board.groups.values())
    return PaperRows.MIXED if alike else PaperRows.APART


def _as_in_the_paper(run: RunRecord) -> bool:
    """Return whether cases, budget and conditions are the paper's. Own models may be allowed or forbidden: the paper
    forbade them by prompt, which holds no agent back."""
    cases = (run.options.validation_cases, run.options.heldout_cases)
    same_cases = run.ids.splits_id == "paper" and cases == (paper.VALIDATION_CASES, paper.HELDOUT_CASES)
    options = run.options
    played = (options.text, options.variant, options.feedback, options.max_candidates)
    return same_cases and run.budget.total == paper.BUDGET and played == ("brief", "plain", "trajectory", None)


def _costs(results: Mapping[str, TaskResults], whole: Aggregate | None) -> list[CostRow]:
    played: dict[str, dict[str, Sequence[RunRecord]]] = {}
    for task, result in results.items():
        for entry in result.entries:
            if entry.kind is EntryKind.RUNS:
                played.setdefault(entry.label, {})[task] = entry.runs
    standings = whole.standings if whole else ()
    return cost_rows(
        played, {row.entrant: (row.normalised, row.task_scores) for row in standings if row.entrant in played}
    )
