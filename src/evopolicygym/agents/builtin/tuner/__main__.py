"""Play one run: explore, try all families, tune the best one with CMA-ES, play the result on many cases.

A restarted process repeats the same submissions in the same order, and so continues the run.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, Final

import numpy as np

from ..api_client import ApiClient, RunOver, ServerUnreachable
from ..evaluator import ApiEvaluator, Evaluator, Spaces, TunerPolicy, cases_needed, next_cases
from ..policies.features import Vector
from .dynamics import Dynamics
from .families import Family, constant, families, noise

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns that matplotlib, which only its plots need, is missing
    import cma

EXPLORING_CASES: Final = [0, 1]
FIRST_CASES: Final = [0]
FINALIST_CASES: Final = [1, 2, 3]  # a good return on the first case can be luck
FINALISTS: Final = 3
FAMILIES_SHARE: Final = 0.35  # of the budget, for trying families
FINAL_CASES: Final = 4
MAX_CASES: Final = 128  # of one submission
IMAGE_CASES: Final = 4  # tasks with images are slow, and the judge validates every submitted policy: submit fewer
MANY_NUMBERS: Final = 30  # above it, CMA-ES adapts variances only: the budget is too small for covariances


@dataclass(frozen=True)
class Trial:
    """Result of one vector of numbers of a family."""

    family: Family
    numbers: Vector
    mean: float


def main() -> int:
    seed = int(os.environ.get("EVOPOLICYGYM_SEED") or 0) % 2**31
    api = ApiClient(f"tuner-{seed}")
    try:
        info = api.info()
        meta = info["env_meta"]
        spaces = Spaces(meta["obs_space"], meta["action_space"])
        tune(ApiEvaluator(api, spaces, info["episode_budget"]), spaces, seed)
    except RunOver as closed:
        print(f"tuner: done: {closed}")
    except ServerUnreachable as error:
        print(f"tuner: {error}", file=sys.stderr)
        return 1
    return 0


def tune(evaluator: Evaluator, spaces: Spaces, seed: int) -> None:
    """Search for a good policy until the budget is spent. Raises RunOver if it is spent before the end."""
    budget = evaluator.remaining
    dynamics = explore(evaluator, spaces)
    random = np.random.default_rng(seed)
    trials = try_families(evaluator, families(spaces, dynamics, random), budget)
    best = choose_start(evaluator, trials, max(1, min(FINALISTS, budget // 40)))
    print(f"chosen: {best.family.name}", flush=True)
    optimise(evaluator, best, seed, IMAGE_CASES if spaces.sees_images else 1)


def explore(evaluator: Evaluator, spaces: Spaces) -> Dynamics:
    """Learn the dynamics from episodes with strong and weak random controls.

    Controls of zero are submitted as well, so that the judge has this policy as a candidate.
    """
    family = noise(spaces)
    played = [evaluator.play(family.build(start), EXPLORING_CASES) for start in family.starts]
    evaluator.play(constant(spaces), EXPLORING_CASES[:1])
    return Dynamics(spaces, [episode for result in played for episode in result.episodes])


def try_families(evaluator: Evaluator, all_families: list[Family], budget: int) -> list[Trial]:
    """Play the first starting point of every family, then the second of each, and so on, all on the same case."""
    turns = zip_longest(*([(family, start) for start in family.starts] for family in all_families))
    floor = evaluator.remaining - int(FAMILIES_SHARE * budget)
    trials: list[Trial] = []
    for family, numbers in filter(None, chain.from_iterable(turns)):
        if evaluator.remaining <= floor and trials:
            break
        trials.append(Trial(family, numbers, evaluator.play(family.build(numbers), FIRST_CASES).mean))
    return trials


def choose_start(evaluator: Evaluator, trials: list[Trial], count: int) -> Trial:
    """Play the best trial of each of the ``count`` best families on more cases, and return the best of them.

    Ties go to the one that was ranked last.
    """
    ranked = sorted(trials, key=lambda trial: -trial.mean)
    best: dict[str, Trial] = {}
    for trial in ranked:
        best.setdefault(trial.family.name, trial)
    finalists = list(best.values())[:count]
    means = [
        evaluator.play(trial.family.build(trial.numbers), FINALIST_CASES).mean + trial.mean / len(FINALIST_CASES)
        for trial in finalists
    ]
    return finalists[max(range(len(finalists)), key=lambda number: (means[number], number))]


def optimise(evaluator: Evaluator, start: Trial, seed: int, min_cases: int) -> None:
    """Tune the numbers with CMA-ES. All policies of a generation play the same cases; the first generation decides
    how many."""
    strategy = _strategy(start, seed)
    count, build = max(2, min_cases), start.family.build
    while evaluator.remaining >= strategy.popsize * count + FINAL_CASES:
        cases = next_cases(strategy.countiter, count)
        proposals = strategy.ask()
        returns = np.array([evaluator.play(build(numbers), cases).returns for numbers in proposals])
        means = returns.mean(axis=1)
        strategy.tell(proposals, np.where(np.isfinite(means), -means, 1e30).tolist())
        print(f"generation {strategy.countiter}: best {means.max():.6g}, median {np.median(means):.6g}", flush=True)
        if strategy.countiter == 1:
            count = max(min_cases, cases_needed(returns))
    confirm(evaluator, build(strategy.mean))


def confirm(evaluator: Evaluator, centre: TunerPolicy) -> None:
    """Spend the remaining budget on the centre of the distribution: it is mostly better than samples from it."""
    evaluator.play(centre, list(range(min(evaluator.remaining, MAX_CASES))))


def _strategy(start: Trial, seed: int) -> Any:
    options = {"seed": seed + 1, "verbose": -9, "verb_log": 0, "verb_disp": 0}  # cma takes seed 0 as the clock
    diagonal = len(start.numbers) > MANY_NUMBERS
    return cma.CMAEvolutionStrategy(start.numbers, start.family.sigma, options | {"CMA_diagonal": diagonal})


if __name__ == "__main__":
    sys.exit(main())
