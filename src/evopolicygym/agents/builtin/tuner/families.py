"""Families of controllers: each maps a vector of numbers of about unit size to a policy, and has starting points.

The docstring of a family lists what its numbers mean, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from ..evaluator import Spaces, TunerPolicy
from ..policies.features import Vector
from .dynamics import Dynamics, Indices, Jacobian

LARGEST_LINEAR: Final = 120  # numbers; with more of them, a random subset of the entries does better
SWITCH: Final = 3.0  # a weight so large that the feedback is almost an on-off switch
FREQUENCIES: Final = (0.02, 0.25)  # cycles per step


@dataclass(frozen=True)
class Family:
    """A family. ``starts`` are the starting points, the most promising first; ``sigma`` is the initial step size of the
    search."""

    name: str
    build: Callable[[Vector], TunerPolicy]
    starts: list[Vector]
    sigma: float = 0.3


def families(spaces: Spaces, dynamics: Dynamics, random: Generator) -> list[Family]:
    """Return the families that fit the task. The last ones assume the least about it."""
    return [
        *_reach(dynamics),
        *_swing(spaces, dynamics),
        _oscillator(spaces, dynamics, random),
        _linear(spaces, dynamics, random),
        noise(spaces),
    ]


def noise(spaces: Spaces) -> Family:
    """Return random actions around a fixed one. Numbers: bias of each control, logarithm of the spread."""
    size = spaces.controls

    def build(numbers: Vector) -> TunerPolicy:
        spread = float(np.exp(np.clip(numbers[size], -20.0, 2.0)))
        return TunerPolicy("noise", {"bias": numbers[:size].tolist(), "spread": spread, "hold": 1})

    return Family("noise", build, [np.append(np.zeros(size), np.log(spread)) for spread in (1.0, 0.3)])


def constant(spaces: Spaces) -> TunerPolicy:
    """Return the policy that always answers with controls of zero."""
    return TunerPolicy("noise", {"bias": [0.0] * spaces.controls, "spread": 0.0, "hold": 1})


def _swing(spaces: Spaces, dynamics: Dynamics) -> Iterator[Family]:
    """Yield families that push along with a velocity or against it, as one pumps or stops a swing."""
    own = dynamics.own_velocities()
    if spaces.is_choice or len(dynamics.live) == 1:
        yield from (_switch(dynamics, *option) for option in _pairs(spaces, dynamics))
    elif len(own):
        yield _joints(spaces, dynamics, own)


def _pairs(spaces: Spaces, dynamics: Dynamics) -> list[tuple[Vector, int]]:
    """Return directions to push, each with the velocity that decides the sign, the strongest effect first.

    A direction leads from one discrete action to another, or from one end of a single control to the other.
    """
    units = _live_units(spaces, dynamics).T
    ways = [second - first for first, second in combinations(units, 2)] if spaces.is_choice else list(units)
    ranked = [
        (abs(float(dynamics.effect[v] @ way)), number, v)
        for number, way in enumerate(ways)
        for v in dynamics.velocities
    ]
    return [(ways[number], int(v)) for _, number, v in sorted(ranked, reverse=True)]


def _live_units(spaces: Spaces, dynamics: Dynamics) -> Vector:
    """Return the matrix from live controls to all controls: the others are zero."""
    return np.eye(spaces.controls)[:, dynamics.live]


def _switch(dynamics: Dynamics, way: Vector, velocity: int) -> Family:
    """Return pushes by the sign of a velocity. Numbers: logarithm of the push, bias, weights of entries (velocity
    first)."""
    others = [int(i) for i in dynamics.moving if i != velocity][:12]
    used = np.array([velocity, *others])

    def build(numbers: Vector) -> TunerPolicy:
        size = float(np.exp(np.clip(numbers[0], -5.0, 0.0)))
        weights, bias = numbers[None, 2:], numbers[1:2]
        return _feedback(dynamics, used, weights, bias, size * way[:, None], np.zeros(len(way)))

    starts = [np.array([0.0, 0.0, sign * SWITCH, *np.zeros(len(others))]) for sign in (1.0, -1.0)]
    return Family(f"switch-{velocity}", build, starts, 0.5)


def _joints(spaces: Spaces, dynamics: Dynamics, own: Indices) -> Family:
    """Return pushes of each joint by its own velocity. Numbers for each live control: push, offset, weight."""
    size, units = len(own), _live_units(spaces, dynamics)

    def build(numbers: Vector) -> TunerPolicy:
        push, offset, weight = numbers.reshape(3, size)
        return _feedback(dynamics, own, np.diag(weight), np.zeros(size), units * push, units @ offset)

    starts = [np.concatenate([np.full(size, push), np.zeros(size), np.ones(size)]) for push in (0.7, -0.3)]
    return Family("joints", build, starts, 0.3)


def _linear(spaces: Spaces, dynamics: Dynamics, random: Generator) -> Family:
    """Return linear controllers. Numbers: bias of each live control, then the weights of each for the entries that
    move."""
    size, units = len(dynamics.live), _live_units(spaces, dynamics)
    most = max(2, LARGEST_LINEAR // size)
    used = (
        dynamics.moving
        if len(dynamics.moving) <= most
        else np.sort(random.choice(dynamics.moving, most, replace=False))
    )

    def build(numbers: Vector) -> TunerPolicy:
        weights = numbers[size:].reshape(size, len(used)) / np.sqrt(max(1, len(used)))
        return _feedback(dynamics, used, weights, numbers[:size], units, np.zeros(spaces.controls))

    starts = [random.normal(size=size * (len(used) + 1)) * 0.7 for _ in range(4)]
    return Family("linear", build, starts)


def _feedback(
    dynamics: Dynamics, used: Indices, weights: Vector, bias: Vector, mixing: Vector, offset: Vector
) -> TunerPolicy:
    """Return a feedback policy. Velocities are compared with zero, other entries with their mean."""
    mean = np.where(np.isin(used, dynamics.velocities), 0.0, dynamics.mean[used])
    numbers = {"mean": mean, "scale": dynamics.scale[used], "weights": weights, "bias": bias}
    return TunerPolicy("feedback", _to_json(numbers | {"used": used, "mixing": mixing, "offset": offset}))


def _oscillator(spaces: Spaces, dynamics: Dynamics, random: Generator) -> Family:
    """Return rhythms of one frequency. Numbers: its logarithm, then sine, cosine and offset of each live control."""
    size, units = len(dynamics.live), _live_units(spaces, dynamics)

    def build(numbers: Vector) -> TunerPolicy:
        sine, cosine, offset = numbers[1:].reshape(3, size) @ units.T
        frequency = float(np.exp(np.clip(numbers[0], np.log(FREQUENCIES[0]) - 1.0, np.log(0.5))))
        return TunerPolicy(
            "oscillator", _to_json({"frequency": frequency, "sine": sine, "cosine": cosine, "offset": offset})
        )

    return Family("oscillator", build, [_random_oscillation(size, random) for _ in range(24)], 0.15)


def _random_oscillation(size: int, random: Generator) -> Vector:
    """Return numbers with a random frequency, and a random phase, amplitude and offset of each control."""
    phase = random.uniform(0.0, 2.0 * np.pi, size)
    strength = random.uniform(0.5, 1.0, size)
    start = np.log(random.uniform(*FREQUENCIES))
    return np.concatenate([[start], strength * np.cos(phase), strength * np.sin(phase), random.normal(size=size) * 0.2])


def _reach(dynamics: Dynamics) -> Iterator[Family]:
    """Yield controllers that drive an error to zero. Numbers, all logarithms: damping, speed limit, then rate and gain
    of each control."""
    for number, jacobian in enumerate(dynamics.jacobians()):
        yield Family(f"reach-{number}", _reach_build(dynamics, jacobian), _reach_starts(jacobian), 0.4)


def _reach_build(dynamics: Dynamics, jacobian: Jacobian) -> Callable[[Vector], TunerPolicy]:
    fixed = {"error": jacobian.error, "velocity": jacobian.velocity, "basis": jacobian.basis, "push": jacobian.push}
    fixed |= {"jacobian": jacobian.coefficients, "live": dynamics.live}
    size = len(jacobian.push)

    def build(numbers: Vector) -> TunerPolicy:
        damping = 0.05 * float(np.exp(np.clip(numbers[0], -7.0, 5.0)))
        limit = 3.0 * float(np.exp(np.clip(numbers[1], -5.0, 3.0)))
        rate, gain = np.exp(np.clip(numbers[2:], -5.0, 3.0)).reshape(2, size) * np.array([[0.1], [0.3]])
        tuned = {"damping": damping, "limit": limit, "rate": rate, "gain": gain}
        return TunerPolicy("reach", _to_json(fixed | tuned))

    return build


def _reach_starts(jacobian: Jacobian) -> list[Vector]:
    size = len(jacobian.push)
    return [np.array([1.0, 0.0, *[rate] * size, *[0.0] * size]) for rate in (0.0, 0.5, -0.7)]


def _to_json(settings: dict[str, Any]) -> dict[str, Any]:
    """Convert arrays to lists, and round numbers to seven digits."""
    return {name: _rounded(value) for name, value in settings.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_rounded(item) for item in value.tolist()]
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value
