"""Search for the worst return a badly playing policy can collect, for tasks whose return has no simple analytic floor.

A failed episode scores at most the task's `failure_return`, so that number has to lie below anything a policy could
collect by playing on. Each task below is attacked with open-loop adversaries: doing nothing, constant saturated
actions, uniform noise, random saturated signs held for several spans, a constant saturated action that changes late in
the episode, and a cross-entropy search for the worst periodic action sequence (which makes the half cheetah run
backwards, but not the ant). Actions are clipped to the action space, as in the evaluation harness.

    python benchmarks/failure_returns.py [SLUG ...]

prints one line per task and adversary. Results are deterministic for given versions of the simulators. Cases are the
first public train seeds.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

Actions = NDArray[np.float32]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Target:
    """One task to attack and the effort spent on the periodic search."""

    env_id: str
    horizon: int
    search_steps: int
    search_rounds: int
    late_switch: bool = False


TARGETS: dict[str, Target] = {
    "ant": Target("Ant-v5", 1000, search_steps=200, search_rounds=25),
    "bipedal-walker": Target("BipedalWalker-v3", 1600, search_steps=1600, search_rounds=6, late_switch=True),
    "half-cheetah": Target("HalfCheetah-v5", 1000, search_steps=300, search_rounds=40),
    "pusher": Target("Pusher-v5", 100, search_steps=100, search_rounds=40),
    "reacher": Target("Reacher-v5", 50, search_steps=50, search_rounds=20),
}

CASES = 8
FINALISTS = 8
HOLD_SPANS = (1, 2, 5, 10, 25, 50, 100)
START_PERIODS = (3.0, 4.0, 5.0, 8.0, 12.0, 24.0)
POPULATION = 32
ELITE = 6
LATE_STEPS = 200


@dataclass(frozen=True)
class Outcome:
    """The lowest return one adversary reached."""

    adversary: str
    worst: float
    cases: int


class Attack:
    """Plays action sequences on the first train seeds of one task."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.env: gymnasium.Env[Any, Any] = gymnasium.make(target.env_id)
        space = self.env.action_space
        assert isinstance(space, gymnasium.spaces.Box)
        self.low = space.low
        self.high = space.high
        self.size = int(space.shape[0])
        self.seeds = train_seeds(CASES)

    def play(self, seed: int, actions: Iterable[Actions]) -> float:
        """Return of one episode that plays `actions` until the episode or the sequence ends."""
        self.env.reset(seed=seed)
        total = 0.0
        for action in actions:
            _, reward, terminated, truncated, _ = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return total

    def clip(self, actions: Vector) -> Actions:
        """Map values, with 1 meaning saturated, to clipped actions of the task."""
        middle, half = (self.high + self.low) / 2.0, (self.high - self.low) / 2.0
        return np.clip(middle + half * actions, self.low, self.high).astype(np.float32)

    def worst(self, adversary: str, make: Callable[[int], Vector]) -> Outcome:
        """Worst return over all cases; `make(case)` gives the actions played on that case."""
        returns = [self.play(seed, self.clip(make(case))) for case, seed in enumerate(self.seeds)]
        return Outcome(adversary, min(returns), len(returns))

    def worst_of(self, sequences: dict[str, Vector]) -> Outcome:
        """Screen all sequences on the first case, then play the few worst ones on every case."""
        screened = {name: self.play(self.seeds[0], self.clip(actions)) for name, actions in sequences.items()}
        finalists = sorted(screened, key=screened.__getitem__)[:FINALISTS]
        outcomes = [self.worst(name, always(sequences[name])) for name in finalists]
        return min(outcomes, key=lambda outcome: outcome.worst)

    def constant(self, corner: Vector) -> Vector:
        return np.tile(corner, (self.target.horizon, 1))

    def corners(self) -> list[Vector]:
        """Every corner of the action box."""
        return [np.array(signs) for signs in itertools.product((-1.0, 1.0), repeat=self.size)]

    def simple(self) -> Iterable[Outcome]:
        """Adversaries without any search."""
        horizon, size = self.target.horizon, self.size
        yield self.worst("zero", always(np.zeros((horizon, size))))
        yield self.worst_of({f"constant {label(corner)}": self.constant(corner) for corner in self.corners()})
        yield self.worst("uniform noise", lambda case: np.random.default_rng(case).uniform(-1.0, 1.0, (horizon, size)))
        for span in HOLD_SPANS:
            yield self.worst(f"random signs held {span}", functools.partial(self.signs, span))

    def signs(self, span: int, case: int) -> Vector:
        """Random saturated signs, each held for `span` steps."""
        count = -(-self.target.horizon // span)
        signs = np.random.default_rng((case, span)).choice((-1.0, 1.0), size=(count, self.size))
        return np.repeat(signs, span, axis=0)[: self.target.horizon]

    def late_switch(self) -> Outcome:
        """Hold one corner (which may be a stable stance), then another one for the last steps."""
        sequences = {}
        for first, last in itertools.permutations(self.corners(), 2):
            actions = self.constant(first)
            actions[-LATE_STEPS:] = last
            sequences[f"constant {label(first)}, late {label(last)}"] = actions
        return self.worst_of(sequences)

    def periodic(self, genes: Vector, steps: int) -> Vector:
        """A sine per actuator: genes are log period, then offsets, amplitudes and phases."""
        offset, amplitude, phase = genes[1:].reshape(3, self.size)
        clock = 2.0 * np.pi * np.arange(steps)[:, None] / np.exp(genes[0])
        return np.asarray(offset + amplitude * np.sin(clock + phase))

    def search(self, start_period: float) -> Outcome:
        """Cross-entropy search for the periodic sequence with the lowest return on the first case."""
        rng = np.random.default_rng(int(start_period))
        ones = np.ones(self.size)
        mean = np.concatenate([[np.log(start_period)], 0.0 * ones, 1.5 * ones, 0.0 * ones])
        spread = np.concatenate([[0.4], 0.5 * ones, 1.0 * ones, 2.0 * ones])
        best, best_return = mean, np.inf
        for _ in range(self.target.search_rounds):
            population = mean + spread * rng.standard_normal((POPULATION, mean.size))
            returns = np.array([self.short_return(genes) for genes in population])
            elite = population[np.argsort(returns)[:ELITE]]
            mean, spread = elite.mean(axis=0), 0.9 * elite.std(axis=0) + 0.1 * spread
            if returns.min() < best_return:
                best, best_return = population[returns.argmin()], float(returns.min())
        name = f"periodic search from {start_period:g}, period {np.exp(best[0]):.2f}"
        return self.worst(name, always(self.periodic(best, self.target.horizon)))

    def short_return(self, genes: Vector) -> float:
        return self.play(self.seeds[0], self.clip(self.periodic(genes, self.target.search_steps)))

    def run(self) -> Iterable[Outcome]:
        yield from self.simple()
        if self.target.late_switch:
            yield self.late_switch()
        for start_period in START_PERIODS:
            yield self.search(start_period)


def always(actions: Vector) -> Callable[[int], Vector]:
    """The same actions for every case."""
    return lambda case: actions


def label(corner: Vector) -> str:
    return "".join("+" if value > 0 else "-" for value in corner)


def train_seeds(count: int) -> list[int]:
    """The first `count` public train seeds."""
    draw = random.Random(0)
    seeds: dict[int, None] = {}
    while len(seeds) < count:
        seeds[draw.randrange(2**31)] = None
    return list(seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description="Worst returns found per task and adversary.")
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help=f"one of: {', '.join(TARGETS)} (default: all)")
    slugs: list[str] = parser.parse_args().slugs or list(TARGETS)
    unknown = [slug for slug in slugs if slug not in TARGETS]
    if unknown:
        parser.error(f"unknown task: {', '.join(unknown)}")
    print(f"{'task':<16}{'adversary':<48}{'worst return':>14}{'cases':>7}{'seconds':>9}")
    for slug in slugs:
        clock = time.monotonic()
        for outcome in Attack(TARGETS[slug]).run():
            seconds, clock = time.monotonic() - clock, time.monotonic()
            row = f"{slug:<16}{outcome.adversary:<48}{outcome.worst:>14.1f}{outcome.cases:>7}{seconds:>9.1f}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
