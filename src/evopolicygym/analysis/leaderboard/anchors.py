"""Trivial policies to hold a score against: the random policy as an entrant, the others as lines to beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evopolicygym.analysis.leaderboard.fingerprints import differences
from evopolicygym.analysis.scores import Matrix
from evopolicygym.reference.anchors import AnchorFile, TaskAnchors
from evopolicygym.run_record import RunRecord


@dataclass(frozen=True)
class Lines:
    """Anchors on the cases of a task's runs. ``random`` has a row for each repeat."""

    random: Matrix
    means: dict[str, float]

    @property
    def best(self) -> str:
        """The trivial policy that scores most."""
        return max(self.means, key=self.means.__getitem__)


@dataclass(frozen=True)
class NoLines:
    why: str


def lines(files: Sequence[AnchorFile], run: RunRecord) -> Lines | NoLines:
    """Anchors that were measured as the run was: same cases, versions and limits. Otherwise why there are none."""
    why = "no anchors are stored for this task"
    for file in files:
        anchors = file.tasks.get(run.task.id)
        if anchors is None:
            continue
        why = _misfit(anchors, run)
        if not why:
            return _lines(anchors, run.options.heldout_cases)
    return NoLines(why)


def _misfit(anchors: TaskAnchors, run: RunRecord) -> str:
    measured = {name: run.ids.fingerprint[name] for name in anchors.fingerprint if name in run.ids.fingerprint}
    if found := differences(anchors.fingerprint, measured):
        return "the stored anchors differ: " + "; ".join(found)
    if anchors.heldout_cases < run.options.heldout_cases:
        return f"the stored anchors have {anchors.heldout_cases} cases, not {run.options.heldout_cases}"
    return ""


def _lines(anchors: TaskAnchors, cases: int) -> Lines:
    random = np.array([repeat[:cases] for repeat in anchors.random.returns])
    return Lines(random, {name: anchor.mean(cases) for name, anchor in anchors.trivial().items()})
