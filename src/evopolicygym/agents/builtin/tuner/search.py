"""The search: explore, audition the families, tune the best one with CMA-ES, confirm."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, Final

import cma
import numpy as np

from .bench import Bench, Candidate
from .facts import Facts, Spaces
from .families import Family, constant, families, noise
from .policies.features import Vector

EXPLORING_CASES: Final = [0, 1]
AUDITION_CASES: Final = [0]
RECALL_CASES: Final = [1, 2, 3]  # for the best few: one case can be lucky
RECALLED: Final = 3
AUDITION_SHARE: Final = 0.35
FINAL_CASES: Final = 4
MANY_NUMBERS: Final = 30  # from here on only the variances are adapted: there is no budget for more


@dataclass(frozen=True)
class Trial:
    family: Family
    numbers: Vector
    mean: float


def tune(bench: Bench, spaces: Spaces, seed: int) -> None:
    """Until the bench says that the budget is spent."""
    budget = bench.left
    facts = explore(bench, spaces)
    random = np.random.default_rng(seed)
    found = audition(bench, families(spaces, facts, random), budget)
    best = recall(bench, found)
    print(f"chosen: {best.family.name}", flush=True)
    optimise(bench, best, seed, 1 if facts.before.shape[1] < 40 else 2)


def explore(bench: Bench, spaces: Spaces) -> Facts:
    """Nothing is as instructive as noise, weak and strong; doing nothing is the yardstick."""
    random = noise(spaces)
    played = [bench.play(random.build(start), EXPLORING_CASES) for start in random.starts]
    bench.play(constant(spaces), EXPLORING_CASES[:1])
    return Facts(spaces, [episode for one in played for episode in one.episodes])


def audition(bench: Bench, offered: list[Family], budget: int) -> list[Trial]:
    """Every family shows its starting points in turn, on the same case."""
    turns = zip_longest(*([(family, start) for start in family.starts] for family in offered))
    floor = bench.left - int(AUDITION_SHARE * budget)
    trials = []
    for family, numbers in filter(None, chain.from_iterable(turns)):
        if bench.left <= floor and trials:
            break
        trials.append(Trial(family, numbers, bench.play(family.build(numbers), AUDITION_CASES).mean))
    return trials


def recall(bench: Bench, trials: list[Trial]) -> Trial:
    """The best trial of each of the best families on more cases; of equals the one that was offered first."""
    ranked = sorted(trials, key=lambda one: -one.mean)
    best: dict[str, Trial] = {}
    for one in ranked:
        best.setdefault(one.family.name, one)
    called = list(best.values())[:RECALLED]
    means = [bench.play(one.family.build(one.numbers), RECALL_CASES).mean + one.mean / len(RECALL_CASES) for one in called]
    return called[int(np.argmax(means))]


def optimise(bench: Bench, start: Trial, seed: int, count: int) -> None:
    """CMA-ES; all candidates of a generation play the same cases, the next generation others."""
    strategy = _strategy(start, seed)
    while True:
        generation = strategy.countiter
        cases = [(4 + generation * count + k) % 64 for k in range(count)]
        asked = strategy.ask()
        if bench.left < len(asked) * count + FINAL_CASES:
            break
        means = [bench.play(start.family.build(numbers), cases).mean for numbers in asked]
        strategy.tell(asked, [-mean if np.isfinite(mean) else 1e30 for mean in means])
        print(f"generation {generation}: best {max(means):.6g}, median {np.median(means):.6g}", flush=True)
    finish(bench, start.family.build(strategy.mean))


def finish(bench: Bench, centre: Candidate) -> None:
    """The centre of the distribution is a better policy than most that were drawn from it."""
    bench.play(centre, list(range(bench.left)))


def _strategy(start: Trial, seed: int) -> Any:
    options = {"seed": seed + 1, "verbose": -9, "verb_log": 0, "verb_disp": 0}  # to cma, a seed of 0 is the clock
    diagonal = len(start.numbers) > MANY_NUMBERS
    return cma.CMAEvolutionStrategy(start.numbers, start.family.sigma, options | {"CMA_diagonal": diagonal})
