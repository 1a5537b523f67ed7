"""The knowledge gap of an entrant: its score on plain tasks minus its score on the same tasks in disguise.

A disguised task is the plain one behind an exactly invertible transformation, so what an entrant loses there is what
it knew about the environment and could not use. Runs are paired only if nothing but variant and text differs between
them: a disguised task has no other text than the blind one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from evopolicygym.analysis.entrants import entrant
from evopolicygym.analysis.formatting import pluralize
from evopolicygym.analysis.leaderboard.boards import conditions, separate_reasons
from evopolicygym.analysis.scales import bounds_of, scale_of
from evopolicygym.analysis.scores import Matrix, RunScore, run_score
from evopolicygym.analysis.stats.by_task import mean_over_tasks
from evopolicygym.analysis.stats.estimates import (
    ONE_RUN,
    Number,
    estimate_difference,
    estimate_score,
)
from evopolicygym.analysis.stats.measured import Coverage, difference_coverage
from evopolicygym.run_record import RunRecord

PLAIN: Final = "plain"
DISGUISED: Final = "disguised"
IGNORED: Final = ("text", "variant", "on")  # of a fingerprint: what differs by design, and the machine


@dataclass(frozen=True)
class TaskGap:
    """Plain minus disguised score on one task, paired by case. ``scope`` says what the interval of ``gap`` is over,
    ``coverage`` how often such intervals of so few runs held the truth."""

    task: str
    cases: int
    runs: tuple[int, int]
    plain: float
    disguised: float
    gap: Number
    scope: str
    coverage: Coverage | None
    normalised: float | None


@dataclass(frozen=True)
class KnowledgeGap:
    """Plain minus disguised score of one entrant. ``text``: the text level of the plain tasks.

    ``normalised`` is the mean over the ``normalised_tasks`` tasks that have a scale; its interval is Student's t over
    these tasks, None for a single one. ``left_out``: tasks in this group that could not be paired, and why.
    """

    entrant: str
    text: str
    tasks: tuple[TaskGap, ...]
    normalised: Number | None
    normalised_tasks: int
    left_out: dict[str, str]


def knowledge_gaps(runs: Iterable[RunRecord]) -> tuple[KnowledgeGap, ...]:
    """Return the gap of every entrant that played tasks both plain and in disguise, under conditions that are otherwise
    equal. Plain runs with different texts make different gaps."""
    plain: dict[tuple[str, str, str], list[RunScore]] = defaultdict(list)
    disguised: dict[tuple[str, str], list[RunScore]] = defaultdict(list)
    for run in runs:
        score, group = run_score(run), (entrant(run), _shared_conditions(run))
        if score.missing:
            continue
        if run.options.variant == PLAIN:
            plain[*group, run.options.text].append(score)
        elif run.options.variant == DISGUISED:
            disguised[group].append(score)
    gaps = [_gap(label, text, scores, disguised[label, shared])
            for (label, shared, text), scores in sorted(plain.items()) if (label, shared) in disguised]  # fmt: skip
    return tuple(gap for gap in gaps if gap.tasks)


def _shared_conditions(run: RunRecord) -> str:
    facts = {name: value for name, value in conditions(run.ids.fingerprint).items() if name not in IGNORED}
    return json.dumps([separate_reasons(run), facts], sort_keys=True, default=str)


def _gap(label: str, text: str, plain: Sequence[RunScore], disguised: Sequence[RunScore]) -> KnowledgeGap:
    with_plain, with_disguise = _by_task(plain), _by_task(disguised)
    tasks, left_out = [], {}
    for task in sorted({*with_plain, *with_disguise}):
        if task not in with_plain or task not in with_disguise:
            left_out[task] = f"it was not played {PLAIN if task not in with_plain else DISGUISED}"
            continue
        pairs = [
            (shown, hidden)
            for shown in with_plain[task]
            for hidden in with_disguise[task]
            if _alike(shown[0], hidden[0])
        ]
        if not pairs:
            left_out[task] = "more than variant and text differs between its runs"
            continue
        chosen = max(pairs, key=lambda pair: min(map(len, pair)))
        tasks.append(_task_gap(task, *chosen))
        if unused := sum(map(len, (*with_plain[task], *with_disguise[task]))) - sum(map(len, chosen)):
            left_out[f"{task}: {pluralize(unused, 'run')}"] = (
                "with another disguise or other conditions, and fewer runs"
            )
    scaled = [task.normalised for task in tasks if task.normalised is not None]
    return KnowledgeGap(label, text, tuple(tasks), mean_over_tasks(scaled) if scaled else None, len(scaled), left_out)


def _by_task(scores: Sequence[RunScore]) -> dict[str, list[list[RunScore]]]:
    """Group runs by task, and then by comparable_id: two disguises of a task are never put together."""
    grouped: dict[str, dict[str, list[RunScore]]] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        grouped[score.run.task.id][score.run.ids.comparable_id].append(score)
    return {task: list(groups.values()) for task, groups in grouped.items()}


def _alike(plain: RunScore, disguised: RunScore) -> bool:
    """Return whether nothing but variant and text differs that can change a score."""
    facts = [
        {name: value for name, value in score.run.ids.fingerprint.items() if name not in IGNORED}
        for score in (plain, disguised)
    ]
    return facts[0] == facts[1]


def _task_gap(task: str, plain: Sequence[RunScore], disguised: Sequence[RunScore]) -> TaskGap:
    first, second = _matrix(plain), _matrix(disguised)
    estimate, scale = estimate_difference(first, second), scale_of(plain[0].run)
    interval = estimate.interval() if estimate.variance and not estimate.one_run else None
    return TaskGap(
        task=task,
        cases=first.shape[1],
        runs=(len(first), len(second)),
        plain=estimate_score(first).value,
        disguised=estimate_score(second).value,
        gap=Number(estimate.value, interval.clipped(bounds_of(plain[0].run).of_difference) if interval else None),
        scope=ONE_RUN if estimate.one_run else estimate.scope,
        coverage=difference_coverage(min(len(first), len(second))) if interval else None,
        normalised=estimate.value / scale.unit if scale else None,
    )


def _matrix(scores: Sequence[RunScore]) -> Matrix:
    return np.array([score.returns for score in scores], dtype=np.float64)


def is_in_gap(gaps: Iterable[KnowledgeGap], first: str, second: str, task: str) -> bool:
    """Whether two sides of a comparison are one entrant whose knowledge gap on this task is among ``gaps``. Labels of
    such sides are the entrant and a path."""
    return any(
        all(label.startswith(f"{gap.entrant} (") for label in (first, second))
        and any(measured.task == task for measured in gap.tasks)
        for gap in gaps
    )
