"""Comparisons as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evopolicygym.analysis.compare import (
    ComparedEntrant,
    OverallDifference,
    PairComparison,
    TaskComparison,
    TaskDifference,
)
from evopolicygym.analysis.formatting import (
    coverage_warning,
    describe_policies,
    describe_wins,
    format_fixed,
    format_gain,
    format_interval,
    format_number,
    format_probability,
    format_with_interval,
    misleading_warning,
    pluralize,
)
from evopolicygym.analysis.gain import GainDifference
from evopolicygym.analysis.knowledge_gap import KnowledgeGap, is_in_gap
from evopolicygym.analysis.leaderboard.aggregates import FEWEST_TASKS
from evopolicygym.analysis.leaderboard.detail_tables import (
    cost_table,
    profile_table,
    score_at_cost_table,
    variance_table,
)
from evopolicygym.analysis.leaderboard.text_tables import TextTable, interval_notes, over_runs_warning
from evopolicygym.analysis.leaderboard.variance_table import SCALE, VarianceRow
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL
from evopolicygym.analysis.stats.measured import deviation_coverage, difference_coverage, measured_coverage
from evopolicygym.analysis.stats.power import CERTAINTY, MOST, POWER
from evopolicygym.cli.output import print_table, print_text

LEVEL = f"{CONFIDENCE_LEVEL:.0%} interval"
COLUMNS = ("task", "runs", "first", "second", "difference", LEVEL, "p", "p (Holm)", "notes")
OPTIONAL = ("p", "runs", "second", "first")  # either score follows from the other and the difference
BESIDE = ("task", "P(improvement)", "correlation by case", "pairing factor", "runs needed")
GAINS = ("task", "gain, first", "gain, second", "difference", LEVEL, "notes")
AT = ("task", "after episodes", "first", "second", "difference")
AREAS = ("task", "area, first", "area, second", "difference of areas")
OVERALL = (
    "overall, normalised",
    "difference",
    f"{LEVEL} over tasks",
    "p",
    "p (Holm)",
    "tasks won, sign test",
    "P(improvement)",
    "tasks needed",
)


def show_pairs(
    pairs: Sequence[PairComparison],
    sides: Sequence[ComparedEntrant],
    effect: float,
    gaps: Sequence[KnowledgeGap] = (),
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
        tests, overall = pairs[0].tests, pluralize(pairs[0].pairs, "pair")
        on_tasks = f"all {pluralize(tests, 'difference')} on tasks above, and over " if tests else ""
        print_text(f"p (Holm): corrected over {on_tasks}{overall} overall; p and sign test are uncorrected")
        print_text(
            f"runs and tasks needed: to find a difference of {effect:g} of the scale with a probability of "
            f"{POWER:.0%}, if the variances are as estimated, and over their 80% intervals{_plan_warning(pairs)}"
        )
        print_text("gain: selected minus first submission on held-out")
        warning = over_runs_warning(runs for pair in pairs for task in pair.tasks for runs in task.runs)
        print_text(f"after episodes: best validation mean of a submission made by then [{LEVEL} over runs]{warning}")
        print_text(f"area: under the normalised learning curve from episode 0 [{LEVEL} over runs]{warning}")


def _show_pair(pair: PairComparison, differing: Sequence[str], gaps: Sequence[KnowledgeGap]) -> None:
    """Show a pair. ``differing``: conditions that are not the same for all pairs that are shown."""
    facts = {name: pair.conditions[name] for name in differing if pair.tasks and name in pair.conditions}
    conditions = ", ".join(str(value) if name == "apart" else f"{name} {value}" for name, value in facts.items())
    print_text(f"{pair.first} (first) against {pair.second} (second){f': {conditions}' if conditions else ''}")
    if pair.overall:
        row = _overall(pair.overall, pair.normalised_tasks)
        print_table(OVERALL, [row], optional=("tasks needed", "P(improvement)"))
    if pair.tasks:
        print_table(COLUMNS, [*map(_task, pair.tasks)], optional=OPTIONAL, remarks="notes")
        print_table(BESIDE, [*map(_beside, pair.tasks)], optional=("pairing factor",))
        gains = [_gain(task, task.gain) for task in pair.tasks if task.gain]
        print_table(GAINS, gains, remarks="notes")
        areas = [_areas(task.task, task.gain) for task in pair.tasks if task.gain and any(task.gain.areas)]
        if areas:
            print_table(AREAS, areas)
        if at := [row for task in pair.tasks if task.gain for row in _at(task.task, task.gain)]:
            print_table(AT, at)
    for table in _details(pair):
        if table.rows:
            print_text(f"  {table.title}")
            print_table(table.columns, table.rows, optional=table.optional)
    for task, reason in pair.not_compared.items():
        gap = "; its knowledge gap is below" if is_in_gap(gaps, pair.first, pair.second, task) else ""
        print_text(f"  not compared: {task}: {reason}{gap}")
    print_text()


def _details(pair: PairComparison) -> Iterator[TextTable]:
    """Yield the tables that a leaderboard has, too: profiles, variance components and costs."""
    labels = (pair.first, pair.second)
    if pair.overall and pair.normalised_tasks >= FEWEST_TASKS:
        yield profile_table("overall", dict(zip(labels, pair.overall.profiles, strict=True)))
    yield variance_table(
        [
            VarianceRow(task.task, label, runs, SCALE, components, deviation_coverage(1, runs))
            for task in pair.tasks
            for label, runs, components in zip(labels, task.runs, task.variance, strict=True)
            if components
        ]
    )
    if any(row.cost.dollars is not None or row.cost.output_tokens is not None for row in pair.costs):
        yield cost_table(pair.costs)
        yield score_at_cost_table(pair.costs)


def _overall(overall: OverallDifference, tasks: int) -> tuple[str, ...]:
    test, plan = overall.test, overall.plan
    return (
        f"{pluralize(tasks, 'task')}, paired by task",
        format_number(test.difference.value),
        format_interval(test.difference.interval),
        format_probability(test.p),
        format_probability(overall.p_holm),
        describe_wins(test),
        format_with_interval(overall.p_improvement, 2),
        _needed(plan.low, plan.tasks, plan.high) if plan else "-",
    )


def _task(task: TaskComparison) -> tuple[str, ...]:
    scores = (format_number(task.scores[0], 6), format_number(task.scores[1], 6))
    return (task.task, f"{task.runs[0]}, {task.runs[1]}", *scores, *_difference(task.difference, _repeated(task)))


def _repeated(task: TaskComparison) -> list[str]:
    """Return which side selected one policy in several runs."""
    sides = zip(("first", "second"), task.runs, task.policies, strict=True)
    return [f"{side}: {note}" for side, runs, policies in sides for note in describe_policies(runs, policies)]


def _difference(difference: TaskDifference, notes: Sequence[str]) -> tuple[str, ...]:
    value = difference.value
    warning = coverage_warning(difference.coverage) if value.interval else []
    warning = [*warning, *misleading_warning("p < 0.05", difference.misleading), *notes]
    return (
        format_number(value.value),
        format_interval(value.interval),
        format_probability(difference.p),
        format_probability(difference.p_holm),
        interval_notes(difference.scope, warning),
    )


def _beside(task: TaskComparison) -> tuple[str, ...]:
    pairing = (format_fixed(task.correlation, 2), format_fixed(task.pairing_gain, 2))
    plan = task.difference.plan
    needed = _needed(plan.low, plan.runs, plan.high) if plan else "-"
    return (task.task, format_with_interval(task.difference.p_improvement, 2), *pairing, needed)


def _gain(task: TaskComparison, gain: GainDifference) -> tuple[str, ...]:
    difference = gain.difference
    measured = difference_coverage(min(task.runs)) if difference and difference.interval else None
    return (
        task.task,
        *map(format_gain, gain.gains),
        format_gain(difference.value if difference else None),
        format_interval(difference.interval if difference else None),
        interval_notes(gain.scope, coverage_warning(measured)),
    )


def _areas(task: str, gain: GainDifference) -> tuple[str, ...]:
    return (task, *map(format_with_interval, gain.areas), format_with_interval(gain.area_difference))


def _at(task: str, gain: GainDifference) -> Iterator[tuple[str, ...]]:
    """Yield the best validation means after so many episodes, where one of the two has any."""
    for mark, difference in gain.at_difference.items():
        scores = [at[mark] for at in gain.at]
        if any(scores):
            yield task, str(mark), *(format_with_interval(score) for score in (*scores, difference))


def _plan_warning(pairs: Sequence[PairComparison]) -> str:
    """Say how often the range of runs needed held the number for the true variances, where it did too rarely."""
    planned = [min(task.runs) for pair in pairs for task in pair.tasks if task.difference.plan]
    measured = measured_coverage("plan_range", min(planned)) if planned else None
    if measured is None or measured.low >= CERTAINTY - 0.05:
        return ""
    share = f"{100 * measured.low:.0f} to {100 * measured.high:.0f} % of simulations of so few runs"
    return f"; the range held the number of runs for the true variances in {share}"


def _needed(low: int | None, typical: int | None, high: int | None) -> str:
    """Return a plan as "12 (7 to 43)"."""
    if low is None:
        return f">{MOST}"
    numbers = [f">{MOST}" if number is None else str(number) for number in (low, typical, high)]
    return f"{numbers[1]} ({numbers[0]} to {numbers[2]})"
