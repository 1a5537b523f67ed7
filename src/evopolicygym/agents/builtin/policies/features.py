"""Observations as one vector of numbers, and actions from one vector of controls, for any spaces.

A control is a number from -1 to 1 for each entry of a Box, and a score for each choice of a Discrete (the highest
score is taken).
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class Resolution(NamedTuple):
    """Arrays with more entries than ``largest`` are images, and are seen as ``blocks`` x ``blocks`` means."""

    largest: int
    blocks: int


COARSE = Resolution(128, 4)
FINE = Resolution(512, 8)


def entries(space: dict[str, Any], observation: Any, resolution: Resolution = COARSE) -> Vector:
    """The observation as a vector. Goals get their difference on top: what is still to be done."""
    match space["type"]:
        case "Dict":
            parts = [entries(child, observation[key], resolution) for key, child in space["spaces"].items()]
            if has_goals(space):
                goals = [np.ravel(observation[key]).astype(float) for key in ("achieved_goal", "desired_goal")]
                parts.append(goals[0] - goals[1])
            return np.concatenate(parts)
        case "Tuple":
            return np.concatenate(
                [entries(child, one, resolution) for child, one in zip(space["spaces"], observation, strict=True)]
            )
        case "Discrete":
            choice = int(observation) - space["start"]
            return np.eye(space["n"])[choice] if space["n"] <= resolution.largest else np.array([choice / space["n"]])
        case "Text":
            return np.zeros(0)
    array = np.asarray(observation, dtype=float)
    return array.ravel() if array.size <= resolution.largest else blocks(array, resolution.blocks)


def entry_kinds(space: dict[str, Any]) -> list[str]:
    """Kind of each of the ``entries``: a ``number``, a ``choice`` among several, a ``block`` of an image, or an
    ``error`` (achieved less desired goal)."""
    match space["type"]:
        case "Dict":
            kinds = [kind for child in space["spaces"].values() for kind in entry_kinds(child)]
            size = math.prod(space["spaces"]["desired_goal"]["shape"]) if has_goals(space) else 0
            return kinds + ["error"] * size
        case "Tuple":
            return [kind for child in space["spaces"] for kind in entry_kinds(child)]
        case "Discrete":
            return ["choice"] * (space["n"] if space["n"] <= COARSE.largest else 1)
        case "Text":
            return []
    size = math.prod(space["shape"])
    return ["block"] * blocks(np.zeros(space["shape"])).size if size > COARSE.largest else ["number"] * size


def has_goals(space: dict[str, Any]) -> bool:
    """Gymnasium's convention for tasks with goals."""
    keys = space["spaces"]
    return {"achieved_goal", "desired_goal"} <= set(keys) and keys["achieved_goal"]["type"] == "Box"


def blocks(image: Vector, count: int = COARSE.blocks) -> Vector:
    """Mean of each of count x count blocks of a picture, per channel, scaled to about 1; other large arrays in as many
    parts."""
    if image.ndim < 2:
        return np.array([part.mean() for part in np.array_split(image.ravel(), count * count)])
    rows, columns, area = block_layout(image.shape, count)
    sums = np.add.reduceat(np.add.reduceat(image, rows, 0), columns, 1)
    return np.ravel(sums / area) / 255.0


@cache
def block_layout(shape: tuple[int, ...], count: int) -> tuple[list[int], list[int], Vector]:
    """The first row and the first column of each block of a picture, and the number of pixels in each block."""
    firsts, sizes = [], []
    for length in shape[:2]:
        parts = np.array_split(np.arange(length), min(count, length))
        firsts.append([int(part[0]) for part in parts])
        sizes.append(np.array([len(part) for part in parts], dtype=float))
    area = np.outer(*sizes)
    return firsts[0], firsts[1], area.reshape(area.shape + (1,) * (len(shape) - 2))


def width(space: dict[str, Any]) -> int:
    """How many controls an action takes."""
    match space["type"]:
        case "Dict":
            return sum(width(child) for child in space["spaces"].values())
        case "Tuple":
            return sum(width(child) for child in space["spaces"])
        case "Discrete":
            return int(space["n"])
        case "MultiDiscrete":
            return int(np.sum(space["nvec"]))
    return math.prod(space["shape"])


def action_maker(space: dict[str, Any]) -> Callable[[Vector], Any]:
    """Return a function from controls to the action that they stand for. What depends on the space alone is computed
    once: in every step, it took longer than the step of a MuJoCo environment. For a Box, an array of controls gives an
    array of actions."""
    match space["type"]:
        case "Dict":
            makers = {key: action_maker(child) for key, child in space["spaces"].items()}
            ends = part_ends(space["spaces"].values())
            return lambda controls: {
                key: make(part) for (key, make), part in zip(makers.items(), np.split(controls, ends), strict=True)
            }
        case "Tuple":
            children, ends = [action_maker(child) for child in space["spaces"]], part_ends(space["spaces"])
            return lambda controls: tuple(
                make(part) for make, part in zip(children, np.split(controls, ends), strict=True)
            )
        case "Discrete":
            start = space["start"]
            return lambda controls: int(start + np.argmax(controls))
        case "MultiDiscrete":
            first, ends = np.asarray(space["start"]), np.cumsum(np.ravel(space["nvec"]))[:-1]
            return lambda controls: (
                first + np.array([np.argmax(part) for part in np.split(controls, ends)]).reshape(space["shape"])
            ).astype(space["dtype"])
        case "MultiBinary":
            return lambda controls: (controls > 0.0).astype(space["dtype"]).reshape(space["shape"])
    centre, half = middle(space)
    shape, dtype = tuple(space["shape"]), np.dtype(space["dtype"])

    def make(controls: Vector) -> Any:
        bounded = np.minimum(np.maximum(controls, -1.0), 1.0)
        return (centre + half * bounded.reshape(controls.shape[:-1] + shape)).astype(dtype)

    return make


def controls_of(space: dict[str, Any], taken: Any) -> Vector:
    """The other way round: controls of an action that was taken."""
    match space["type"]:
        case "Dict":
            return np.concatenate([controls_of(child, taken[key]) for key, child in space["spaces"].items()])
        case "Tuple":
            return np.concatenate([controls_of(child, one) for child, one in zip(space["spaces"], taken, strict=True)])
        case "Discrete":
            return np.asarray(np.arange(space["n"]) == int(taken) - space["start"], dtype=float)
        case "MultiDiscrete":
            chosen = np.ravel(np.asarray(taken) - np.asarray(space["start"]))
            return np.concatenate([np.eye(n)[one] for n, one in zip(np.ravel(space["nvec"]), chosen, strict=True)])
        case "MultiBinary":
            return 2.0 * np.ravel(taken) - 1.0
    centre, half = middle(space)
    return np.ravel((np.asarray(taken, dtype=float) - centre) / np.where(half > 0.0, half, 1.0))


def part_ends(spaces: Any) -> NDArray[np.int_]:
    """Where the controls of each of several spaces end, but for the last."""
    return np.cumsum([width(child) for child in spaces])[:-1]


def middle(space: dict[str, Any]) -> tuple[Vector, Vector]:
    """Centre and half width of a Box; directions without a bound are cut at 1."""
    low = np.nan_to_num(np.asarray(space["low"], dtype=float), neginf=-1.0)
    high = np.nan_to_num(np.asarray(space["high"], dtype=float), posinf=1.0)
    shape = tuple(space["shape"])
    return np.broadcast_to((low + high) / 2.0, shape), np.broadcast_to((high - low) / 2.0, shape)
