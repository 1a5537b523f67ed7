"""Build the leaderboard: for each board its task tables, aggregates and costs.

A mean cost is None (unknown) as soon as one run of the entrant has no number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from evopolicygym.analysis.knowledge_gap import KnowledgeGap, knowledge_gaps
from evopolicygym.analysis.leaderboard.aggregates import Aggregate, aggregate, shared_tasks, task_groups
from evopolicygym.analysis.leaderboard.boards import Board, boards, conditions
from evopolicygym.analysis.leaderboard.keys import KeyTable, key_tables
from evopolicygym.analysis.leaderboard.selection import mean_candidates
from evopolicygym.analysis.leaderboard.task_results import EntryKind, TaskResults, task_results, with_own_scales
from evopolicygym.analysis.leaderboard.task_table import TaskTable, task_table
from evopolicygym.analysis.scores import entrant, mean_if_known
from evopolicygym.analysis.stats.bootstrap import DRAWS
from evopolicygym.errors import UserError
from evopolicygym.reference import paper
from evopolicygym.reference.anchors import AnchorFile, scale_version
from evopolicygym.run_record import RunRecord

MAX_ENTRANTS: Final = 200
# Keys of ``usage`` in run.json, for the whole run. Cached input is not part of input.
INPUT: Final = "input_tokens"
CACHED: Final = "cached_tokens"
OUTPUT: Final = "output_tokens"
DOLLARS: Final = "dollars"


@dataclass(frozen=True)
class MeanCost:
    """Mean cost per run. ``wall_s`` is from opening to closing: hidden scoring is not the agent's time."""

    input_tokens: float | None
    cached_tokens: float | None
    output_tokens: float | None
    dollars: float | None
    wall_s: float | None


def mean_cost(runs: Iterable[RunRecord]) -> MeanCost:
    """Average the cost of runs; None where one of them has no number."""
    listed = list(runs)
    return MeanCost(
        input_tokens=mean_if_known(_usage(run, INPUT) for run in listed),
        cached_tokens=mean_if_known(_usage(run, CACHED) for run in listed),
        output_tokens=mean_if_known(_usage(run, OUTPUT) for run in listed),
        dollars=mean_if_known(_usage(run, DOLLARS) for run in listed),
        wall_s=mean_if_known(_wall_s(run) for run in listed),
    )


def per_dollar(score: float | None, dollars: float | None) -> float | None:
    return score / dollars if score is not None and dollars else None


def pareto(points: Mapping[str, tuple[float, float]]) -> set[str]:
    """Return the names of the (dollars, score) points on the Pareto front: no other point dominates them."""
    return {name for name, point in points.items() if not any(_dominates(other, point) for other in points.values())}


def _dominates(other: tuple[float, float], point: tuple[float, float]) -> bool:
    return other != point and other[0] <= point[0] and other[1] >= point[1]


def _usage(run: RunRecord, key: str) -> float | None:
    value = (run.usage or {}).get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _wall_s(run: RunRecord) -> float | None:
    return (run.times.closed - run.times.opened).total_seconds() if run.times.closed else None


class PaperRows(StrEnum):
    """Where published rows stand. ``mixed``: in the tables, as measured like these runs. ``apart``: for reference."""

    ABSENT = "absent"
    MIXED = "mixed"
    APART = "apart"


@dataclass(frozen=True)
class CostRow:
    """Cost of one entrant. ``checkpoints``: mean number of distinct candidates. ``score``: that of the first aggregate,
    over Core16 or over the shared tasks. ``pareto``: no entrant is both cheaper and better. None: unknown."""

    entrant: str
    runs: int
    checkpoints: float | None
    cost: MeanCost
    score: float | None
    score_per_dollar: float | None
    pareto: bool | None


@dataclass(frozen=True)
class BoardTable:
    """Tables of one board. ``apart`` and ``differs`` say why its runs share no table with those of the first board."""

    conditions: dict[str, Any]
    apart: tuple[str, ...]
    differs: tuple[str, ...]
    paper_rows: PaperRows
    published: dict[str, dict[str, float]]
    tasks: tuple[TaskTable, ...]
    aggregates: tuple[Aggregate, ...]
    costs: tuple[CostRow, ...]


@dataclass(frozen=True)
class Leaderboard:
    """All boards, the largest publishable one first: the object behind `leaderboard --json`. Beside them what runs of
    different boards have in common: the knowledge gaps of entrants with runs on plain and on disguised tasks, and the
    means over ``keys`` of generated tasks."""

    scale_version: int
    draws: int
    boards: tuple[BoardTable, ...]
    knowledge_gaps: tuple[KnowledgeGap, ...]
    keys: tuple[KeyTable, ...]

    @property
    def missing(self) -> int:
        """Number of runs without a score."""
        return sum(len(table.missing) for board in self.boards for table in board.tasks)


def leaderboard(
    runs: Iterable[RunRecord], files: Sequence[AnchorFile], with_paper: bool = False, draws: int = DRAWS
) -> Leaderboard:
    """Build the leaderboard of runs.

    Args:
        runs: Records of runs, in any order.
        files: Anchor files; the first with anchors that fit a task is used.
        with_paper: Add the published rows.
        draws: Number of bootstrap draws.

    Raises:
        UserError: There are more than MAX_ENTRANTS; the work grows with the square of their number.
    """
    runs = with_own_scales(runs, files)
    if (entrants := len({entrant(run) for run in runs})) > MAX_ENTRANTS:
        raise UserError(
            f"there are {entrants} entrants; a leaderboard takes at most {MAX_ENTRANTS}", "Give folders with fewer."
        )
    tables = tuple(_board(board, files, with_paper, draws) for board in boards(runs))
    return Leaderboard(scale_version(), draws, tables, knowledge_gaps(runs), key_tables(runs))


def _board(board: Board, files: Sequence[AnchorFile], with_paper: bool, draws: int) -> BoardTable:
    rows = _paper_rows(board, with_paper)
    mixed = rows is PaperRows.MIXED
    results = {task: task_results(group, files, mixed, draws) for task, group in board.groups.items()}
    scaled = {task: result for task, result in results.items() if result.scale}
    groups = shared_tasks(scaled) | task_groups(scaled)
    aggregates = [aggregate(name, tasks, scaled) for name, tasks in groups.items() if set(tasks) & set(scaled)]
    return BoardTable(
        conditions=conditions(board.sample.ids.fingerprint),
        apart=board.apart,
        differs=board.differs,
        paper_rows=rows,
        published={task: row for task, row in paper.published().items() if task in results and rows is PaperRows.APART},
        tasks=tuple(task_table(result) for result in results.values()),
        aggregates=tuple(aggregates),
        costs=tuple(_costs(results, aggregates)),
    )


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


def _costs(results: dict[str, TaskResults], aggregates: list[Aggregate]) -> list[CostRow]:
    played: dict[str, list[RunRecord]] = {}
    for result in results.values():
        for entry in result.entries:
            if entry.kind is EntryKind.RUNS:
                played.setdefault(entry.label, []).extend(entry.runs)
    scores = {row.entrant: row.normalised.value for whole in aggregates[:1] for row in whole.standings}
    costs = {label: mean_cost(runs) for label, runs in played.items()}
    points = {label: (costs[label].dollars, scores.get(label)) for label in played}
    complete = {label: (x, y) for label, (x, y) in points.items() if x is not None and y is not None}
    best = pareto(complete)
    return [
        CostRow(label, len(runs), mean_candidates(runs), costs[label], scores.get(label),
                per_dollar(scores.get(label), costs[label].dollars), label in best if label in complete else None)
        for label, runs in sorted(played.items())
    ]  # fmt: skip
