"""Generated control tasks: drive a drawn mechanical system to where its reward is.

The system is a set of 1, 2, 4 or 6 masses on a line or ring, coupled by drawn springs, each in a drawn potential, with
friction. Motors push drawn combinations of masses, saturate, and act after a drawn delay. Sensors measure drawn
mixtures of positions and of some velocities. What has to be reached is one drawn mixture of the positions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

import gymnasium
import numpy as np

from evopolicygym.tasks.novel.world import Act, Canvas, Colour
from evopolicygym.tasks.task import BriefText

VERSION: Final = 2
STEP_S: Final = 0.05
HORIZON: Final = 200
CLOSE, FAR = 0.7, 0.3  # parts of the reward: for being at the target, and for being nearer to it than before
MASSES: Final = {1: 1, 2: 2, 3: 4, 4: 6}
MOTORS: Final = {1: 1, 2: 1, 3: 2, 4: 3}
LONGEST_DELAY: Final = {1: 1, 2: 2, 3: 3, 4: 4}
WIDTH: Final = 360
HEIGHT: Final = 240
PAPER: Final = (250, 250, 247)
GROUND: Final = (226, 224, 214)
SPRING: Final = (150, 150, 145)
TARGET: Final = (214, 84, 61)
INK: Final = (40, 40, 40)
GAUGE: Final = 40.0  # pixels below the hills

Vector = np.ndarray[Any, np.dtype[np.float64]]


class Goal(StrEnum):
    """The task of the driven mixture of positions."""

    REGULATE = "regulate"
    TRACK = "track"
    SWING = "swing"


@dataclass(frozen=True)
class System:
    """The constants of a drawn system. ``pull`` is the matrix of the springs, divided by the masses; potentials are
    ``well * sin(wave * position)``; ``push`` maps motor commands to accelerations."""

    pull: Vector
    well: Vector
    wave: Vector
    friction: Vector
    push: Vector
    delay: int
    driven: Vector
    target: float
    width: float
    goal: Goal
    rhythm: Vector
    start: Vector
    spread: float

    @cached_property
    def linear(self) -> Vector:
        """The linear part of the accelerations: its rows belong to positions, velocities, the target and commands."""
        nothing = np.zeros((1, len(self.start)))
        return np.concatenate((self.pull, -np.diag(self.friction), nothing, self.push))

    def wanted(self, step: int) -> float:
        """Return where the driven mixture should be after ``step`` steps."""
        if self.goal is not Goal.TRACK:
            return self.target
        slow, fast, phase = self.rhythm
        return self.target * (math.sin(slow * step + phase) + 0.5 * math.sin(fast * step))


class Motion:
    """Positions and velocities of a system, one state or many in rows, which are advanced in place. ``state`` has a
    whole state in one vector, so that its accelerations are one product; the rest is done on arrays without gaps."""

    def __init__(self, system: System, rows: tuple[int, ...] = ()) -> None:
        masses, self._system = len(system.start), system
        shape = (*rows, masses)
        self.position, self.velocity = np.zeros(shape), np.zeros(shape)
        self.state = np.zeros((*rows, len(system.linear)))
        self.measured, self.command = self.state[..., : 2 * masses + 1], self.state[..., 2 * masses + 1 :]
        self._place, self._speed = self.state[..., :masses], self.state[..., masses : 2 * masses]
        self._wave, self._well = np.tile(system.wave, (*rows, 1)), np.tile(system.well, (*rows, 1))
        self._force, self._change = np.zeros(shape), np.zeros(shape)

    def begin(self, position: Any, velocity: Any) -> None:
        """Begin with these states, without a command."""
        self.position[:], self.velocity[:] = position, velocity
        self.state[:] = 0.0
        self._place[:], self._speed[:] = self.position, self.velocity

    def advance(self) -> None:
        """Move by one step under the command."""
        position, velocity, force, change = self.position, self.velocity, self._force, self._change
        np.matmul(self.state, self._system.linear, out=force)
        np.multiply(position, self._wave, out=change)
        np.sin(change, out=change)
        change *= self._well
        force += change
        force *= STEP_S
        velocity += force
        np.multiply(velocity, STEP_S, out=change)
        position += change
        self._place[:], self._speed[:] = position, velocity


@dataclass(frozen=True)
class ControlWorld:
    """A drawn system with its sensors."""

    system: System
    sensors: Vector
    offset: Vector
    colour: Colour
    horizon: int = HORIZON
    failure_return: float = 0.0

    def make(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        return ControlEnv(self, render_mode)

    def expert(self, env: Any) -> Act:
        plan = self.experts([env])
        return lambda _: plan()[0]

    def experts(self, envs: Sequence[Any]) -> Callable[[], Sequence[Any]]:
        return Planner(self.system, envs).act

    def texts(self) -> dict[str, Any]:
        system, masses = self.system, len(self.system.start)
        higher = "Every step gives between 0 and 1. A higher return is better."
        reward = (
            f"{CLOSE} * exp(-(e / {system.width:.6g})^2 / 2) + {FAR} / (1 + e^2) with e = s - w, where s is the scalar "
            f"product of the positions with {_numbers(system.driven)} and w is where it should be: "
            f"{self._wanted_text()}."
        )
        dynamics = (
            f"{masses} masses with positions q and velocities v. One step of {STEP_S} s: first v += {STEP_S} * a, then "
            f"q += {STEP_S} * v, with a = q @ P + h * sin(k * q) - c * v + u @ B, where u is the action of "
            f"{system.delay} steps before (0 at first).\n"
            f"P = {_rows(system.pull)}\nh = {_numbers(system.well)}\nk = {_numbers(system.wave)}\n"
            f"c = {_numbers(system.friction)}\nB = {_rows(system.push)}\n"
            f"The observation is concatenate(q, v, [w]) @ S + o.\n"
            f"S = {_rows(self.sensors)}\no = {_numbers(self.offset)}"
        )
        return {
            "title": "A machine with motors and sensors",
            "objective": "Drive the machine so that the sum of its rewards is as high as possible.",
            "observation_notes": "Readings of the machine's sensors.",
            "action_notes": "Commands to the machine's motors.",
            "reward": f"{higher} {reward}",
            "brief": BriefText(
                "Drive the machine so that the sum of its rewards is as high as possible.",
                "Readings of the machine's sensors.",
                "Commands to the machine's motors.",
                "Every step gives between 0 and 1, and a higher return is better.",
            ),
            "termination": f"An episode has {self.horizon} steps.",
            "start": f"Near q = {_numbers(system.start)}, at rest, with a deviation of {system.spread:.6g}.",
            "dynamics": dynamics,
        }

    def _wanted_text(self) -> str:
        system = self.system
        if system.goal is not Goal.TRACK:
            return f"{system.target:.6g}"
        slow, fast, phase = (f"{value:.6g}" for value in system.rhythm)
        return f"{system.target:.6g} * (sin({slow} t + {phase}) + 0.5 sin({fast} t)) at step t"


class ControlEnv(gymnasium.Env[Any, Any]):
    """The environment of a drawn system."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, world: ControlWorld, render_mode: str | None = None) -> None:
        self.world, self.render_mode = world, render_mode
        readings, motors = world.sensors.shape[1], len(world.system.push)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (readings,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (motors,), np.float32)
        self.motion = Motion(world.system)
        self.waiting: list[Vector] = []
        self.steps = 0
        self.observes = True
        self._readings = np.zeros(readings)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        system = self.world.system
        self.motion.begin(system.start + system.spread * self.np_random.standard_normal(len(system.start)), 0.0)
        self.waiting = [np.zeros(len(system.push))] * system.delay
        self.steps = 0
        return self._observation(system.wanted(0)) if self.observes else None, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        system, motion = self.world.system, self.motion
        self.waiting.append(np.array(action, np.float64))
        motion.command[:] = self.waiting.pop(0)
        motion.advance()
        self.steps += 1
        wanted = system.wanted(self.steps)
        error = float(motion.position.dot(system.driven)) - wanted
        reward = CLOSE * math.exp(-0.5 * (error / system.width) ** 2) + FAR / (1.0 + error * error)
        observation = self._observation(wanted) if self.observes else None
        return observation, reward, False, self.steps >= self.world.horizon, {}

    def _observation(self, wanted: float) -> Any:
        measured = self.motion.measured
        measured[-1] = wanted
        np.dot(measured, self.world.sensors, out=self._readings)
        self._readings += self.world.offset
        return self._readings.astype(np.float32)

    def render(self) -> Any:
        return control_picture(self.world.system, self.motion.position, self.steps, self.world.colour)


