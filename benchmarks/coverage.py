"""Measures what the printed 95 % intervals, p-values and probabilities are worth, in simulations with a known truth.

    python benchmarks/coverage.py [--suites N] [--jobs N] [--json FILE] [--write]

A simulated return is a level plus an effect of the run, an effect of the case and a rest, each drawn from the
distribution of the setting; 32 cases, shared by all runs of a task; a suite is 16 such tasks. The truth is what
infinitely many runs on infinitely many cases would average. Seeded: the same table every time. ``--write`` puts the
tables into docs/coverage.md, their extremes into docs/statistics.md, and the numbers that the tables of results print
into the package. Without ``--suites``, as many suites are simulated as for the numbers in the package.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import textwrap
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evopolicygym.analysis.leaderboard.selection import repeat_choice
from evopolicygym.analysis.stats.by_task import bounded_mean, compare_by_task
from evopolicygym.analysis.stats.estimates import (
    Estimate,
    Interval,
    average,
    difference_p_value,
    estimate_difference,
    estimate_score,
    score_interval,
)
from evopolicygym.analysis.stats.first_place import first_on_task, first_over_tasks
from evopolicygym.analysis.stats.hit_rates import HitCount, hit_rate
from evopolicygym.analysis.stats.improvement import improvement, improvement_over_tasks
from evopolicygym.analysis.stats.measured import measurements
from evopolicygym.analysis.stats.pareto import Front, pareto_front
from evopolicygym.analysis.stats.pooled import (
    estimate_interquartile_mean,
    estimate_optimality_gap,
    interquartile_mean,
    optimality_gap,
    performance_profile,
)
from evopolicygym.analysis.stats.power import DifferenceVariance, SideVariance, difference_variance, power, runs_needed
from evopolicygym.analysis.stats.ranks import rank_intervals, rank_score, ranks
from evopolicygym.analysis.stats.variance import variance_components
from evopolicygym.reference.return_bounds import UNBOUNDED, Bounds

ROOT = Path(__file__).parents[1]
SUMMARY = ROOT / "docs" / "statistics.md"
DOCS = ROOT / "docs" / "coverage.md"
DATA = ROOT / "src" / "evopolicygym" / "reference" / "coverage.json"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
Matrix = NDArray[np.float64]
Effect = Callable[[np.random.Generator, tuple[int, ...]], Matrix]
RUNS = (1, 2, 3, 5, 10)
TASKS = 16
CASES = 32
FAMILY = 4
ENTRANTS = 6
DRAWS = 300
MORE = 3  # pairs for each suite: they are cheap
UNLIKE = 5  # pairs of unlike entrants for each suite
MOST_RUNS = 10  # of the other entrant, where numbers of runs differ
CLOSE = 0.5  # how much better the third entrant is, in units of the effects
CANDIDATES = 10  # of a selection
VALIDATION = 16  # cases
EDITS = 12  # of a run
EFFECTS = {"small": 1.2, "medium": 2.0, "large": 4.0}  # of a plan, in standard deviations of a run's score
PLANNED = 4  # one simulated suite in so many also plans


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> Matrix:
    return generator.standard_normal(shape)


def skewed(generator: np.random.Generator, shape: tuple[int, ...]) -> Matrix:
    """Mostly a little above the mean, sometimes far below: minus an exponential, of skewness -2."""
    return 1.0 - generator.exponential(size=shape)


def heavy(generator: np.random.Generator, shape: tuple[int, ...]) -> Matrix:
    """Student's t with three degrees of freedom, scaled to a variance of 1."""
    return np.asarray(generator.standard_t(3, size=shape) / math.sqrt(3))


def modes(share: float, generator: np.random.Generator, shape: tuple[int, ...]) -> Matrix:
    """A run has found the trick, with this probability, or it has not."""
    succeeded = generator.random(shape) < share
    return np.asarray((succeeded - share) / math.sqrt(share * (1.0 - share)))


def two_modes(share: float) -> Effect:
    return functools.partial(modes, share)


def as_it_is(returns: Matrix) -> Matrix:
    return returns


def success(threshold: float, returns: Matrix) -> Matrix:
    return np.asarray(returns > threshold, dtype=np.float64)


