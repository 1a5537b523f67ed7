"""The expert for generated creatures: a rhythm for every joint, tuned by CMA-ES on the true body."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from evopolicygym.tasks.novel.creature.body import HORIZON, TIMESTEP_S, Aim, Vector
from evopolicygym.tasks.novel.world import Act

if TYPE_CHECKING:
    from evopolicygym.tasks.novel.creature.world import CreatureEnv, CreatureWorld

STEPS: Final = 200_000  # of the whole search: 1000 episodes, and more where loads fall early
CASES: Final = 2  # that a gait is tried on; with one, gaits win that go well in one direction only
RANDOM_SHARE: Final = 0.25  # of the steps, for random gaits; CMA-ES starts at the best one
FINALISTS: Final = 8
FINAL_CASES: Final = 8
FINAL_STEPS: Final = FINALISTS * FINAL_CASES * HORIZON
WIDTH: Final = 0.25  # of the first samples of CMA-ES
COMMON: Final = 3  # numbers of a rhythm that do not belong to a joint: frequency, stiffness, damping
ROWS: Final = 6  # numbers of a joint: amplitude, offset, phase, what leaning adds to the offset, what turning adds to
# amplitude and offset; the last two only in space


@dataclass(frozen=True)
class Gait:
    """Rhythms of all joints. Each joint aims at offset + amplitude * sin(2 pi frequency t + phase), in halves of its
    range from its middle; the offset changes with how the creature leans and, in space, with where it should turn, as
    the amplitude does. In a plane with places on both sides there are two rhythms, for forwards and backwards."""

    world: CreatureWorld
    numbers: Vector

    def player(self, env: CreatureEnv) -> Act:
        """Return the policy of an environment that was just reset. It reads joints and orientation from the state."""
        if not _goes_both_ways(self.world):
            return self._rhythm(env, self.numbers)
        forwards, backwards = (self._rhythm(env, numbers) for numbers in np.split(self.numbers, 2))
        return lambda observation: (forwards if env.aside()[0] > 0.0 else backwards)(observation)

    def _rhythm(self, env: CreatureEnv, numbers: Vector) -> Act:
        world, body, data = self.world, self.world.body, env.data
        frequency, stiffness, damping = np.exp(numbers[:COMMON]) * (1.2, 3.0, 0.1)
        rows = np.zeros((ROWS, len(body.segments)))
        given = numbers[COMMON:].reshape(-1, len(body.segments))
        rows[: len(given)] = given
        amplitude, offset, phase, leaning, turned_amplitude, turned_offset = rows
        middle, half, sign = (
            np.array([getattr(segment, name) for segment in body.segments]) for name in ("middle", "half_range", "sign")
        )
        root, joints, order = (3 if body.flat else 7), len(middle), np.array(body.motors)
        angles, speeds = data.qpos[root : root + joints], data.qvel[root - (not body.flat) :][:joints]
        rate = 2.0 * math.pi * float(frequency) * TIMESTEP_S * world.frames

        def act(_: Any) -> Any:
            target = offset + leaning * _lean(env)
            size = amplitude
            if not body.flat:
                turn = _turn(env)
                target += turn * turned_offset
                size = amplitude + turn * turned_amplitude
            target += size * np.sin(rate * env.steps + 3.0 * phase)
            if not body.servos:
                target = stiffness * (target - (angles - middle) / half) - damping * speeds
            return np.minimum(np.maximum(sign * target, -1.0), 1.0)[order].astype(np.float32)

        return act


def find_gait(world: CreatureWorld) -> Gait:
    """Search for the gait with the highest return: at random, then by CMA-ES from the best of these. The best few are
    compared on more cases. The same world gives the same gait."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that matplotlib, which only its plots need, is missing
        import cma
    search, generator = GaitSearch(world), np.random.default_rng(0)
    options = {
        "verbose": -9,
        "seed": np.nan,  # leaves numpy's global state alone
        "randn": lambda *shape: generator.standard_normal(shape),
        "CMA_diagonal": True,
        "CMA_stds": np.tile(_widths(world), 2 if _goes_both_ways(world) else 1),
    }
    strategy = cma.CMAEvolutionStrategy(search.best_random(generator), WIDTH, options)
    while search.steps < STEPS - FINAL_STEPS:
        samples, cases = strategy.ask(), next(search.cases)
        strategy.tell(samples, [-float(np.mean(search.returns(sample, cases))) for sample in samples])
    return Gait(world, search.best_of([*search.leaders(FINALISTS - 1), strategy.mean]))