class Planner:
    """Model-predictive control on the true system: improves a plan by sampling around it, widely and closely, at every
    step. It plays several environments side by side, with the same noise for each: numpy is called once for all."""

    PLANS, STEPS, KEPT, SPREADS = 160, 30, 8, (0.6, 0.15)

    def __init__(self, system: System, envs: Sequence[ControlEnv]) -> None:
        self._system, self._envs = system, envs
        self._generator = np.random.default_rng(0)
        self._plans = np.zeros((len(envs), self.STEPS, len(system.push)))  # the best one of each environment
        self._motion = Motion(system, (len(envs), self.PLANS))
        self._spread = np.resize(self.SPREADS, (self.PLANS, 1, 1))

    def act(self) -> list[Any]:
        """Return the next action in each environment."""
        noise = self._spread * self._generator.standard_normal((self.PLANS, *self._plans.shape[1:]))
        noise[:, 1:] = 0.6 * noise[:, 1:] + 0.4 * noise[:, :-1]
        noise[0] = 0.0
        samples = self._plans.swapaxes(0, 1)[:, :, None] + noise.swapaxes(0, 1)[:, None]  # by step, which is fastest
        np.minimum(np.maximum(samples, -1.0, out=samples), 1.0, out=samples)
        for plan, values, tried in zip(self._plans, self._values(samples), samples.swapaxes(0, 1), strict=True):
            best = np.argsort(values)[-self.KEPT :]
            weights = np.exp(values[best] - values[best[-1]])
            plan[:] = np.tensordot(weights / weights.sum(), tried[:, best].swapaxes(0, 1), 1)
        actions = list(self._plans[:, 0].astype(np.float32))
        self._plans[:, :-1] = self._plans[:, 1:]
        return actions

    def _values(self, samples: Vector) -> Vector:
        """Return the rewards of samples, (steps, environments, plans, motors), by environment and plan."""
        system, motion, delay, now = self._system, self._motion, self._system.delay, self._envs[0].steps
        states = np.array([(env.motion.position, env.motion.velocity) for env in self._envs])[:, :, None]
        motion.begin(states[:, 0], states[:, 1])
        waiting = np.array([env.waiting for env in self._envs])[:, :, None]
        errors = np.empty(samples.shape[:3])
        for step in range(self.STEPS + delay):
            ahead = step - delay
            motion.command[:] = waiting[:, step] if ahead < 0 else samples[ahead]
            motion.advance()
            if ahead >= 0:
                np.matmul(motion.position, system.driven, out=errors[ahead])
                errors[ahead] -= system.wanted(now + step + 1)
        rewards = CLOSE * np.exp(-0.5 * (errors / system.width) ** 2) + FAR / (1.0 + errors * errors)
        return np.asarray(rewards.sum(axis=0))