def capped(returns: Matrix) -> Matrix:
    return np.minimum(returns, 0.5)


@dataclass(frozen=True)
class Setting:
    """Standard deviations of the three effects, their shapes, and what a task makes of their sum."""

    name: str
    runs: float
    cases: float
    rest: float
    shapes: tuple[Effect, Effect, Effect] = (normal, normal, normal)
    scored: Callable[[Matrix], Matrix] = as_it_is
    bounds: Bounds = UNBOUNDED

    def returns(
        self, generator: np.random.Generator, runs: int, cases: Matrix | None = None, level: float = 0.0
    ) -> Matrix:
        """Return runs x cases; ``cases`` are the effects of cases that entrants share."""
        shared = self.shapes[1](generator, (1, CASES)) if cases is None else cases
        by_run = self.runs * self.shapes[0](generator, (runs, 1))
        rest = self.rest * self.shapes[2](generator, (runs, shared.shape[1]))
        return self.scored(np.asarray(level + by_run + self.cases * shared + rest))

    def truth_on(self, cases: Matrix) -> float:
        """The true mean over runs on these very cases."""
        if self.scored is as_it_is:
            return float(self.cases * cases.mean())
        return float(self.returns(np.random.default_rng(9), 2000, cases).mean())

    @functools.cached_property
    def components(self) -> tuple[float, float, float]:
        """The true deviations between runs, between cases and of the rest."""
        if self.scored is as_it_is:
            return self.runs, self.cases, self.rest
        generator = np.random.default_rng(8)
        result = variance_components([(self.returns(generator, 1500, self.shapes[1](generator, (1, 1500))), 1.0)])
        assert result is not None
        return result.runs.value, result.cases.value, result.rest.value

    @functools.cached_property
    def truth(self) -> float:
        """The true score at level 0: from very many independent episodes where a task transforms returns."""
        if self.scored is as_it_is:
            return 0.0
        generator, count = np.random.default_rng(7), (2_000_000,)
        parts = zip((self.runs, self.cases, self.rest), self.shapes, strict=True)
        return float(self.scored(np.asarray(sum(scale * shape(generator, count) for scale, shape in parts))).mean())

    @functools.cached_property
    def level_of_alike(self) -> float:
        """The level at which runs that are all alike have the same true score, by bisection."""
        if self.scored is as_it_is:
            return 0.0
        generator, count, low, high = np.random.default_rng(6), (400_000,), -3.0, 3.0
        parts = zip((self.cases, self.rest), self.shapes[1:], strict=True)
        returns = np.asarray(sum(scale * shape(generator, count) for scale, shape in parts))
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if self.scored(returns + middle).mean() < self.truth else (low, middle)
        return low


