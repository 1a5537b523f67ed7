"""Which anchors fit a run: those that were measured as it was, on the same cases, with the same versions and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from evopolicygym.analysis.leaderboard.boards import differences
from evopolicygym.analysis.scores import Matrix
from evopolicygym.record_checks import GENERATED
from evopolicygym.reference.anchors import AnchorFile, TaskAnchors
from evopolicygym.run_record import RunRecord

SHIFTED: Final = "shifted"
OPTIONAL_FACTS: Final = ("env_options", "sources", "world")  # of tasks that have such; anchors without them do not fit


@dataclass(frozen=True)
class TrivialScores:
    """Scores of trivial policies on the cases of a task's runs. ``random`` has a row for each repeat."""

    random: Matrix
    means: dict[str, float]

    @property
    def best(self) -> str:
        """Name of the trivial policy with the highest score."""
        return max(self.means, key=self.means.__getitem__)


@dataclass(frozen=True)
class NoAnchors:
    """The reason why no anchors fit the runs."""

    reason: str


def trivial_scores(files: Sequence[AnchorFile], run: RunRecord) -> TrivialScores | NoAnchors:
    """Return the scores of the first anchors that were measured as the run was, or why none fit."""
    anchors = fitting_anchors(files, run)
    return anchors if isinstance(anchors, NoAnchors) else _scores_of(anchors, run.options.heldout_cases)


def fitting_anchors(files: Sequence[AnchorFile], run: RunRecord) -> TaskAnchors | NoAnchors:
    """Return the first anchors that were measured as the run was, or why none fit."""
    reason = f"no anchors are stored for this task; {_measure(run)}"
    if run.options.variant == SHIFTED:
        reason = _measure_shifted(run)
    if (scale := run.task.scale) and run.task.id.startswith(GENERATED):
        reason = f"the scale was measured when the task was drawn: best trivial {scale.low:g}, expert {scale.high:g}"
    if run.imported:
        return NoAnchors(f"anchors were measured on other cases than those of the {run.imported.words}")
    for file in files:
        if (anchors := file.tasks.get(run.task.id)) is None:
            continue
        reason = _mismatch(anchors, run)
        if not reason:
            return anchors
    return NoAnchors(reason)


def _measure(run: RunRecord) -> str:
    return f"`evopolicygym task anchors {run.task.id}` measures them"


def _measure_shifted(run: RunRecord) -> str:
    command = f"evopolicygym task anchors {run.task.id} --variant shifted"
    return f"each key of a shifted task has its own; measure with `{command}`"


def _mismatch(anchors: TaskAnchors, run: RunRecord) -> str:
    has_variant = run.options.variant == SHIFTED or "variant" in anchors.fingerprint
    if has_variant and anchors.fingerprint.get("variant") != run.ids.fingerprint.get("variant"):
        return _measure_shifted(run)
    if unequal := differing_facts(anchors.fingerprint, run):
        return f"the stored anchors differ: {'; '.join(unequal)}; {_measure(run)}"
    if anchors.heldout_cases < run.options.heldout_cases:
        fewer = f"{anchors.heldout_cases} cases, not {run.options.heldout_cases}"
        return f"the stored anchors have {fewer}; {_measure(run)}"
    return ""


def differing_facts(fingerprint: Mapping[str, Any], run: RunRecord) -> list[str]:
    """Return what differs between a run and a measurement, as far as the measurement states it. Its fingerprint has no
    budget and no text, which change nothing about a policy's score."""
    compared = {*fingerprint, *(name for name in OPTIONAL_FACTS if name in run.ids.fingerprint)}
    compared |= {"variant"} if run.options.variant == SHIFTED else set()
    return differences(fingerprint, {name: run.ids.fingerprint[name] for name in compared & set(run.ids.fingerprint)})


def _scores_of(anchors: TaskAnchors, cases: int) -> TrivialScores:
    random = np.array([repeat[:cases] for repeat in anchors.random.returns])
    return TrivialScores(random, {name: anchor.mean(cases) for name, anchor in anchors.trivial().items()})
