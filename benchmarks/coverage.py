"""Measures how often 95 % intervals contain the true value, in simulations: the tables of docs/statistics.md.

    python benchmarks/coverage.py [--suites N] [--jobs N]

A simulated return is a level plus an effect of the run, an effect of the case and a rest, each drawn from the
distribution of the setting; 32 cases, shared by all runs of a task. The truth is the level: what infinitely many runs
on infinitely many cases would average. A suite is 16 such tasks. Seeded: the same table every time.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evopolicygym.analysis.stats.bootstrap import draw, interquartile_mean, optimality_gap, percentile_interval
from evopolicygym.analysis.stats.estimates import Interval, average, estimate_difference, estimate_score
from evopolicygym.analysis.stats.ranks import rank_intervals

Matrix = NDArray[np.float64]
Effect = Callable[[np.random.Generator, tuple[int, ...]], Matrix]
RUNS = (1, 2, 3, 5, 10, 20)
TASKS = 16
CASES = 32
FAMILY = 4
DRAWS = 1000


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> Matrix:
    return generator.standard_normal(shape)


def skewed(generator: np.random.Generator, shape: tuple[int, ...]) -> Matrix:
    """Mostly a little above the mean, sometimes far below: minus an exponential, of skewness -2."""
    return 1.0 - generator.exponential(size=shape)


def modes(share: float, generator: np.random.Generator, shape: tuple[int, ...]) -> Matrix:
    """A run has found the trick, with this probability, or it has not."""
    succeeded = generator.random(shape) < share
    return np.asarray((succeeded - share) / math.sqrt(share * (1.0 - share)))


def two_modes(share: float) -> Effect:
    return functools.partial(modes, share)


@dataclass(frozen=True)
class Setting:
    """Standard deviations of the three effects, and what they look like. ``extreme`` ones are shown, not promised."""

    name: str
    runs: float
    cases: float
    rest: float
    of_runs: Effect = normal
    of_cases: Effect = normal
    of_rest: Effect = normal
    extreme: bool = False

    def returns(self, generator: np.random.Generator, runs: int, level: float = 0.0) -> Matrix:
        return self.given_cases(generator, runs, self.of_cases(generator, (1, CASES)), level)

    def given_cases(self, generator: np.random.Generator, runs: int, cases: Matrix, level: float = 0.0) -> Matrix:
        by_run = self.runs * self.of_runs(generator, (runs, 1))
        rest = self.rest * self.of_rest(generator, (runs, CASES))
        return np.asarray(level + by_run + self.cases * cases + rest)


SETTINGS = (
    Setting("all alike", 1.0, 1.0, 1.0),
    Setting("cases dominate", 0.1, 1.0, 0.3),
    Setting("runs dominate", 1.0, 0.2, 0.3),
    Setting("rest dominates", 0.1, 0.2, 1.0),
    Setting("skewed cases", 0.2, 1.0, 0.5, normal, skewed, skewed),
    Setting("all skewed", 1.0, 1.0, 1.0, skewed, skewed, skewed),
    Setting("two modes, 1 in 2", 1.0, 0.3, 0.5, two_modes(0.5)),
    Setting("two modes, 1 in 3", 1.0, 0.3, 0.5, two_modes(1 / 3)),
    Setting("runs dominate, skewed", 1.0, 0.3, 0.5, skewed, skewed, skewed, extreme=True),
    Setting("rare mode, 1 in 7", 1.0, 0.3, 0.5, two_modes(1 / 7), extreme=True),
)
MIXED = tuple((SETTINGS[i % 8], 0.15, 0.2 + 0.05 * i) for i in range(TASKS))  # setting, unit, true level


def main() -> None:
    parser = argparse.ArgumentParser(description="Measured coverage of 95 % intervals.")
    parser.add_argument("--suites", type=int, default=2000, help="simulated suites for each cell")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = {(setting.name, runs): pool.submit(coverage, setting, runs, options.suites)
                 for setting in SETTINGS for runs in RUNS}  # fmt: skip
        own = {
            setting.name: pool.submit(coverage, replace(setting, runs=0.0), 1, options.suites) for setting in SETTINGS
        }
        others = {runs: pool.submit(of_suites, runs, options.suites // 4) for runs in RUNS}
        rates = {key: future.result() for key, future in cells.items()}
        for title, which in ((f"One task ({FAMILY * options.suites} simulated tasks in each cell)", "task"),
                             (f"Mean over {FAMILY} tasks ({options.suites} in each cell)", "family"),
                             (f"Mean over {TASKS} tasks ({options.suites} in each cell)", "suite")):  # fmt: skip
            print(f"\n{title}\n")
            _print_table(
                "setting",
                ((setting.name, [rates[setting.name, runs][which] for runs in RUNS]) for setting in SETTINGS),
            )
            usual = [[rates[setting.name, runs][which] for setting in SETTINGS if not setting.extreme] for runs in RUNS]
            print(f"lowest and highest, without the extremes: {[(min(row), max(row)) for row in usual]}")
        print("\nOne task, one run: how often the interval holds the mean of that very run over all cases\n")
        print("\n".join(f"| {name} | {100 * future.result()['task']:.1f} |" for name, future in own.items()))
        print(f"\nOther quantities, suites of {TASKS} unlike tasks ({options.suites // 4} suites in each cell)\n")
        rows = {name: [others[runs].result()[name] for runs in RUNS] for name in others[RUNS[0]].result()}
        _print_table("quantity", rows.items())


def coverage(setting: Setting, runs: int, suites: int) -> dict[str, float]:
    """Of one task's interval, of the mean over a family of tasks, and of the mean over all tasks of a suite."""
    generator = _generator(setting.name, runs)
    held: dict[str, list[bool]] = {"task": [], "family": [], "suite": []}
    for _ in range(suites):
        estimates = [estimate_score(setting.returns(generator, runs)) for _ in range(TASKS)]
        held["task"] += [_holds(estimate.interval(), 0.0) for estimate in estimates[:FAMILY]]
        held["family"].append(_holds(average(estimates[:FAMILY]).interval(), 0.0))
        held["suite"].append(_holds(average(estimates).interval(), 0.0))
    return {which: float(np.mean(values)) for which, values in held.items()}