UNIT = Bounds(0.0, 1.0)
SETTINGS = (
    Setting("all alike", 1.0, 1.0, 1.0),
    Setting("cases dominate", 0.1, 1.0, 0.3),
    Setting("runs dominate", 1.0, 0.2, 0.3),
    Setting("rest dominates", 0.1, 0.2, 1.0),
    Setting("skewed cases", 0.2, 1.0, 0.5, (normal, skewed, skewed)),
    Setting("all skewed", 1.0, 1.0, 1.0, (skewed, skewed, skewed)),
    Setting("heavy tails", 1.0, 1.0, 1.0, (heavy, heavy, heavy)),
    Setting("ceiling", 0.7, 0.7, 0.7, scored=capped, bounds=Bounds(-math.inf, 0.5)),
    Setting("0/1, half succeed", 0.5, 0.5, 1.0, scored=functools.partial(success, 0.0), bounds=UNIT),
    Setting("0/1, most succeed", 0.5, 0.5, 1.0, scored=functools.partial(success, -1.8), bounds=UNIT),
    Setting("two modes, 1 in 2", 1.0, 0.3, 0.5, (two_modes(0.5), normal, normal)),
    Setting("two modes, 1 in 3", 1.0, 0.3, 0.5, (two_modes(1 / 3), normal, normal)),
    Setting("runs dominate, skewed", 1.0, 0.3, 0.5, (skewed, skewed, skewed)),
    Setting("rare mode, 1 in 7", 1.0, 0.3, 0.5, (two_modes(1 / 7), normal, normal)),
)
# The tables, in the order of the page. Rates of the first kind should be 95 or more, of the second at most the number.
TABLES = {
    "task": "Interval of a score on one task",
    "family": f"Interval of a mean score over {FAMILY} tasks",
    "suite": f"Interval of a mean score over {TASKS} tasks",
    "own": "One run: its interval over cases, for the mean of that very run",
    "difference": "Interval of a difference on one task, equal entrants",
    "over_runs": "Interval over runs of one number per run (areas, scores at fixed episodes, dollars)",
    "p": "False positives: p < 0.05 on one task, equal entrants (5 or less)",
    "first": "P(first) above 0.95 for one of two equal entrants on one task (10 or less)",
    "improvement": "Interval of P(improvement) on one task, equal entrants",
    "places": "Ranks on one task hold at once: two equal entrants and a better one",
    "uneven_difference": f"Interval of a difference on one task, equal entrants, the other with {MOST_RUNS} runs",
    "uneven_p": f"False positives: p < 0.05 on one task, equal entrants, the other with {MOST_RUNS} runs (5 or less)",
    "unlike_p": "False positives: p < 0.05 on one task, equal means, runs of the other all alike (5 or less)",
    "unlike_first": "P(first) above 0.95 on one task, two equal means, runs of the other all alike (10 or less)",
    "family_difference": f"Interval of a difference over {FAMILY} tasks, equal on average",
    "family_p": f"False positives: p < 0.05 over {FAMILY} tasks, equal entrants (5 or less)",
    "tasks_difference": f"Interval of a difference over {TASKS} tasks, equal on average",
    "tasks_p": f"False positives: p < 0.05 over {TASKS} tasks, equal entrants (5 or less)",
    "tasks_sign": f"False positives: sign test over {TASKS} tasks, equal entrants (5 or less)",
    "tasks_places": f"Ranks over {TASKS} tasks hold at once: {ENTRANTS} equal entrants",
    "tasks_first": f"P(first) above 0.95 for one of {ENTRANTS} equal entrants over {TASKS} tasks (5 or less)",
    "rank_score": f"Interval of a rank score over {TASKS} tasks, {ENTRANTS} equal entrants",
    "tasks_improvement": f"Interval of P(improvement) over {TASKS} tasks, equal entrants",
    "family_interquartile_mean": f"Interval of the interquartile mean over {FAMILY} tasks",
    "family_optimality_gap": f"Interval of the optimality gap over {FAMILY} tasks",
    "interquartile_mean": f"Interval of the interquartile mean over {TASKS} tasks",
    "optimality_gap": f"Interval of the optimality gap over {TASKS} tasks",
    "profile": f"Interval of a performance profile over {TASKS} tasks, at its true quartiles",
    "front": f"Pareto front: any entrant placed for sure, of {ENTRANTS} equal in score and cost (5 or less)",
    "run_deviation": "Interval of the deviation between runs, one task",
    "case_deviation": "Interval of the deviation between cases, one task",
    "rest_deviation": "Interval of the deviation of the rest, one task",
    "tasks_run_deviation": f"Interval of the deviation between runs, over {TASKS} tasks",
    "tasks_case_deviation": f"Interval of the deviation between cases, over {TASKS} tasks",
    "tasks_rest_deviation": f"Interval of the deviation of the rest, over {TASKS} tasks",
    "selection_gap": f"Interval of the gap to the second of {CANDIDATES} candidates",
    "optimism": f"Interval of the optimism of selection among {CANDIDATES} candidates, by leaving cases out",
    "hits": f"Interval of a hit rate, {EDITS} edits in each run (of one run: its own rate)",
    "plan_range": "Range of runs needed holds the number for the true variances (80)",
}
AT_MOST = {
    "p",
    "first",
    "uneven_p",
    "unlike_p",
    "unlike_first",
    "family_p",
    "tasks_p",
    "tasks_sign",
    "tasks_first",
    "front",
}
EXTREME = ("runs dominate, skewed", "rare mode, 1 in 7")
Outcome = Iterator[tuple[str, bool | None]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measured coverage and false positive rates of printed numbers.")
    parser.add_argument("--suites", type=int, default=measurements()["suites"], help="simulated suites for each cell")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path, help="file for all rates")
    parser.add_argument("--write", action="store_true", help="write the page and the package's numbers")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = {(setting.name, runs): pool.submit(measure, setting, runs, options.suites)
                 for setting in SETTINGS for runs in RUNS}  # fmt: skip
        plans = {setting.name: pool.submit(measure_plans, setting, options.suites) for setting in SETTINGS}
        rates = {key: future.result() for key, future in cells.items()}
        measured = summary(rates, options.suites) | {"plans": {name: plan.result() for name, plan in plans.items()}}
    text = "\n\n".join([*tables(measured["tables"]), plan_table(measured["plans"])])
    print(text)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")
    if options.write:
        DATA.write_text(json.dumps(measured, indent=1) + "\n")
        for path, inner in ((DOCS, text), (SUMMARY, extremes(measured))):
            before, rest = path.read_text().split(BEGIN)
            path.write_text(f"{before}{BEGIN}\n\n{inner}\n\n{END}{rest.split(END)[1]}")