def draw(generator: np.random.Generator, level: int) -> ControlWorld:
    """Draw a system of a level, and its sensors."""
    masses, motors = MASSES[level], MOTORS[level]
    uniform = generator.uniform
    goal = [Goal.REGULATE, Goal.TRACK, Goal.SWING][generator.integers(3)]
    driven = _direction(generator, masses)
    wave = uniform(0.6, 1.6, masses)
    target = uniform(0.8, 2.0) * generator.choice((-1.0, 1.0))
    system = System(
        pull=_springs(generator, masses),
        well=uniform(0.5, 2.5, masses) * generator.choice((-1.0, 1.0), masses),
        wave=wave,
        friction=uniform(0.02, 0.25, masses),
        push=_motors(generator, motors, masses),
        delay=int(generator.integers(0, LONGEST_DELAY[level] + 1)),
        driven=driven,
        target=target * (1.8 if goal is Goal.SWING else 1.0),
        width=uniform(0.12, 0.25),
        goal=goal,
        rhythm=np.array((uniform(0.02, 0.06), uniform(0.08, 0.16), uniform(0.0, 6.28))),
        start=uniform(-0.5, 0.5, masses),
        spread=uniform(0.1, 0.3),
    )
    sensors = generator.permutation(_sensors(generator, masses, level), axis=1)
    offset = np.asarray(uniform(-0.5, 0.5, sensors.shape[1]))
    red, green, blue = (int(shade) for shade in generator.permutation((40, int(generator.integers(60, 150)), 190)))
    return ControlWorld(system, sensors, offset, (red, green, blue))


def _direction(generator: np.random.Generator, size: int) -> Vector:
    vector = generator.standard_normal(size)
    return np.asarray(vector / np.linalg.norm(vector))


