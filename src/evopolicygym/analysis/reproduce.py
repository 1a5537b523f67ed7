"""Recompute the paper's tables from its own numbers, and compare them with the printed ones cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np

from evopolicygym.analysis.reference_table import ReferenceTable, reference_table
from evopolicygym.analysis.scores import mean_if_known, paper_normalised
from evopolicygym.analysis.stats.by_task import EntrantDifference, compare_by_task
from evopolicygym.analysis.stats.multiple_testing import holm
from evopolicygym.analysis.stats.ranks import over_tasks, ranks
from evopolicygym.errors import UserError
from evopolicygym.reference import CURRENT_SCALE
from evopolicygym.reference.paper import RANDOM, Document, Edits, Table
from evopolicygym.reference.scales import scales

ALL: Final = "core16"
COUNTS: Final = ("wins", "top2")
DIGITS: Final = {"Table 2": 3, "Table 8": 2}
NAMES: Final = {"table1": "Table 1", "table2": "Table 2", "table4": "Table 4", "table8": "Table 8"}
Scores = dict[str, dict[str, float | None]]


@dataclass(frozen=True)
class TableCell:
    """One compared cell. ``got`` was computed or read from the input; ``printed`` stands in the paper."""

    table: str
    row: str
    column: str
    got: Any
    printed: Any

    def __str__(self) -> str:
        return f"{self.table}, {self.row}, {self.column}: {self.got}, printed {self.printed}"


@dataclass(frozen=True)
class Reproduction:
    """Recomputed tables. ``compared`` counts the recomputed cells; ``wrong`` are those that round to another value.
    ``altered`` are cells of the input that differ from the paper, whether or not a result shows it. ``differences`` are
    those of every two agents over the tasks of Table 1, on our scale: what the paper's own numbers can say.
    ``reference`` has its agents, the trivial policies and the baselines on that scale."""

    table2: Scores
    table4: Scores
    table8: Scores
    compared: int
    wrong: tuple[TableCell, ...]
    altered: tuple[TableCell, ...]
    differences: tuple[EntrantDifference, ...]
    differences_on_scale_1: tuple[EntrantDifference, ...]
    reference: ReferenceTable

    @property
    def holds(self) -> bool:
        """Whether every cell of the paper's tables came out."""
        return not self.wrong and not self.altered


def reproduce(given: Document, stored: Document) -> Reproduction:
    """Recompute the tables of ``given`` and compare them with ``stored``, the paper's own. Agents keep their order."""
    _check(given)
    table2, table8 = rank_table(given), normalised_table(given)
    cells = [
        *_cells("Table 2", table2, given.table2),
        *_cells("Table 8", table8, {**given.table8, **given.table8_means}),
    ]
    wrong = tuple(cell for cell in cells if _shown(cell.got, cell) != _shown(cell.printed, cell))
    altered = tuple(_altered(given, stored))
    differences = (tuple(task_differences(given)), tuple(task_differences(given, 1)))
    reference = reference_table(given.table1)
    return Reproduction(table2, hit_rates(given), table8, len(cells), wrong, altered, *differences, reference)


def task_differences(given: Document, version: int = CURRENT_SCALE) -> list[EntrantDifference]:
    """Compare every two agents with the tasks of Table 1 as the sample, on our scale; the random policy is no agent.
    Holm's method corrects over all pairs."""
    ends = scales(version)
    scores = {
        agent: [
            float(ends[task].for_aggregates(np.array(row[agent]))) for task, row in given.table1.items() if task in ends
        ]
        for agent in _entrants(given)
        if agent != RANDOM
    }
    ordered = sorted(scores, key=lambda agent: -sum(scores[agent]))
    pairs = [pair for pair in combinations(ordered, 2) if scores[pair[0]]]
    tests = [compare_by_task(scores[first], scores[second]) for first, second in pairs]
    corrected = holm([test.p for test in tests])
    return [EntrantDifference(*pair, test, p_holm) for pair, test, p_holm in zip(pairs, tests, corrected, strict=True)]


def rank_table(given: Document) -> Scores:
    """Return Table 2: rank scores by family and over all tasks, wins and top-2 ranks."""
    agents = _entrants(given)
    task_ranks = {task: ranks([row[agent] for agent in agents]) for task, row in given.table1.items()}
    scopes = {**given.families, ALL: list(given.table1)}
    return {agent: _rank_row(task_ranks, scopes, i, len(agents)) for i, agent in enumerate(agents)}


def _rank_row(
    task_ranks: dict[str, list[int]], scopes: dict[str, list[str]], i: int, entrants: int
) -> dict[str, float | None]:
    totals = {name: over_tasks([(task_ranks[task][i], entrants) for task in tasks]) for name, tasks in scopes.items()}
    scores = {name: total.score for name, total in totals.items()}
    return {**scores, "wins": totals[ALL].wins, "top2": totals[ALL].top2}


def normalised_table(given: Document) -> Scores:
    """Return Table 8: the normalised score on each task, and its mean by demand."""
    agents = [name for name in _entrants(given) if name != RANDOM]
    table = {
        task: paper_normalised({agent: row[agent] for agent in agents}, row[RANDOM])
        for task, row in given.table1.items()
    }
    means = {
        name: {agent: mean_if_known(table[task][agent] for task in tasks) for agent in agents}
        for name, tasks in given.demands.items()
    }
    return {**table, **means}


def hit_rates(given: Document) -> Scores:
    """Return Table 4: the percentage of edits that raised the best validation mean; None without edits."""
    return {
        agent: {
            f"{kind} edits, {demand} tasks": _rate(count)
            for demand, kinds in row.items()
            for kind, count in kinds.items()
        }
        for agent, row in given.table4.items()
    }


def _rate(count: Edits) -> float | None:
    return 100.0 * count.hits / count.edits if count.edits else None


def _entrants(given: Document) -> list[str]:
    return list(next(iter(given.table1.values())))


def _cells(table: str, computed: Scores, printed: Table) -> Iterator[TableCell]:
    for row, columns in computed.items():
        for column, value in columns.items():
            yield TableCell(table, row, column, value, printed.get(row, {}).get(column))


def _shown(value: float | None, cell: TableCell) -> str:
    """Format with the digits of the paper, which rounds halves to even: 0.8125 is 0.812, 0.9375 is 0.938."""
    digits = 0 if cell.column in COUNTS else DIGITS[cell.table]
    return "none" if value is None else f"{value:.{digits}f}"


def _altered(given: Document, stored: Document) -> Iterator[TableCell]:
    new, old = (dict(_flat(document.model_dump())) for document in (given, stored))
    for path in {**old, **new}:
        if new.get(path) != old.get(path):
            table, *row, column = path
            yield TableCell(NAMES.get(table, table), " ".join(row), column, new.get(path), old.get(path))


def _flat(value: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, child in value.items():
        if isinstance(child, Mapping):
            yield from _flat(child, (*before, name))
        else:
            yield (*before, name), child


def _check(given: Document) -> None:
    """Check that all rows of Table 1 have the same entrants, random included, and that all tasks have a row."""
    if not given.table1:
        raise UserError("Table 1 of the input has no rows")
    entrants = {*_entrants(given), RANDOM}
    for task, row in given.table1.items():
        if wrong := sorted(entrants.symmetric_difference(row)):
            raise UserError(f"Table 1, {task}: {', '.join(wrong)} is not in every row of the input")
    for group, tasks in {**given.families, **given.demands}.items():
        if unknown := sorted(set(tasks) - set(given.table1)):
            raise UserError(f"{group}: the input has no row for {', '.join(unknown)}")