def measure(setting: Setting, runs: int, suites: int) -> dict[str, float]:
    """Return the share of simulations in which each statement held, by the names of TABLES."""
    generator = np.random.default_rng([zlib.crc32(setting.name.encode()), runs])
    held: dict[str, list[bool]] = {}

    def count(outcome: Outcome) -> None:
        for name, holds in outcome:
            if holds is not None:
                held.setdefault(name, []).append(holds)

    rank_scores: list[Sequence[float]] = []
    chosen: list[tuple[float, Interval | None]] = []
    for number in range(suites):
        count(of_scores(setting, runs, generator))
        count(of_one_task(setting, runs, generator))
        scores = suite_of_equals(setting, runs, generator, ENTRANTS)
        rank_scores.append(_rank_scores(scores))
        count(of_tasks(scores, generator))
        count(of_front(scores, generator))
        count(of_variance(setting, runs, generator))
        count(of_hits(setting, runs, generator))
        count(of_selection(setting, runs, generator, chosen))
        if number % PLANNED == 0:
            count(of_plan_range(setting, runs, generator))
    for _ in range(MORE * suites):
        count(of_pair(suite_of_equals(setting, runs, generator, 2), generator))
    held |= of_unlike_pairs(setting, runs, UNLIKE * suites) | of_families(setting, runs, suites)
    # The truth of a rank score is its expectation in this very experiment: equal entrants share ranks where they tie.
    truth = float(np.mean(rank_scores))
    held["rank_score"] = [_holds(bounded_mean(values).interval, truth) for values in rank_scores]
    owed = float(np.mean([value for value, _ in chosen]))
    held["optimism"] = [_holds(interval, owed) for _, interval in chosen if interval]
    return {name: float(np.mean(values)) for name, values in held.items()}


def of_scores(setting: Setting, runs: int, generator: np.random.Generator) -> Outcome:
    """Intervals of scores of one entrant: on a task, over a family and over a suite."""
    cases, matrices = [], []
    for _ in range(TASKS):
        cases.append(setting.shapes[1](generator, (1, CASES)))
        matrices.append(setting.returns(generator, runs, cases[-1]))
    yield from of_profile(setting, [matrix.mean(axis=1) for matrix in matrices])
    if runs == 1:
        own = replace(setting, runs=0.0)
        interval = score_interval(own.returns(generator, 1), setting.bounds)
        return (yield "own", None if interval is None else _holds(interval, own.truth))
    for shared, matrix in zip(cases[:FAMILY], matrices, strict=False):
        interval = score_interval(matrix, setting.bounds)
        yield "task", None if interval is None else _holds(interval, setting.truth)
        column: Estimate = estimate_score(matrix.mean(axis=1, keepdims=True))
        yield "over_runs", _holds(column.interval(), setting.truth_on(shared)) if column.variance else None
    estimates = [estimate_score(matrix) for matrix in matrices]
    yield "family", _holds(average(estimates[:FAMILY]).interval(), setting.truth)
    yield "suite", _holds(average(estimates).interval(), setting.truth)
    yield from of_pooled(setting, matrices)


