"""Comparisons as text."""

from __future__ import annotations

from collections.abc import Sequence

from evopolicygym.analysis.compare import ComparedEntrant, PairComparison, ScoreDifference, TaskComparison
from evopolicygym.analysis.formatting import (
    coverage_warning,
    format_fixed,
    format_gain,
    format_interval,
    format_number,
    format_probability,
    format_with_interval,
)
from evopolicygym.analysis.gain import GainDifference
from evopolicygym.analysis.knowledge_gap import KnowledgeGap
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL
from evopolicygym.analysis.stats.power import CASES, POWER, RunsNeeded
from evopolicygym.cli.output import print_table, print_text

LEVEL = f"{CONFIDENCE_LEVEL:.0%} interval"
COLUMNS = (
    "task",
    "runs",
    "first",
    "second",
    "difference",
    LEVEL,
    "p",
    "p (Holm)",
    "interval of",
)
OPTIONAL = ("p", "runs", "second", "first")  # either score follows from the other and the difference
BESIDE = ("task", "P(improvement)", "correlation by case", "pairing factor", "runs needed")
GAINS = ("task", "gain, first", "gain, second", "difference", LEVEL, "interval of")
AREAS = ("task", "area, first", "area, second", "difference of areas")
OVERALL = "overall, normalised"


def is_in_gap(pair: PairComparison, task: str, gaps: Sequence[KnowledgeGap]) -> bool:
    """Whether two sides are one entrant whose knowledge gap on this task is shown. Labels of such sides are the entrant
    and a path."""
    return any(
        all(label.startswith(f"{gap.entrant} (") for label in (pair.first, pair.second))
        and any(shown.task == task for shown in gap.tasks)
        for gap in gaps
    )


def show_pairs(
    pairs: Sequence[PairComparison], sides: Sequence[ComparedEntrant], gaps: Sequence[KnowledgeGap] = ()
) -> None:
    conditions = [pair.conditions for pair in pairs if pair.tasks]
    names = dict.fromkeys(name for facts in conditions for name in facts)
    differing = [name for name in names if len({str(facts.get(name)) for facts in conditions}) > 1]
    for pair in pairs:
        _show_pair(pair, differing, gaps)
    for side in sides:
        for run, reason in side.missing.items():
            print_text(f"missing: {side.label}, {run}: {reason}")
        for reason in side.apart:
            print_text(f"not for a common table: {side.label}: {reason}")
    if any(pair.tasks for pair in pairs):
        needed = f"with {CASES[0]} cases, to find this difference with a probability of {POWER:.0%}"
        print_text(f"runs needed: of each side, {needed}")
        print_text("gain: selected minus first submission on held-out")
        print_text(f"area: under the normalised learning curve from episode 0 [{LEVEL} over runs]")


def _show_pair(pair: PairComparison, differing: Sequence[str], gaps: Sequence[KnowledgeGap]) -> None:
    """Show a pair. ``differing``: conditions that are not the same for all pairs that are shown."""
    conditions = ", ".join(f"{name} {pair.conditions.get(name)}" for name in differing if pair.tasks)
    print_text(f"{pair.first} (first) against {pair.second} (second){f': {conditions}' if conditions else ''}")
    if pair.tasks:
        whole = [pair.overall] if pair.overall else []
        print_table(COLUMNS, [*map(_task, pair.tasks), *map(_overall, whole)], optional=OPTIONAL, remarks="interval of")
        print_table(BESIDE, [*map(_beside, pair.tasks), *map(_overall_beside, whole)], optional=("pairing factor",))
        gains = [_gain(task.task, task.gain) for task in pair.tasks if task.gain]
        print_table(GAINS, gains, remarks="interval of")
        areas = [_areas(task.task, task.gain) for task in pair.tasks if task.gain and any(task.gain.areas)]
        if areas:
            print_table(AREAS, areas)
    if pair.overall and pair.overall.plans:
        plans = ", ".join(f"{_needed(plan)} with {plan.cases} cases" for plan in pair.overall.plans)
        print_text(
            f"  overall: {pair.normalised_tasks} tasks; runs of each side on each task to separate the two: {plans}"
        )
    for task, reason in pair.not_compared.items():
        gap = "; its knowledge gap is below" if is_in_gap(pair, task, gaps) else ""
        print_text(f"  not compared: {task}: {reason}{gap}")
    print_text()


def _task(task: TaskComparison) -> tuple[str, ...]:
    scores = (format_number(task.scores[0], 6), format_number(task.scores[1], 6))
    return (task.task, f"{task.runs[0]}, {task.runs[1]}", *scores, *_difference(task.difference))


def _overall(difference: ScoreDifference) -> tuple[str, ...]:
    return (OVERALL, "", "", "", *_difference(difference))


def _difference(difference: ScoreDifference) -> tuple[str, ...]:
    value, scope = difference.value, "; ".join([difference.scope, *coverage_warning(difference.coverage)])
    return (
        format_number(value.value),
        format_interval(value.interval),
        format_probability(difference.p),
        format_probability(difference.p_holm),
        scope,
    )


def _beside(task: TaskComparison) -> tuple[str, ...]:
    pairing = (format_fixed(task.correlation, 2), format_fixed(task.pairing_gain, 2))
    return (task.task, format_with_interval(task.difference.p_improvement, 2), *pairing, _planned(task.difference))


def _gain(task: str, gain: GainDifference) -> tuple[str, ...]:
    difference = gain.difference
    return (
        task,
        *map(format_gain, gain.gains),
        format_gain(difference.value if difference else None),
        format_interval(difference.interval if difference else None),
        gain.scope,
    )


def _areas(task: str, gain: GainDifference) -> tuple[str, ...]:
    return (task, *map(format_with_interval, gain.areas), format_with_interval(gain.area_difference))


def _overall_beside(difference: ScoreDifference) -> tuple[str, ...]:
    return OVERALL, format_with_interval(difference.p_improvement, 2), "", "", _planned(difference)


def _planned(difference: ScoreDifference) -> str:
    return _needed(difference.plans[0]) if difference.plans else "-"


def _needed(plan: RunsNeeded) -> str:
    return ">1000" if plan.runs is None else str(plan.runs)
