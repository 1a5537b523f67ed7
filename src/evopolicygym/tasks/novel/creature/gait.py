"""The expert for generated creatures: a rhythm with feedback for every joint, tuned by CMA-ES on the true body.

Gaits have many local optima, and most random ones hardly move. The search therefore tries many of them for a short
time, keeps those whose neighbours are good, too, starts CMA-ES at a few of these, and continues with the best of the
starts; first on short trials, at the end on whole episodes."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from evopolicygym.tasks.novel.creature.body import EFFORT, TIMESTEP_S, Aim, Vector
from evopolicygym.tasks.novel.world import Act

if TYPE_CHECKING:
    from evopolicygym.tasks.novel.creature.world import CreatureEnv, CreatureWorld

SHORT_STEPS: Final = 120_000  # of the environment, for short trials
WHOLE_STEPS: Final = 60_000  # for whole episodes after them
TRIAL: Final = 80  # steps of a short trial; with places, it is a whole episode
PATIENCE: Final = 50  # steps without new ground after which a trial is stopped
RANDOM_SHARE: Final = 0.2  # of short trials, for random gaits
START_SHARE: Final = 0.3  # of the short trials after them, for comparing starts of CMA-ES
SCREENS: Final = ((24, 3), (6, 6))  # how many gaits are compared, and by how many trials of their neighbours
STARTS: Final = 3
FINALISTS: Final = 6
FINAL_CASES: Final = 8
IDLE_EFFORT: Final = 0.3 * EFFORT  # guessed cost of a step after a trial was stopped
OUT_OF_REACH: Final = 1e3  # metres; a place that a creature cannot arrive at
COMMON: Final = 3  # numbers of a rhythm that do not belong to a joint: logarithms of frequency, stiffness, damping


@dataclass(frozen=True)
class GaitPrior:
    """How random gaits are drawn. ``frequency`` (Hz) is that of a gait whose numbers are 0; ``common`` are widths of
    the first numbers, ``weights`` those of the signals in the order of ``_signals``, ``load`` those that a load adds.
    ``neighbours`` is the width of neighbours and of the first samples of CMA-ES, as a share of the others."""

    frequency: float
    common: tuple[float, ...]
    weights: tuple[float, ...]
    load: tuple[float, ...]
    neighbours: float

    def widths(self, world: CreatureWorld) -> Vector:
        weights = self.weights + (self.load if world.body.load else ())
        return np.concatenate((self.common, np.repeat(weights, len(world.body.segments))))


PLANE: Final = GaitPrior(2.0, (0.5, 0.4, 0.4), (0.35, 0.55, 0.55, 0.1, 0.1, 0.3, 0.05), (0.15, 0.03), 0.5)
SPACE: Final = GaitPrior(1.3, (0.4, 0.4, 0.4), (0.35, 0.55, 0.55, 0.1, 0.1, 0.1, 0.1, 0.1, 0.14, 0.14), (0.1, 0.1), 0.3)


@dataclass(frozen=True)
class Gait:
    """Rhythms of all joints. Each joint aims at a weighted sum of signals, in halves of its range from its middle. In
    a plane with places on both sides there are two rhythms, for forwards and backwards."""

    world: CreatureWorld
    rhythms: tuple[Vector, ...]

    def player(self, env: CreatureEnv) -> Act:
        """Return the policy of an environment that was just reset. It reads the true state."""
        acts = [self._rhythm(env, numbers) for numbers in self.rhythms]
        if len(acts) == 1:
            return acts[0]
        return lambda observation: acts[env.aside()[0] < 0.0](observation)

    def _rhythm(self, env: CreatureEnv, numbers: Vector) -> Act:
        world, body, data = self.world, self.world.body, env.data
        frequency, stiffness, damping = np.exp(numbers[:COMMON]) * (_prior(world).frequency, 3.0, 0.1)
        order = np.array(body.motors)  # all below is by motor
        middle, half, sign = (
            np.array([getattr(segment, name) for segment in body.segments])[order]
            for name in ("middle", "half_range", "sign")
        )
        weights = sign[:, None] * numbers[COMMON:].reshape(-1, len(order)).T[order]
        root, joints = (3 if body.flat else 7), len(order)
        angles, speeds = data.qpos[root : root + joints], data.qvel[root - (not body.flat) :][:joints]
        rate, signals = 2.0 * math.pi * float(frequency) * TIMESTEP_S * world.frames, _signals(env)
        if not body.servos:
            weights *= stiffness
            weights[:, 0] += sign * stiffness * middle / half
        pull, brake = sign * stiffness / half, sign * damping

        def act(_: Any) -> Any:
            command = weights @ signals(rate * env.steps)
            if not body.servos:
                command -= pull * angles[order] + brake * speeds[order]
            return np.minimum(np.maximum(command, -1.0), 1.0).astype(np.float32)

        return act


def find_gait(world: CreatureWorld) -> Gait:
    """Search for the gait with the highest return. The same world gives the same gait."""
    return GaitSearch(world).best()


class GaitSearch:
    """Tries gaits on the true body. ``steps`` is how many steps of the environment that took."""

    def __init__(self, world: CreatureWorld) -> None:
        self.world, self.steps = world, 0
        env: Any = world.make()
        env.observes = False
        self._env = env
        self._random, self._cases = np.random.default_rng(0), itertools.count()
        self._prior = _prior(world)
        self._widths = self._prior.widths(world)
        # Gaits that are fast for a short time on a straight way miss places, or fall on the way back.
        self._trial_steps = world.horizon if world.aim is Aim.PLACES else min(TRIAL, world.horizon)

    def best(self) -> Gait:
        """Return the best gait that was found: on short trials for each side, then on whole episodes."""
        sides = (1.0, -1.0) if self.world.body.flat and self.world.aim is Aim.PLACES else (0.0,)
        starts = [self._best_start(side, self.steps + SHORT_STEPS // len(sides)) for side in sides]
        strategy = self._strategy(
            np.concatenate([start.mean for start in starts]), np.concatenate([start.stds for start in starts]), 1.0
        )
        finalists: list[Vector] = []

        def whole_return(numbers: Vector, case: int) -> float:
            return self.trial(Gait(self.world, tuple(np.split(numbers, len(sides)))), case, self.world.horizon)

        end = self.steps + WHOLE_STEPS
        while self.steps < end:
            samples, case = strategy.ask(), next(self._cases)
            values = [whole_return(sample, case) for sample in samples]
            strategy.tell(samples, [-value for value in values])
            finalists.append(samples[int(np.argmax(values))])
        finalists, cases = [strategy.mean, *finalists[1 - FINALISTS :]], self._next_cases(FINAL_CASES)
        best = max(finalists, key=lambda numbers: _mean([whole_return(numbers, case) for case in cases]))
        return Gait(self.world, tuple(np.split(best, len(sides))))

    def trial(self, gait: Gait, case: int, steps: int, side: float = 0.0) -> float:
        """Return the return of an episode, of which only ``steps`` are played: the rest is assumed to be like their
        second half. It is stopped earlier without new ground. A ``side`` of a plane has a place that is out of reach.
        """
        env, horizon = self._env, self.world.horizon
        env.reset(seed=case)
        if side:
            env.aim_at((side * OUT_OF_REACH, 0.0))
        act, total, at_half, progress, best = gait.player(env), 0.0, 0.0, 0, env.best
        for step in range(1, steps + 1):
            _, reward, has_fallen, _, _ = env.step(act(None))
            total += reward
            if step == steps // 2:
                at_half = total
            if env.best != best:
                progress, best = step, env.best
            if has_fallen or step - progress >= PATIENCE:
                self.steps += step
                return float(total) - (0.0 if has_fallen else IDLE_EFFORT * (horizon - step))
        self.steps += steps
        return float(total + (total - at_half) * (horizon - steps) / (steps - steps // 2))

    def _best_start(self, side: float, end: int) -> Any:
        """Return the CMA-ES of one side that got farthest in short trials."""
        starts = [
            self._strategy(numbers, self._widths, self._prior.neighbours) for numbers in self._screened(side, end)
        ]
        share = START_SHARE * (end - self.steps) / len(starts)
        values = [self._evolve(start, side, self.steps + share) for start in starts]
        best = starts[int(np.argmax(values))]
        self._evolve(best, side, end)
        return best

    def _screened(self, side: float, end: int) -> list[Vector]:
        """Return the random gaits that are best together with their neighbours."""
        case, random_end = next(self._cases), self.steps + RANDOM_SHARE * (end - self.steps)
        gaits: list[tuple[list[float], Vector]] = []
        while self.steps < random_end:
            numbers = self._widths * self._random.standard_normal(len(self._widths))
            gaits.append(([self._short(numbers, case, side)], numbers))
        for count, trials in SCREENS:
            gaits = sorted(gaits, key=lambda gait: _mean(gait[0]))[-count:]
            cases = self._next_cases(trials)
            for values, numbers in gaits:
                values += [self._short(self._neighbour(numbers), case, side) for case in cases]
        return [numbers for _, numbers in sorted(gaits, key=lambda gait: _mean(gait[0]))[-STARTS:]]

    def _neighbour(self, numbers: Vector) -> Vector:
        return numbers + self._prior.neighbours * self._widths * self._random.standard_normal(len(numbers))

    def _short(self, numbers: Vector, case: int, side: float) -> float:
        return self.trial(Gait(self.world, (numbers,)), case, self._trial_steps, side)

    def _evolve(self, strategy: Any, side: float, end: float) -> float:
        """Let CMA-ES improve until a number of steps; return the median of its last samples."""
        medians: list[float] = []
        while self.steps < end or not medians:
            samples, case = strategy.ask(), next(self._cases)
            values = [self._short(sample, case, side) for sample in samples]
            strategy.tell(samples, [-value for value in values])
            medians.append(float(np.median(values)))
        return _mean(medians[-3:])

    def _strategy(self, start: Vector, widths: Vector, width: float) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that matplotlib, which only its plots need, is missing
            import cma
        options = {
            "verbose": -9,
            "seed": np.nan,  # leaves numpy's global state alone
            "randn": lambda *shape: self._random.standard_normal(shape),
            "CMA_diagonal": True,
            "CMA_stds": widths,
        }
        return cma.CMAEvolutionStrategy(start, width, options)

    def _next_cases(self, count: int) -> list[int]:
        return list(itertools.islice(self._cases, count))


def _prior(world: CreatureWorld) -> GaitPrior:
    return PLANE if world.body.flat else SPACE


def _signals(env: CreatureEnv) -> Callable[[float], Vector]:
    """Return a function from the phase of a rhythm to the signals that joints follow. In a plane, these are lean and
    its rate, and angle and rate of the load; in space, lean to the front and aside, how the creature should turn, and
    the two angles of the load."""
    qpos, qvel, joints = env.data.qpos, env.data.qvel, len(env.world.body.segments)
    carries = env.world.body.load is not None

    def in_plane(phase: float) -> Vector:
        sine, cosine = math.sin(phase), math.cos(phase)
        signals = [1.0, sine, cosine, 2.0 * sine * cosine, cosine * cosine - sine * sine, math.sin(qpos[2]), qvel[2]]
        if carries:
            signals += (qpos[3 + joints], qvel[3 + joints])
        return np.array(signals)

    def in_space(phase: float) -> Vector:
        sine, cosine, turn = math.sin(phase), math.cos(phase), _turn(env)
        w, x, y, z = qpos[3:7].tolist()
        signals = [1.0, sine, cosine, 2.0 * sine * cosine, cosine * cosine - sine * sine]
        signals += (2.0 * (w * y - z * x), 2.0 * (w * x + y * z), turn, turn * sine, turn * cosine)
        if carries:
            signals += qpos[7 + joints : 9 + joints].tolist()
        return np.array(signals)

    return in_plane if env.world.body.flat else in_space


def _turn(env: CreatureEnv) -> float:
    """Return how a creature in space should turn: the angle between its way and where it goes when it does not turn,
    which is the heading of its world; at most 1, so that it keeps turning to what lies behind it."""
    ahead, left = env.aside()
    cosine, sine = math.cos(env.world.heading), math.sin(env.world.heading)
    angle = math.atan2(left * cosine - ahead * sine, ahead * cosine + left * sine)
    return max(-1.0, min(1.0, angle))


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)