def of_pooled(setting: Setting, matrices: Sequence[Matrix]) -> Outcome:
    """Summaries of all runs of all tasks that are not means."""
    truth = true_pooled(setting.name)
    yield "interquartile_mean", _holds(estimate_interquartile_mean(matrices).interval, truth.interquartile_mean)
    yield "optimality_gap", _holds(estimate_optimality_gap(matrices).interval, truth.optimality_gap)


def of_families(setting: Setting, runs: int, suites: int) -> dict[str, list[bool]]:
    """Summaries of all runs of a few tasks."""
    if runs == 1:
        return {}
    generator = np.random.default_rng([zlib.crc32(setting.name.encode()), runs, 2])
    held: dict[str, list[bool]] = {}
    for _ in range(suites):
        for name, holds in of_pooled(setting, [setting.returns(generator, runs) for _ in range(FAMILY)]):
            held.setdefault(f"family_{name}", []).append(bool(holds))
    return held


def of_profile(setting: Setting, scores: Sequence[Matrix]) -> Outcome:
    """The shares of runs above the true quartiles."""
    truth = true_pooled(setting.name)
    for share, number in zip(truth.shares, performance_profile(scores, truth.quartiles), strict=True):
        yield "profile", _holds(number.interval, share)


def of_variance(setting: Setting, runs: int, generator: np.random.Generator) -> Outcome:
    """Deviations between runs, between cases and of the rest: on one task, and over all of them."""
    matrices = [(setting.returns(generator, runs), 1.0) for _ in range(TASKS)]
    for prefix, of in (("", matrices[:1]), ("tasks_", matrices)):
        if result := variance_components(of):
            parts = zip(
                ("run", "case", "rest"), (result.runs, result.cases, result.rest), setting.components, strict=True
            )
            for name, number, truth in parts:
                yield f"{prefix}{name}_deviation", _holds(number.interval, truth) if number.interval else None


def of_front(scores: Sequence[Sequence[Matrix]], generator: np.random.Generator) -> Outcome:
    """Entrants that are equal in score and in cost, which differs from run to run by a factor."""
    runs = len(scores[0][0])
    costs = np.exp(generator.normal(0.0, 0.5, (ENTRANTS, TASKS, runs))).mean(axis=2)
    means = np.array([[float(runs.mean()) for runs in task] for task in scores]).T
    yield "front", any(front is not Front.POSSIBLY for front in pareto_front(means.tolist(), costs.tolist()))


def of_hits(setting: Setting, runs: int, generator: np.random.Generator) -> Outcome:
    """Edits of runs that differ in how often they hit."""
    rates = hit_probability(setting, generator, runs)
    result = hit_rate([HitCount(EDITS, int(generator.binomial(EDITS, rate))) for rate in rates])
    truth = float(rates[0]) if runs == 1 else true_hit_rate(setting.name)
    yield "hits", result.low is not None and result.high is not None and result.low <= truth <= result.high


def hit_probability(setting: Setting, generator: np.random.Generator, count: int) -> Matrix:
    return np.asarray(1.0 / (1.0 + np.exp(1.0 - setting.runs * setting.shapes[0](generator, (count,)))))


@functools.cache
def true_hit_rate(name: str) -> float:
    return float(hit_probability(_setting(name), np.random.default_rng(3), 200_000).mean())


def of_selection(
    setting: Setting, runs: int, generator: np.random.Generator, chosen: list[tuple[float, Interval | None]]
) -> Outcome:
    """Selection among candidates that differ as runs do: the gap to the second, and what the selected one owes to its
    cases. Very many more cases show what is true."""
    gaps, optimisms, true_gaps, owed = [], [], [], []
    for _ in range(runs):
        table = setting.returns(generator, CANDIDATES, setting.shapes[1](generator, (1, VALIDATION + 400)))
        seen, truth = table[:, :VALIDATION], table[:, VALIDATION:].mean(axis=1)
        choice, means = repeat_choice(seen), seen.mean(axis=1)
        first = CANDIDATES - 1 - int(np.argmax(means[::-1]))
        others = np.delete(means, first)
        second = int(np.delete(np.arange(CANDIDATES), first)[CANDIDATES - 2 - int(np.argmax(others[::-1]))])
        gaps.append(choice.gap)
        optimisms.append(choice.optimism)
        true_gaps.append(float(truth[first] - truth[second]))
        owed.append(float(means[first] - truth[first]))
    estimate = estimate_score(np.array(gaps))
    yield "selection_gap", _holds(estimate.interval(), float(np.mean(true_gaps))) if estimate.variance else None
    result = estimate_score(np.array(optimisms))
    chosen.append((float(np.mean(owed)), result.interval() if result.variance else None))


