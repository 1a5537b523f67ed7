"""The expert for generated creatures: a rhythm for every joint, tuned by CMA-ES on the true body."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from evopolicygym.tasks.novel.creature_aim import Aim
from evopolicygym.tasks.novel.creature_body import TIMESTEP_S, Vector
from evopolicygym.tasks.novel.world import Act

if TYPE_CHECKING:
    from evopolicygym.tasks.novel.creature import CreatureEnv, CreatureWorld

EPISODES: Final = 600  # of the whole search
CASES: Final = 2  # that a gait is tried on; with one, gaits win that go well in one direction only
RANDOM_SHARE: Final = 0.25  # of them, for random gaits; CMA-ES starts at the best one
FINALISTS: Final = 4
FINAL_CASES: Final = 8
WIDTH: Final = 0.25  # of the first samples of CMA-ES
COMMON: Final = 3  # numbers of a gait that do not belong to a joint: frequency, stiffness, damping
ROWS: Final = 7  # numbers of a joint: amplitude, offset, phase, what leaning adds to the offset, what turning adds to
# amplitude, offset and phase


@dataclass(frozen=True)
class Gait:
    """Rhythms of all joints. Each joint aims at offset + amplitude * sin(2 pi frequency t + phase), in halves of its
    range from its middle; amplitude, offset and phase change with where the creature should turn, and the offset with
    how it leans."""

    world: CreatureWorld
    numbers: Vector

    def player(self, env: CreatureEnv) -> Act:
        """Return the policy of an environment that was just reset. It reads joints and orientation from the state."""
        world, body, data = self.world, self.world.body, env.data
        frequency, stiffness, damping = np.exp(self.numbers[:COMMON]) * (1.2, 3.0, 0.1)
        rows = np.zeros((ROWS, len(body.segments)))
        rows[: _rows_used(world)] = self.numbers[COMMON:].reshape(-1, len(body.segments))
        amplitude, offset, phase, leaning, turned_amplitude, turned_offset, turned_phase = rows
        middle, half, sign = (
            np.array([getattr(segment, name) for segment in body.segments]) for name in ("middle", "half_range", "sign")
        )
        root, joints, order = (3 if body.flat else 7), len(middle), np.array(body.motors)
        angles, speeds = data.qpos[root : root + joints], data.qvel[root - (not body.flat) :][:joints]
        rate = 2.0 * math.pi * float(frequency) * TIMESTEP_S * world.frames

        def act(_: Any) -> Any:
            turn = _turn(env)
            rhythm = np.sin(rate * env.steps + 3.0 * (phase + turn * turned_phase))
            target = (
                offset + leaning * _lean(env) + turn * turned_offset + (amplitude + turn * turned_amplitude) * rhythm
            )
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
    generator, env = np.random.default_rng(0), world.make()
    width = _widths(world)
    trials: list[tuple[float, Vector]] = []

    def score(numbers: Vector, first_case: int) -> float:
        cases = range(first_case, first_case + CASES)
        trials.append((_mean_return(env, Gait(world, numbers), cases), numbers))
        return trials[-1][0]

    for _ in range(int(RANDOM_SHARE * EPISODES) // CASES):
        score(width * generator.standard_normal(len(width)), 0)
    start = max(trials, key=lambda trial: trial[0])[1]
    options = {
        "verbose": -9,
        "seed": np.nan,  # leaves numpy's global state alone
        "randn": lambda *shape: generator.standard_normal(shape),
        "CMA_diagonal": True,
        "CMA_stds": width,
    }
    strategy, first_case = cma.CMAEvolutionStrategy(start, WIDTH, options), 0
    while CASES * (len(trials) + strategy.popsize) <= EPISODES - FINALISTS * FINAL_CASES:
        first_case += CASES
        samples = strategy.ask()
        strategy.tell(samples, [-score(sample, first_case) for sample in samples])
    finalists = [numbers for _, numbers in sorted(trials, key=lambda trial: trial[0])[-FINALISTS + 1 :]]
    finalists.append(strategy.mean)
    cases = range(first_case + CASES, first_case + CASES + FINAL_CASES)
    means = [_mean_return(env, Gait(world, numbers), cases) for numbers in finalists]
    return Gait(world, finalists[int(np.argmax(means))])


def _mean_return(env: Any, gait: Gait, cases: range) -> float:
    total = 0.0
    for case in cases:
        env.reset(seed=case)
        act, is_over = gait.player(env), False
        while not is_over:
            _, reward, terminated, truncated, _ = env.step(act(None))
            total, is_over = total + reward, terminated or truncated
    return total / len(cases)


def _rows_used(world: CreatureWorld) -> int:
    """Return how many numbers a joint has in this world: nothing turns where there is one direction in a plane, and
    phases turn only where there are two."""
    if not world.body.flat:
        return 6
    return 7 if world.aim is Aim.PLACES else 4


def _widths(world: CreatureWorld) -> Vector:
    """Return how far the numbers of random gaits spread. In space, leaning and turning only correct a gait; in a plane,
    turning is another gait."""
    spread = (0.6, 0.3, 0.7, 0.3, 0.4, 0.3, 0.5) if world.body.flat else (0.6, 0.3, 0.7, 0.1, 0.2, 0.1)
    rows = np.repeat(spread[: _rows_used(world)], len(world.body.segments))
    return np.concatenate(((0.4, 0.4, 0.4), rows))


def _turn(env: CreatureEnv) -> float:
    """Return how the creature should turn: in a plane the direction, 1 or -1; in space the sine of the angle between
    its way and where it goes when it does not turn, which is the heading of its world."""
    ahead, left = env.aside()
    if env.world.body.flat:
        return ahead
    heading = env.world.heading
    return left * math.cos(heading) - ahead * math.sin(heading)


def _lean(env: CreatureEnv) -> float:
    """Return the lean of the torso: the sine of its pitch."""
    qpos = env.data.qpos
    if env.world.body.flat:
        return math.sin(float(qpos[2]))
    w, x, y, z = qpos[3:7].tolist()
    return float(2.0 * (w * y - z * x))