class GaitSearch:
    """Tries gaits on the true body. ``steps`` is how many steps of the environment that took, ``cases`` are the next
    seeds to try gaits on: with places on both sides, one that begins with each."""

    def __init__(self, world: CreatureWorld) -> None:
        self.world, self.steps = world, 0
        self.cases = self._pairs() if _goes_both_ways(world) else _successive()
        self._env: Any = world.make()
        self._trials: list[tuple[float, Vector]] = []

    def returns(self, numbers: Vector, cases: list[int]) -> list[float]:
        gait, env, totals = Gait(self.world, numbers), self._env, []
        for case in cases:
            env.reset(seed=case)
            act, is_over, total = gait.player(env), False, 0.0
            while not is_over:
                _, reward, terminated, truncated, _ = env.step(act(None))
                total, is_over = total + reward, terminated or truncated
            totals.append(total)
            self.steps += env.steps
        self._trials.append((sum(totals) / len(totals), numbers))
        return totals

    def best_random(self, generator: np.random.Generator) -> Vector:
        """Return the best of random gaits; with places on both sides, the best for each side."""
        cases, width, tried = next(self.cases), _widths(self.world), []
        both = _goes_both_ways(self.world)
        while self.steps < RANDOM_SHARE * STEPS:
            numbers = width * generator.standard_normal(len(width))
            tried.append((self.returns(np.tile(numbers, 2) if both else numbers, cases), numbers))
        if both:
            return np.concatenate([max(tried, key=lambda trial: trial[0][side])[1] for side in (0, 1)])
        return max(tried, key=lambda trial: sum(trial[0]))[1]

    def leaders(self, count: int) -> list[Vector]:
        return [numbers for _, numbers in sorted(self._trials, key=lambda trial: trial[0])[-count:]]

    def best_of(self, finalists: list[Vector]) -> Vector:
        cases = [case for _ in range(FINAL_CASES // CASES) for case in next(self.cases)]
        return max(finalists, key=lambda numbers: sum(self.returns(numbers, cases)))

    def _pairs(self) -> Iterator[list[int]]:
        waiting: dict[bool, list[int]] = {True: [], False: []}
        for seed in itertools.count():
            self._env.reset(seed=seed)
            waiting[self._env.aside()[0] > 0.0].append(seed)
            if all(waiting.values()):
                yield [seeds.pop(0) for seeds in waiting.values()]


def _successive() -> Iterator[list[int]]:
    for first in itertools.count(0, CASES):
        yield list(range(first, first + CASES))


def _goes_both_ways(world: CreatureWorld) -> bool:
    return world.body.flat and world.aim is Aim.PLACES


def _widths(world: CreatureWorld) -> Vector:
    """Return how far the numbers of random rhythms spread. Leaning and turning in space only correct them."""
    spread = (0.6, 0.3, 0.7, 0.3) if world.body.flat else (0.6, 0.3, 0.7, 0.1, 0.2, 0.1)
    return np.concatenate(((0.4, 0.4, 0.4), np.repeat(spread, len(world.body.segments))))


def _turn(env: CreatureEnv) -> float:
    """Return how a creature in space should turn: the sine of the angle between its way and where it goes when it does
    not turn, which is the heading of its world."""
    ahead, left = env.aside()
    heading = env.world.heading
    return left * math.cos(heading) - ahead * math.sin(heading)


def _lean(env: CreatureEnv) -> float:
    """Return the lean of the torso: the sine of its pitch."""
    qpos = env.data.qpos
    if env.world.body.flat:
        return math.sin(float(qpos[2]))
    w, x, y, z = qpos[3:7].tolist()
    return float(2.0 * (w * y - z * x))