def of_suites(runs: int, suites: int) -> dict[str, float]:
    """Paired differences, pooled quantities and places on suites of unlike tasks."""
    generator = _generator("suites", runs)
    true_middle, true_gap = _true_pooled(np.random.default_rng(1))
    held: dict[str, list[bool]] = {}
    for _ in range(suites):
        for name, holds in _judged(generator, runs, true_middle, true_gap):
            held.setdefault(name, []).append(holds)
    return {name: float(np.mean(values)) for name, values in held.items()}


def _judged(
    generator: np.random.Generator, runs: int, true_middle: float, true_gap: float
) -> Iterable[tuple[str, bool]]:
    """Three entrants: two equal ones, and one that is better by 0.05, on the same cases."""
    levels = (0.0, 0.0, 0.05)
    tasks = [_entrants(generator, setting, unit, level, runs, levels) for setting, unit, level in MIXED]
    pairs = {
        (i, j): average([estimate_difference(task[i], task[j]) for task in tasks]) for i in range(3) for j in range(3)
    }
    yield "paired difference of two", _holds(pairs[2, 0].interval(), 0.05)
    yield "paired difference of equals", _holds(pairs[1, 0].interval(), 0.0)
    ranks = rank_intervals(3, lambda i, j: pairs[i, j])
    yield (
        "rank intervals (all three)",
        ranks[2].first == 1 and all(ranks[i].first <= 3 and ranks[i].last >= 2 for i in (0, 1)),
    )
    estimate = average([estimate_score(task[0]) for task in tasks])
    yield "mean", _holds(estimate.interval(), float(np.mean([level for _, _, level in MIXED])))
    pooled = np.concatenate([task[0].mean(axis=1) for task in tasks])
    drawn = np.concatenate([draw({0: task[0]}, generator, DRAWS)[0] for task in tasks])
    for name, of, truth in (
        ("interquartile mean", interquartile_mean, true_middle),
        ("optimality gap", optimality_gap, true_gap),
    ):
        yield name, _holds(percentile_interval(float(of(pooled)), of(drawn), estimate.degrees_of_freedom), truth)


def _entrants(
    generator: np.random.Generator, setting: Setting, unit: float, level: float, runs: int, levels: tuple[float, ...]
) -> list[Matrix]:
    cases = setting.of_cases(generator, (1, CASES))
    return [level + more + unit * setting.given_cases(generator, runs, cases) for more in levels]


def _true_pooled(generator: np.random.Generator, runs: int = 20_000) -> tuple[float, float]:
    """Of very many runs, each on so many cases that only the run's own effect is left."""
    scores = [level + unit * setting.runs * setting.of_runs(generator, (runs,)) for setting, unit, level in MIXED]
    pooled = np.concatenate(scores)
    return float(interquartile_mean(pooled)), float(optimality_gap(pooled))


def _holds(interval: Interval | None, truth: float) -> bool:
    return interval is not None and interval.low <= truth <= interval.high


def _generator(name: str, runs: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(name.encode()), runs])


def _print_table(first: str, rows: Iterable[tuple[str, list[float]]]) -> None:
    print(f"| {first} | " + " | ".join(f"{runs} run{'s' if runs > 1 else ''}" for runs in RUNS) + " |")
    print("|---" * (len(RUNS) + 1) + "|")
    for name, values in rows:
        print(f"| {name} | " + " | ".join(f"{100 * value:.1f}" for value in values) + " |", flush=True)


if __name__ == "__main__":
    main()