def _springs(generator: np.random.Generator, masses: int) -> Vector:
    """Return the pull between neighbours, which form a line or a ring, and of each mass to its place."""
    pull = -np.diag(generator.uniform(0.0, 0.6, masses))
    pairs = [(k, k + 1) for k in range(masses - 1)]
    if masses > 2 and generator.random() < 0.5:
        pairs.append((masses - 1, 0))
    for a, b in pairs:
        stiffness = generator.uniform(0.3, 2.5)
        pull[a, a] -= stiffness
        pull[b, b] -= stiffness
        pull[a, b] += stiffness
        pull[b, a] += stiffness
    return pull / generator.uniform(0.5, 2.0, masses)


def _motors(generator: np.random.Generator, motors: int, masses: int) -> Vector:
    push = generator.standard_normal((motors, masses)) * (generator.random((motors, masses)) < 0.7)
    for motor in range(motors):  # every motor pushes something
        push[motor, generator.integers(masses)] += generator.choice((-1.0, 1.0))
    return np.asarray(push * generator.uniform(1.5, 4.0))


def _sensors(generator: np.random.Generator, masses: int, level: int) -> Vector:
    """Return the mixtures that the sensors measure, as columns: of positions, of velocities (fewer at higher levels),
    and where the driven mixture should be."""
    size = 2 * masses + 1
    sensors = np.zeros((size, size))
    kept = generator.random(masses) < {1: 1.0, 2: 0.7, 3: 0.5, 4: 0.4}[level]
    for column in range(masses):
        sensors[:masses, column] = _direction(generator, masses)
        sensors[masses : 2 * masses, masses + column] = _direction(generator, masses) * kept[column]
    sensors[-1, -1] = 1.0
    return np.asarray(sensors * generator.choice((-1.0, 1.0), size) * 2.0 ** generator.integers(-1, 3, size))


def _numbers(values: Any) -> str:
    return "[" + ", ".join(f"{float(value) + 0.0:.6g}" for value in values) + "]"  # + 0.0: no "-0"


def _rows(matrix: Any) -> str:
    return "[" + ", ".join(_numbers(row) for row in matrix) + "]"


@dataclass(frozen=True)
class Hill:
    """The potential of one mass in the picture, below ``top`` and ``size`` high. It shows places from -``reach`` to
    ``reach``, and a mass beyond them at the edge."""

    well: float
    wave: float
    top: float
    size: float
    reach: float

    def place(self, x: float) -> float:
        return (x - WIDTH / 2) * self.reach / (WIDTH / 2)

    def x(self, place: float) -> float:
        return WIDTH / 2 * (1.0 + max(-0.96, min(0.96, place / self.reach)))

    def y(self, place: float) -> float:
        depth = 0.5 - 0.5 * math.copysign(1.0, self.well) * math.cos(self.wave * place)
        return self.top + self.size * (0.45 + 0.5 * depth)


def control_picture(system: System, position: Any, step: int, colour: Colour) -> Any:
    """Draw each mass as a ball on the hills of its potential; on the gauge a red disc where the driven mixture of
    positions should be, and a dark one where it is."""
    canvas, reach = Canvas(WIDTH, HEIGHT, PAPER), 2.0 + 1.5 * abs(system.target)
    row = (HEIGHT - GAUGE) / len(position)
    hills = [
        Hill(float(well), float(wave), row * number, row, reach)
        for number, (well, wave) in enumerate(zip(system.well, system.wave, strict=True))
    ]
    for hill in hills:
        for column in range(WIDTH):
            surface = hill.y(hill.place(column))
            canvas.rectangle((column, surface), 1, hill.top + row - surface, GROUND)
    radius = min(12.0, 0.22 * row)
    places = [float(place) for place in position]
    balls = [(hill.x(place), hill.y(place) - radius) for hill, place in zip(hills, places, strict=True)]
    for first, second in itertools.pairwise(balls):
        canvas.line(first, second, SPRING, 1.5)
    for x, y in balls:
        canvas.disc((x, y), radius, colour)
        canvas.disc((x - 0.3 * radius, y - 0.3 * radius), 0.3 * radius, PAPER)
    middle = HEIGHT - GAUGE / 2
    canvas.rectangle((20, middle - 3), WIDTH - 40, 6, GROUND)
    for value, shade, size in ((system.wanted(step), TARGET, 10.0), (float(position @ system.driven), INK, 5.0)):
        canvas.disc((WIDTH / 2 + (WIDTH / 2 - 30) * math.tanh(value / reach), middle), size, shade)
    return canvas.pixels()
