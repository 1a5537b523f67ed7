"""The search: explore, audition the families, tune the best one with CMA-ES, confirm."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, Final

import numpy as np

from .dynamics import Dynamics
from .evaluator import Candidate, Evaluator
from .families import Family, constant, families, noise
from .policies.features import Vector
from .spaces import Spaces

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it misses matplotlib, which it would only plot with
    import cma

EXPLORING_CASES: Final = [0, 1]
AUDITION_CASES: Final = [0]
RECALL_CASES: Final = [1, 2, 3]  # for the best few: one case can be lucky
RECALLED: Final = 3
AUDITION_SHARE: Final = 0.35
FRESH_CASES: Final = 4  # the first case that no choice was made on
TRAIN_CASES: Final = 1024
FINAL_CASES: Final = 4
MOST_CASES: Final = 128  # of one submission
IMAGE_CASES: Final = 4  # worlds with images are slow to play, and every candidate is validated
MANY_NUMBERS: Final = 30  # from here on only the variances are adapted: there is no budget for more


@dataclass(frozen=True)
class Trial:
    family: Family
    numbers: Vector
    mean: float


def tune(evaluator: Evaluator, spaces: Spaces, seed: int) -> None:
    """Until the evaluator says that the budget is spent."""
    budget = evaluator.left
    dynamics = explore(evaluator, spaces)
    random = np.random.default_rng(seed)
    trials = audition(evaluator, families(spaces, dynamics, random), budget)
    best = recall(evaluator, trials, max(1, min(RECALLED, budget // 40)))
    print(f"chosen: {best.family.name}", flush=True)
    optimise(evaluator, best, seed, IMAGE_CASES if spaces.sees_images else 1)


def explore(evaluator: Evaluator, spaces: Spaces) -> Dynamics:
    """Nothing is as instructive as noise, weak and strong; doing nothing is the yardstick."""
    random = noise(spaces)
    played = [evaluator.play(random.build(start), EXPLORING_CASES) for start in random.starts]
    evaluator.play(constant(spaces), EXPLORING_CASES[:1])
    return Dynamics(spaces, [episode for trial in played for episode in trial.episodes])


def audition(evaluator: Evaluator, offered: list[Family], budget: int) -> list[Trial]:
    """Every family shows its starting points in turn, on the same case."""
    turns = zip_longest(*([(family, start) for start in family.starts] for family in offered))
    floor = evaluator.left - int(AUDITION_SHARE * budget)
    trials: list[Trial] = []
    for family, numbers in filter(None, chain.from_iterable(turns)):
        if evaluator.left <= floor and trials:
            break
        trials.append(Trial(family, numbers, evaluator.play(family.build(numbers), AUDITION_CASES).mean))
    return trials


def recall(evaluator: Evaluator, trials: list[Trial], count: int) -> Trial:
    """The best trial of each of the best families on more cases; of equals the one that was offered last: it assumes
    the least."""
    ranked = sorted(trials, key=lambda trial: -trial.mean)
    best: dict[str, Trial] = {}
    for trial in ranked:
        best.setdefault(trial.family.name, trial)
    called = list(best.values())[:count]
    means = [
        evaluator.play(trial.family.build(trial.numbers), RECALL_CASES).mean + trial.mean / len(RECALL_CASES)
        for trial in called
    ]
    return called[max(range(len(called)), key=lambda number: (means[number], number))]


def optimise(evaluator: Evaluator, start: Trial, seed: int, least: int) -> None:
    """CMA-ES. All candidates of a generation play the same cases; how many is decided by the first generation."""
    strategy = _strategy(start, seed)
    count, build = max(2, least), start.family.build
    while evaluator.left >= strategy.popsize * count + FINAL_CASES:
        cases = next_cases(strategy.countiter, count)
        proposals = strategy.ask()
        returns = np.array([evaluator.play(build(numbers), cases).returns for numbers in proposals])
        means = returns.mean(axis=1)
        strategy.tell(proposals, np.where(np.isfinite(means), -means, 1e30).tolist())
        print(f"generation {strategy.countiter}: best {means.max():.6g}, median {np.median(means):.6g}", flush=True)
        if strategy.countiter == 1:
            count = max(least, cases_needed(returns))
    confirm(evaluator, build(strategy.mean))


def confirm(evaluator: Evaluator, centre: Candidate) -> None:
    """The centre of the distribution is mostly better than what is drawn from it: it gets what is left."""
    evaluator.play(centre, list(range(min(evaluator.left, MOST_CASES))))


def next_cases(generation: int, count: int) -> list[int]:
    """Others for every generation: what is good on a few known cases only dies out."""
    first = FRESH_CASES + generation * count
    return [(first + number) % TRAIN_CASES for number in range(count)]


def cases_needed(returns: Vector) -> int:
    """Where candidates differ less than cases treat them differently, more cases are worth their price."""
    centred = returns - returns.mean(axis=0)
    noise = float((centred - centred.mean(axis=1, keepdims=True)).var(axis=1, ddof=1).mean())
    signal = float(centred.mean(axis=1).var(ddof=1)) - noise / returns.shape[1]
    return 1 if noise < 0.3 * signal else 2 if noise < 2.0 * signal else 4


def _strategy(start: Trial, seed: int) -> Any:
    options = {"seed": seed + 1, "verbose": -9, "verb_log": 0, "verb_disp": 0}  # to cma, a seed of 0 is the clock
    diagonal = len(start.numbers) > MANY_NUMBERS
    return cma.CMAEvolutionStrategy(start.numbers, start.family.sigma, options | {"CMA_diagonal": diagonal})