def true_variance(setting: Setting) -> DifferenceVariance:
    """The variances of the difference of two equal entrants, whose cases cancel."""
    between, _, rest = setting.components
    side = SideVariance(between**2, rest**2, 1)
    return DifferenceVariance(side, side, 0.0)


def plan_effects(setting: Setting) -> dict[str, float]:
    between, _, rest = setting.components
    return {name: factor * math.sqrt(between**2 + rest**2 / CASES) for name, factor in EFFECTS.items()}


def of_plan_range(setting: Setting, runs: int, generator: np.random.Generator) -> Outcome:
    """The range that so many runs of each side give, and the plan for the true variances."""
    cases = setting.shapes[1](generator, (1, CASES))
    parts = difference_variance(*(setting.returns(generator, runs, cases) for _ in range(2)))
    wanted = runs_needed(plan_effects(setting)["medium"], true_variance(setting), CASES).runs
    if parts is None or wanted is None:
        return
    plan = runs_needed(plan_effects(setting)["medium"], parts, CASES)
    yield "plan_range", (plan.low or math.inf) <= wanted <= (plan.high or math.inf)


def measure_plans(setting: Setting, suites: int) -> dict[str, dict[str, float]]:
    """Return for each effect the planned runs, the promised power and the share of planned experiments that find it
    with the printed test."""
    generator = np.random.default_rng([zlib.crc32(setting.name.encode()), 0])
    plans = {}
    for name, effect in plan_effects(setting).items():
        runs = runs_needed(effect, true_variance(setting), CASES).runs
        assert runs is not None
        rejections = 0
        for _ in range(PLANNED * suites):
            cases = setting.shapes[1](generator, (1, CASES))
            first, second = (setting.returns(generator, runs, cases) for _ in range(2))
            p_value = difference_p_value(first + effect, second)
            rejections += p_value is not None and p_value < 0.05
        promised = power(effect, true_variance(setting), runs, CASES)
        plans[name] = {"runs": runs, "promised": promised, "found": rejections / (PLANNED * suites)}
    return plans


def of_one_task(setting: Setting, runs: int, generator: np.random.Generator) -> Outcome:
    """Two equal entrants on the same cases, and a better one: what a table of one task says of them."""
    if runs == 1:
        return
    cases = setting.shapes[1](generator, (1, CASES))
    first, second = (setting.returns(generator, runs, cases) for _ in range(2))
    better = setting.returns(generator, runs, cases, CLOSE)
    estimate = estimate_difference(first, second)
    yield "difference", _holds(estimate.interval(), 0.0) if estimate.variance else None
    p_value = difference_p_value(first, second)
    yield "p", p_value is not None and p_value < 0.05
    shares = first_on_task([first, second], generator, DRAWS)
    yield "first", shares is not None and max(shares) > 0.95
    number = improvement(first.mean(axis=1), second.mean(axis=1))
    yield "improvement", _holds(number.interval if number else None, 0.5)
    entrants = [first, second, better]

    def test(i: int, j: int) -> tuple[float, float | None]:
        return float(entrants[i].mean() - entrants[j].mean()), difference_p_value(entrants[i], entrants[j])

    intervals = rank_intervals(3, test)
    # Equal entrants have rank 2, or 3 if one takes the other for better; the better one has rank 1.
    yield "places", intervals[2].first == 1 and all(intervals[i].first <= 2 and intervals[i].last == 3 for i in (0, 1))


