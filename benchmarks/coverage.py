"""Measures what the printed 95 % intervals, p-values and probabilities are worth, in simulations with a known truth.

    python benchmarks/coverage.py [--suites N] [--jobs N] [--json FILE] [--write]

A simulated return is a level plus an effect of the run, an effect of the case and a rest, each drawn from the
distribution of the setting; 32 cases, shared by all runs of a task; a suite is 16 such tasks. The truth is what
infinitely many runs on infinitely many cases would average. Seeded: the same table every time. ``--write`` puts the
tables into docs/statistics.md, and the numbers that the tables of results print into the package.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evopolicygym.analysis.stats.bootstrap import draw, interquartile_mean, optimality_gap, percentile_interval
from evopolicygym.analysis.stats.by_task import bounded_mean, compare_by_task
from evopolicygym.analysis.stats.estimates import (
    Interval,
    average,
    difference_p_value,
    estimate_difference,
    estimate_score,
    score_interval,
)
from evopolicygym.analysis.stats.first_place import first_on_task, first_over_tasks
from evopolicygym.analysis.stats.improvement import improvement, improvement_over_tasks
from evopolicygym.analysis.stats.ranks import rank_intervals, rank_score, ranks
from evopolicygym.reference.return_bounds import UNBOUNDED, Bounds

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "statistics.md"
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
CLOSE = 0.5  # how much better the third entrant is, in units of the effects


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

    @functools.cached_property
    def truth(self) -> float:
        """The true score at level 0: from very many independent episodes where a task transforms returns."""
        if self.scored is as_it_is:
            return 0.0
        generator, count = np.random.default_rng(7), (2_000_000,)
        parts = zip((self.runs, self.cases, self.rest), self.shapes, strict=True)
        return float(self.scored(np.asarray(sum(scale * shape(generator, count) for scale, shape in parts))).mean())


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
    "p": "False positives: p < 0.05 on one task, equal entrants (5 or less)",
    "first": "P(first) above 0.95 for one of two equal entrants on one task (10 or less)",
    "improvement": "Interval of P(improvement) on one task, equal entrants",
    "places": "Ranks on one task hold at once: two equal entrants and a better one",
    "tasks_difference": f"Interval of a difference over {TASKS} tasks, equal on average",
    "tasks_p": f"False positives: p < 0.05 over {TASKS} tasks, equal entrants (5 or less)",
    "tasks_sign": f"False positives: sign test over {TASKS} tasks, equal entrants (5 or less)",
    "tasks_places": f"Ranks over {TASKS} tasks hold at once: {ENTRANTS} equal entrants",
    "tasks_first": f"P(first) above 0.95 for one of {ENTRANTS} equal entrants over {TASKS} tasks (5 or less)",
    "rank_score": f"Interval of a rank score over {TASKS} tasks, {ENTRANTS} equal entrants",
    "tasks_improvement": f"Interval of P(improvement) over {TASKS} tasks, equal entrants",
    "interquartile_mean": f"Interval of the interquartile mean over {TASKS} tasks",
    "optimality_gap": f"Interval of the optimality gap over {TASKS} tasks",
}
Outcome = Iterator[tuple[str, bool | None]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measured coverage and false positive rates of printed numbers.")
    parser.add_argument("--suites", type=int, default=1000, help="simulated suites for each cell")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path, help="file for all rates")
    parser.add_argument("--write", action="store_true", help="write the page and the package's numbers")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = {(setting.name, runs): pool.submit(measure, setting, runs, options.suites)
                 for setting in SETTINGS for runs in RUNS}  # fmt: skip
        rates = {key: future.result() for key, future in cells.items()}
    measured = summary(rates, options.suites)
    text = "\n\n".join(tables(measured["tables"]))
    print(text)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")
    if options.write:
        DATA.write_text(json.dumps(measured, indent=1) + "\n")
        before, rest = DOCS.read_text().split(BEGIN)
        DOCS.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


def measure(setting: Setting, runs: int, suites: int) -> dict[str, float]:
    """Return the share of simulations in which each statement held, by the names of TABLES."""
    generator = np.random.default_rng([zlib.crc32(setting.name.encode()), runs])
    held: dict[str, list[bool]] = {}

    def count(outcome: Outcome) -> None:
        for name, holds in outcome:
            if holds is not None:
                held.setdefault(name, []).append(holds)

    rank_scores: list[Sequence[float]] = []
    for number in range(suites):
        count(of_scores(setting, runs, generator, pooled=number % 2 == 0))
        count(of_one_task(setting, runs, generator))
        scores = suite_of_equals(setting, runs, generator, ENTRANTS)
        rank_scores.append(_rank_scores(scores))
        count(of_tasks(scores, generator))
    for _ in range(MORE * suites):
        count(of_pair(suite_of_equals(setting, runs, generator, 2), generator))
    # The truth of a rank score is its expectation in this very experiment: equal entrants share ranks where they tie.
    truth = float(np.mean(rank_scores))
    held["rank_score"] = [_holds(bounded_mean(values).interval, truth) for values in rank_scores]
    return {name: float(np.mean(values)) for name, values in held.items()}


def of_scores(setting: Setting, runs: int, generator: np.random.Generator, pooled: bool) -> Outcome:
    """Intervals of scores of one entrant: on a task, over a family and over a suite."""
    matrices = [setting.returns(generator, runs) for _ in range(TASKS)]
    if runs == 1:
        own = replace(setting, runs=0.0)
        interval = score_interval(own.returns(generator, 1), setting.bounds)
        return (yield "own", None if interval is None else _holds(interval, own.truth))
    for matrix in matrices[:FAMILY]:
        interval = score_interval(matrix, setting.bounds)
        yield "task", None if interval is None else _holds(interval, setting.truth)
    estimates = [estimate_score(matrix) for matrix in matrices]
    yield "family", _holds(average(estimates[:FAMILY]).interval(), setting.truth)
    yield "suite", _holds(average(estimates).interval(), setting.truth)
    if pooled:
        yield from of_pooled(setting, matrices, generator)


def of_pooled(setting: Setting, matrices: Sequence[Matrix], generator: np.random.Generator) -> Outcome:
    """Summaries of all runs of all tasks that are not means."""
    whole = average([estimate_score(matrix) for matrix in matrices])
    drawn = np.concatenate([draw({0: matrix}, generator, 200)[0] for matrix in matrices])
    pooled = np.concatenate([matrix.mean(axis=1) for matrix in matrices])
    for name, of in (("interquartile_mean", interquartile_mean), ("optimality_gap", optimality_gap)):
        interval = percentile_interval(float(of(pooled)), of(drawn), whole.degrees_of_freedom)
        yield name, _holds(interval, true_pooled(setting.name, name))


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

    found = rank_intervals(3, test)
    # Equal entrants have rank 2, or 3 if one takes the other for better; the better one has rank 1.
    yield "places", found[2].first == 1 and all(found[i].first <= 2 and found[i].last == 3 for i in (0, 1))


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
    uneven = [score + float(more) for score, more in zip(first, generator.normal(0.0, 0.5, TASKS), strict=True)]
    yield "tasks_difference", _holds(compare_by_task(uneven, second).difference.interval, 0.0)


def of_tasks(scores: Sequence[Sequence[Matrix]], generator: np.random.Generator) -> Outcome:
    """Equal entrants on the same tasks: what a table over tasks says of them."""
    means = np.array([[float(runs.mean()) for runs in task] for task in scores])
    by_entrant = [list(column) for column in means.T]

    def test(i: int, j: int) -> tuple[float, float | None]:
        result = compare_by_task(by_entrant[i], by_entrant[j])
        return result.difference.value, result.p

    found = rank_intervals(ENTRANTS, test)
    yield "tasks_places", all((interval.first, interval.last) == (1, ENTRANTS) for interval in found)
    if len(scores[0][0]) > 1:
        yield "tasks_first", max(first_over_tasks(means, generator, DRAWS)) > 0.95
        number = improvement_over_tasks([task[0] for task in scores], [task[1] for task in scores])
        yield "tasks_improvement", _holds(number.interval if number else None, 0.5)


def _rank_scores(scores: Sequence[Sequence[Matrix]]) -> list[float]:
    placed = [ranks([float(runs.mean()) for runs in task])[0] for task in scores]
    return [rank_score(rank, ENTRANTS) or 0.0 for rank in placed]


@functools.cache
def true_pooled(name: str, quantity: str) -> float:
    """Of very many runs, each on as many cases: summaries that are not means depend on how exact a run's score is."""
    setting = next(other for other in SETTINGS if other.name == name)
    generator, count = np.random.default_rng(1), 50_000
    scores = setting.returns(generator, count, setting.shapes[1](generator, (count, CASES))).mean(axis=1)
    return float((interquartile_mean if quantity == "interquartile_mean" else optimality_gap)(scores))


def _holds(interval: Interval | None, truth: float) -> bool:
    return interval is not None and interval.low - 1e-12 <= truth <= interval.high + 1e-12


def summary(rates: Mapping[tuple[str, int], Mapping[str, float]], suites: int) -> dict[str, Any]:
    """Return all rates by table, setting and runs."""
    by_table: dict[str, dict[str, dict[str, float]]] = {
        table: {setting.name: {} for setting in SETTINGS} for table in TABLES
    }
    for (name, runs), found in rates.items():
        for table, rate in found.items():
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


if __name__ == "__main__":
    main()
