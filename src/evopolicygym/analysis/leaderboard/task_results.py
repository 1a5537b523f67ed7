"""Everybody who played one task under one comparable_id: runs, the random policy, and the paper's rows if asked for."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from evopolicygym.analysis.entrants import PUBLISHED, RANDOM
from evopolicygym.analysis.leaderboard.anchors import Lines, NoLines, lines
from evopolicygym.analysis.leaderboard.boards import Group
from evopolicygym.analysis.scores import Matrix, RunScore, task_score
from evopolicygym.analysis.stats.bootstrap import DRAWS, SEED, Drawn, draw
from evopolicygym.analysis.stats.estimates import Estimate, difference, score
from evopolicygym.reference import paper
from evopolicygym.reference.anchors import AnchorFile
from evopolicygym.reference.scale import Scale, scales
from evopolicygym.run_record import RunRecord

UNKNOWN = Estimate(0.0, one_run=1, one_case=1)


class Kind(StrEnum):
    """Where an entry comes from. Of a published one only its mean is known."""

    RUNS = "runs"
    ANCHOR = "anchor"
    PAPER = "paper"


@dataclass(frozen=True, eq=False)
class Entry:
    """One entrant on one task."""

    label: str
    kind: Kind
    score: float
    matrix: Matrix | None
    runs: tuple[RunRecord, ...] = ()
    flags: tuple[str, ...] = ()

    @property
    def repeats(self) -> int:
        return 1 if self.matrix is None else len(self.matrix)

    def run_means(self) -> Matrix:
        return np.array([self.score]) if self.matrix is None else np.asarray(self.matrix.mean(axis=1))

    def estimate(self) -> Estimate:
        return UNKNOWN.shifted(self.score) if self.matrix is None else score(self.matrix)

    def minus(self, other: Entry) -> Estimate:
        """Paired by case where both are known by case."""
        if self.matrix is not None and other.matrix is not None:
            return difference(self.matrix, other.matrix)
        known, sign = (self, 1.0) if other.matrix is None else (other, -1.0)
        if known.matrix is None:
            return UNKNOWN.shifted(self.score - other.score)
        return score(known.matrix).scaled(sign).shifted(-other.score if sign > 0 else self.score)


@dataclass(frozen=True)
class Missing:
    entrant: str
    run: str
    reason: str


@dataclass(frozen=True, eq=False)
class Field:
    """``anchors`` are trivial policies on the same cases, or why there are none."""

    task: str
    comparable_id: str
    cases: int
    entries: tuple[Entry, ...]
    missing: tuple[Missing, ...]
    anchors: Lines | NoLines
    draws: int = DRAWS

    @cached_property
    def drawn(self) -> dict[str, Drawn]:
        """Runs x draws for each entrant, from a generator of the task's own: another task moves nothing here."""
        generator = np.random.default_rng([SEED, zlib.crc32(self.task.encode())])
        known = {entry.label: entry.matrix for entry in self.entries if entry.matrix is not None}
        fixed = {entry.label: np.full((1, self.draws), entry.score) for entry in self.entries if entry.matrix is None}
        return {**(draw(known, generator, self.draws) if known else {}), **fixed}

    @property
    def scale(self) -> Scale | None:
        return scales().get(self.task)

    @property
    def by_label(self) -> dict[str, Entry]:
        return {entry.label: entry for entry in self.entries}


def field(group: Group, files: Sequence[AnchorFile], with_paper: bool, draws: int = DRAWS) -> Field:
    """``with_paper`` mixes the published rows in; the caller knows whether they are comparable."""
    cases = group.sample.options.heldout_cases
    anchors = lines(files, group.sample)
    entries, missing = [], []
    for who, runs in group.by_entrant().items():
        missing += [Missing(who, one.run.id, one.missing) for one in runs if one.missing]
        if counted := [one for one in runs if not one.missing]:
            entries.append(_entry(who, counted))
    if isinstance(anchors, Lines):
        entries.append(Entry(RANDOM, Kind.ANCHOR, task_score(anchors.random), anchors.random))
    if with_paper:
        entries += published_entries(group.task)
    return Field(group.task, group.comparable_id, cases, tuple(entries), tuple(missing), anchors, draws)


def published_entries(task: str) -> list[Entry]:
    """The agents of Table 1. Its random policy is left out: the measured one is the entrant."""
    row = paper.published().get(task, {})
    return [Entry(f"{name}{PUBLISHED}", Kind.PAPER, mean, None) for name, mean in row.items() if name != paper.RANDOM]


def _entry(label: str, runs: list[RunScore]) -> Entry:
    matrix = np.array([one.returns for one in runs], dtype=np.float64)
    flags = [flag for one in runs for flag in one.flags]
    counted = tuple(f"{flag} ({flags.count(flag)} of {len(runs)})" for flag in dict.fromkeys(flags))
    return Entry(label, Kind.RUNS, task_score(matrix), matrix, tuple(one.run for one in runs), counted)