def of_unlike_pairs(setting: Setting, runs: int, pairs: int) -> dict[str, list[bool]]:
    """Two entrants with equal means on the same cases, one of which has more runs, or runs that are all alike."""
    held: dict[str, list[bool]] = {name: [] for name in ("uneven_difference", "uneven_p", "unlike_p", "unlike_first")}
    if runs == 1:
        return {}
    generator = np.random.default_rng([zlib.crc32(setting.name.encode()), runs, 1])
    for _ in range(pairs):
        cases = setting.shapes[1](generator, (1, CASES))
        first, second = (setting.returns(generator, count, cases) for count in (runs, MOST_RUNS))
        estimate = estimate_difference(first, second)
        if estimate.variance:
            held["uneven_difference"].append(_holds(estimate.interval(), 0.0))
        held["uneven_p"].append((difference_p_value(first, second) or 0.0) < 0.05)
        alike = replace(setting, runs=0.0).returns(generator, runs, cases, setting.level_of_alike)
        held["unlike_p"].append((difference_p_value(first, alike) or 0.0) < 0.05)
        shares = first_on_task([first, alike], generator, DRAWS)
        held["unlike_first"].append(shares is not None and max(shares) > 0.95)
    return held


def suite_of_equals(setting: Setting, runs: int, generator: np.random.Generator, entrants: int) -> list[list[Matrix]]:
    """Return the scores of runs, by task and entrant. On each task, entrants are equal."""
    tasks = []
    for _ in range(TASKS):
        cases = setting.shapes[1](generator, (1, CASES))
        tasks.append([setting.returns(generator, runs, cases).mean(axis=1) for _ in range(entrants)])
    return tasks


def of_pair(scores: Sequence[Sequence[Matrix]], generator: np.random.Generator) -> Outcome:
    """Two equal entrants on the same tasks: their difference over tasks."""
    first, second = ([float(task[i].mean()) for task in scores] for i in range(2))
    test = compare_by_task(first, second)
    yield "tasks_p", test.p is not None and test.p < 0.05
    yield "tasks_sign", test.p_sign is not None and test.p_sign < 0.05
    few = compare_by_task(first[:FAMILY], second[:FAMILY])
    yield "family_p", few.p is not None and few.p < 0.05
    uneven = [score + float(more) for score, more in zip(first, generator.normal(0.0, 0.5, TASKS), strict=True)]
    yield "tasks_difference", _holds(compare_by_task(uneven, second).difference.interval, 0.0)
    yield "family_difference", _holds(compare_by_task(uneven[:FAMILY], second[:FAMILY]).difference.interval, 0.0)


def of_tasks(scores: Sequence[Sequence[Matrix]], generator: np.random.Generator) -> Outcome:
    """Equal entrants on the same tasks: what a table over tasks says of them."""
    means = np.array([[float(runs.mean()) for runs in task] for task in scores])
    by_entrant = [list(column) for column in means.T]

    def test(i: int, j: int) -> tuple[float, float | None]:
        result = compare_by_task(by_entrant[i], by_entrant[j])
        return result.difference.value, result.p

    intervals = rank_intervals(ENTRANTS, test)
    yield "tasks_places", all((interval.first, interval.last) == (1, ENTRANTS) for interval in intervals)
    if len(scores[0][0]) > 1:
        yield "tasks_first", max(first_over_tasks(means, generator, DRAWS)) > 0.95
        number = improvement_over_tasks([task[0] for task in scores], [task[1] for task in scores])
        yield "tasks_improvement", _holds(number.interval if number else None, 0.5)


def _rank_scores(scores: Sequence[Sequence[Matrix]]) -> list[float]:
    placed = [ranks([float(runs.mean()) for runs in task])[0] for task in scores]
    return [rank_score(rank, ENTRANTS) or 0.0 for rank in placed]


@dataclass(frozen=True)
class Pooled:
    """The truth about scores of single runs, each on as many cases: it depends on how exact such a score is."""

    interquartile_mean: float
    optimality_gap: float
    quartiles: tuple[float, ...]
    shares: tuple[float, ...]


@functools.cache
def true_pooled(name: str) -> Pooled:
    setting = _setting(name)
    generator, count = np.random.default_rng(1), 50_000
    scores = setting.returns(generator, count, setting.shapes[1](generator, (count, CASES))).mean(axis=1)
    quartiles = tuple(float(value) for value in np.quantile(scores, [0.25, 0.5, 0.75]))
    shares = tuple(float((scores > value).mean()) for value in quartiles)
    return Pooled(interquartile_mean(scores), optimality_gap(scores), quartiles, shares)


