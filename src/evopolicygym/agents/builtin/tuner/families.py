"""Families of controllers, each with its numbers as one vector of about unit size, and with points to start from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from .dynamics import Dynamics, Indices, Jacobian
from .evaluator import Candidate
from .policies.features import Vector
from .spaces import Spaces

LARGEST_LINEAR: Final = 120  # numbers; beyond it chance directions in fewer entries do better
SWITCH: Final = 3.0  # a weight at which the feedback all but switches
FREQUENCIES: Final = (0.02, 0.25)  # cycles per step


@dataclass(frozen=True)
class Family:
    """``starts`` are worth an episode each, the most promising first; ``sigma`` is the first step of the search."""

    name: str
    build: Callable[[Vector], Candidate]
    starts: list[Vector]
    sigma: float = 0.3


def families(spaces: Spaces, dynamics: Dynamics, random: Generator) -> list[Family]:
    found = [
        *_reach(dynamics),
        *_swing(spaces, dynamics),
        _oscillator(spaces, random),
        _linear(spaces, dynamics, random),
    ]
    return [*found, noise(spaces)]


def noise(spaces: Spaces) -> Family:
    """Numbers: bias of each control, logarithm of the spread."""
    size = spaces.controls

    def build(numbers: Vector) -> Candidate:
        spread = float(np.exp(np.clip(numbers[size], -20.0, 2.0)))
        return Candidate("noise", {"bias": numbers[:size].tolist(), "spread": spread, "hold": 1})

    return Family("noise", build, [np.append(np.zeros(size), np.log(spread)) for spread in (1.0, 0.3)])


def constant(spaces: Spaces) -> Candidate:
    return Candidate("noise", {"bias": [0.0] * spaces.controls, "spread": 0.0, "hold": 1})


def _swing(spaces: Spaces, dynamics: Dynamics) -> Iterator[Family]:
    """Push along with a motion or against it: what pumps a swing, or calms it."""
    own = dynamics.own_velocities()
    if spaces.is_choice or spaces.controls == 1:
        yield from (_switch(dynamics, *option) for option in _pairs(spaces, dynamics))
    elif len(own):
        yield _joints(dynamics, own)


def _pairs(spaces: Spaces, dynamics: Dynamics) -> list[tuple[Vector, int]]:
    """Which way to push, by which velocity: two choices or the two ends of one control; the strongest effect first."""
    size = spaces.controls
    ways = [np.eye(size)[j] - np.eye(size)[i] for i in range(size) for j in range(i + 1, size)] or [np.ones(1)]
    ranked = [
        (abs(float(dynamics.effect[v] @ way)), number, v)
        for number, way in enumerate(ways)
        for v in dynamics.velocities
    ]
    return [(ways[number], int(v)) for _, number, v in sorted(ranked, reverse=True)]


def _switch(dynamics: Dynamics, way: Vector, velocity: int) -> Family:
    """Numbers: logarithm of the size of the push, bias, weight of each entry (the velocity first)."""
    others = [int(i) for i in dynamics.moving if i != velocity][:12]
    used = np.array([velocity, *others])

    def build(numbers: Vector) -> Candidate:
        size = float(np.exp(np.clip(numbers[0], -5.0, 0.0)))
        weights, bias = numbers[None, 2:], numbers[1:2]
        return _feedback(dynamics, used, weights, bias, size * way[:, None], np.zeros(len(way)))

    starts = [np.array([0.0, 0.0, sign * SWITCH, *np.zeros(len(others))]) for sign in (1.0, -1.0)]
    return Family(f"switch-{velocity}", build, starts, 0.5)


def _joints(dynamics: Dynamics, own: Indices) -> Family:
    """Numbers for each control: push along with its own velocity, offset, weight."""
    size = len(own)

    def build(numbers: Vector) -> Candidate:
        push, offset, weight = numbers.reshape(3, size)
        return _feedback(dynamics, own, np.diag(weight), np.zeros(size), np.diag(push), offset)

    starts = [np.concatenate([np.full(size, push), np.zeros(size), np.ones(size)]) for push in (0.7, -0.3)]
    return Family("joints", build, starts, 0.3)


def _linear(spaces: Spaces, dynamics: Dynamics, random: Generator) -> Family:
    """Numbers: bias of each control, then its weights of the entries that move."""
    size = spaces.controls
    room = max(2, LARGEST_LINEAR // size)
    used = (
        dynamics.moving
        if len(dynamics.moving) <= room
        else np.sort(random.choice(dynamics.moving, room, replace=False))
    )

    def build(numbers: Vector) -> Candidate:
        weights = numbers[size:].reshape(size, len(used)) / np.sqrt(max(1, len(used)))
        return _feedback(dynamics, used, weights, numbers[:size], np.eye(size), np.zeros(size))

    starts = [random.normal(size=size * (len(used) + 1)) * 0.7 for _ in range(4)]
    return Family("linear", build, starts)


def _feedback(
    dynamics: Dynamics, used: Indices, weights: Vector, bias: Vector, mixing: Vector, offset: Vector
) -> Candidate:
    """Velocities are compared with zero, all else with its mean."""
    mean = np.where(np.isin(used, dynamics.velocities), 0.0, dynamics.mean[used])
    numbers = {"mean": mean, "scale": dynamics.scale[used], "weights": weights, "bias": bias}
    return Candidate("feedback", _plain(numbers | {"used": used, "mixing": mixing, "offset": offset}))


def _oscillator(spaces: Spaces, random: Generator) -> Family:
    """Numbers: logarithm of the frequency, then sine, cosine and offset of each control."""
    size = spaces.controls

    def build(numbers: Vector) -> Candidate:
        sine, cosine, offset = numbers[1:].reshape(3, size)
        frequency = float(np.exp(np.clip(numbers[0], np.log(FREQUENCIES[0]) - 1.0, np.log(0.5))))
        return Candidate(
            "oscillator", _plain({"frequency": frequency, "sine": sine, "cosine": cosine, "offset": offset})
        )

    return Family("oscillator", build, [_rhythm(size, random) for _ in range(24)], 0.15)


def _rhythm(size: int, random: Generator) -> Vector:
    phase = random.uniform(0.0, 2.0 * np.pi, size)
    strength = random.uniform(0.5, 1.0, size)
    start = np.log(random.uniform(*FREQUENCIES))
    return np.concatenate([[start], strength * np.cos(phase), strength * np.sin(phase), random.normal(size=size) * 0.2])


def _reach(dynamics: Dynamics) -> Iterator[Family]:
    """Numbers, all logarithms: damping, speed limit, then rate and gain of each control."""
    for number, jacobian in enumerate(dynamics.jacobians()):
        yield Family(f"reach-{number}", _reacher(jacobian), _reach_starts(jacobian), 0.4)


def _reacher(jacobian: Jacobian) -> Callable[[Vector], Candidate]:
    fixed = {"error": jacobian.error, "velocity": jacobian.velocity, "basis": jacobian.basis, "push": jacobian.push}
    fixed["jacobian"] = jacobian.coefficients
    size = len(jacobian.push)

    def build(numbers: Vector) -> Candidate:
        damping = 0.05 * float(np.exp(np.clip(numbers[0], -7.0, 5.0)))
        limit = 3.0 * float(np.exp(np.clip(numbers[1], -5.0, 3.0)))
        rate, gain = np.exp(np.clip(numbers[2:], -5.0, 3.0)).reshape(2, size) * np.array([[0.1], [0.3]])
        tuned = {"damping": damping, "limit": limit, "rate": rate, "gain": gain}
        return Candidate("reach", _plain(fixed | tuned))

    return build


def _reach_starts(jacobian: Jacobian) -> list[Vector]:
    size = len(jacobian.push)
    return [np.array([1.0, 0.0, *[rate] * size, *[0.0] * size]) for rate in (0.0, 0.5, -0.7)]


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """JSON, with numbers short enough to read."""
    return {name: _short(value) for name, value in settings.items()}


def _short(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_short(item) for item in value.tolist()]
    if isinstance(value, list):
        return [_short(item) for item in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value