def _setting(name: str) -> Setting:
    return next(setting for setting in SETTINGS if setting.name == name)


def _holds(interval: Interval | None, truth: float) -> bool:
    return interval is not None and interval.low - 1e-12 <= truth <= interval.high + 1e-12


def summary(rates: Mapping[tuple[str, int], Mapping[str, float]], suites: int) -> dict[str, Any]:
    """Return all rates by table, setting and runs."""
    by_table: dict[str, dict[str, dict[str, float]]] = {
        table: {setting.name: {} for setting in SETTINGS} for table in TABLES
    }
    for (name, runs), tables in rates.items():
        for table, rate in tables.items():
            by_table[table][name][str(runs)] = rate
    return {"suites": suites, "tables": by_table}


def tables(measured: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterable[str]:
    """Return the tables as Markdown, in percent."""
    for table, title in TABLES.items():
        runs = [count for count in RUNS if any(str(count) in row for row in measured[table].values())]
        head = f"| setting | {' | '.join('1 run' if count == 1 else f'{count} runs' for count in runs)} |"
        rows = [
            f"| {name} | {' | '.join(f'{100 * row[str(count)]:.1f}' if str(count) in row else '-' for count in runs)} |"
            for name, row in measured[table].items()
        ]
        yield "\n".join([f"### {title}", "", head, "|---" * (len(runs) + 1) + "|", *rows])


def plan_table(plans: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Return the planned experiments as Markdown."""
    shown = {
        name: [
            f"{100 * plan['promised']:.1f} / {100 * plan['found']:.1f} ({plan['runs']:.0f})" for plan in row.values()
        ]
        for name, row in plans.items()
    }
    rows = [f"| {name} | {' | '.join(cells)} |" for name, cells in shown.items()]
    head = f"| setting | {' | '.join(f'{name} effect' for name in EFFECTS)} |"
    title = "### Power of planned experiments: promised / found (planned runs), variances known"
    return "\n".join([title, "", head, "|---" * (len(EFFECTS) + 1) + "|", *rows])


def extremes(measured: Mapping[str, Any]) -> str:
    """Return the worst rates of each table over the ordinary settings as Markdown: the page for readers."""
    head = f"| what is printed | {' | '.join('1 run' if count == 1 else f'{count} runs' for count in RUNS)} |"
    rows = []
    for table, title in TABLES.items():
        worst = max if table in AT_MOST else min
        ordinary = [row for name, row in measured["tables"][table].items() if name not in EXTREME]
        cells = [[row[str(count)] for row in ordinary if str(count) in row] for count in RUNS]
        shown = " | ".join(f"{100 * worst(rates):.0f}" if rates else "-" for rates in cells)
        rows.append(f"| {title} | {shown} |")
    plans = {name: row.values() for name, row in measured["plans"].items()}
    ordinary_plans = {name: row for name, row in plans.items() if name not in EXTREME}
    gaps = {name: max(abs(plan["found"] - plan["promised"]) for plan in row) for name, row in ordinary_plans.items()}
    lowest, lowest_ordinary = (
        {name: min(plan["found"] for plan in row) for name, row in group.items()} for group in (plans, ordinary_plans)
    )
    weakest, surprise = min(lowest, key=lowest.__getitem__), max(gaps, key=gaps.__getitem__)
    note = (
        f"Power of planned experiments, with known variances: of {len(gaps) * len(EFFECTS)} plans for at least 80 % "
        f"the weakest found the difference in {100 * min(lowest_ordinary.values()):.0f} % of simulations, and in the "
        f"extreme settings in {100 * lowest[weakest]:.0f} % ({weakest}). Runs are whole numbers, so that a plan "
        f"computes more than 80 %: the power that was found differs from the computed one by up to "
        f"{100 * gaps[surprise]:.1f} percentage points ({surprise}), because it is computed for normal returns."
    )
    command = f"Measured by `python benchmarks/coverage.py --suites {measured['suites']} --write`."
    return "\n".join([head, "|---" * (len(RUNS) + 1) + "|", *rows, "", textwrap.fill(note, 120), "", command])


if __name__ == "__main__":
    main()
