"""Networks in numpy: as vectors of numbers for the search methods, and trained by gradients for RL; the statistics that
normalise their inputs; and the files of a submitted policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from ..evaluator import POLICIES, Spaces, normalisation
from ..policies.actor import Actor, Vector
from ..policies.features import FINE

MOMENTUM: Final = (0.9, 0.999)  # of Adam
FILES: Final = {
    "policy.py": POLICIES / "network.py",
    "actor.py": POLICIES / "actor.py",
    "features.py": POLICIES / "features.py",
}


@dataclass(frozen=True)
class NetworkShape:
    """Sizes of a network. Without hidden layers it is a linear policy."""

    inputs: int
    hidden: tuple[int, ...]
    outputs: int

    @classmethod
    def of(cls, spaces: Spaces, hidden: tuple[int, ...]) -> NetworkShape:
        return cls(len(normalisation(spaces.observation, FINE)[0]), hidden, spaces.controls)

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Inputs and outputs of each layer."""
        widths = [self.inputs, *self.hidden, self.outputs]
        return list(pairwise(widths))

    @property
    def parameters(self) -> int:
        return sum((inputs + 1) * outputs for inputs, outputs in self.sizes)

    def arrays(self, numbers: Vector) -> dict[str, Vector]:
        """Return the layers. Weights are divided by the root of the layer's inputs, so that numbers of unit size give
        outputs of unit size, whatever the task."""
        arrays, start = {}, 0
        for layer, (inputs, outputs) in enumerate(self.sizes):
            end = start + inputs * outputs
            arrays[f"w{layer}"] = numbers[start:end].reshape(inputs, outputs) / np.sqrt(inputs)
            arrays[f"b{layer}"] = numbers[end : end + outputs]
            start = end + outputs
        return arrays


class TrainableNetwork:
    """Layers with tanh between them, their gradients, and Adam. ``last`` scales the initial weights of the last layer:
    small ones give outputs near zero at first."""

    def __init__(self, widths: Sequence[int], random: Generator, rate: float, last: float = 1.0) -> None:
        self._rate, self._steps = rate, 0
        self.parameters: list[Vector] = []
        for number, (inputs, outputs) in enumerate(pairwise(widths)):
            scale = (last if number == len(widths) - 2 else 1.0) / np.sqrt(inputs)
            self.parameters += [random.normal(size=(inputs, outputs)) * scale, np.zeros(outputs)]
        self.gradients = [np.zeros_like(array) for array in self.parameters]
        self._first = [np.zeros_like(array) for array in self.parameters]
        self._second = [np.zeros_like(array) for array in self.parameters]
        self._values: list[Vector] = []

    def forward(self, rows: Vector) -> Vector:
        """Return the outputs for rows of inputs, and keep what ``backward`` needs."""
        self._values = [rows]
        for number in range(0, len(self.parameters), 2):
            rows = rows @ self.parameters[number] + self.parameters[number + 1]
            if number < len(self.parameters) - 2:
                rows = np.tanh(rows)
                self._values.append(rows)
        return rows

    def backward(self, slope: Vector) -> Vector:
        """Set the gradients for a slope of the loss with respect to the last outputs; return that to the inputs."""
        for number in range(len(self.parameters) - 2, -1, -2):
            values = self._values[number // 2]
            self.gradients[number] = values.T @ slope
            self.gradients[number + 1] = slope.sum(axis=0)
            slope = slope @ self.parameters[number].T
            if number:
                slope = slope * (1.0 - np.square(values))
        return slope

    def step(self, largest: float = np.inf) -> None:
        """Descend along the gradients with Adam; gradients of a norm above ``largest`` are shortened to it."""
        norm = float(np.sqrt(sum(np.square(gradient).sum() for gradient in self.gradients)))
        shorten = min(1.0, largest / max(norm, 1e-12))
        self._steps += 1
        keep, keep_squares = MOMENTUM
        for array, gradient, first, second in zip(
            self.parameters, self.gradients, self._first, self._second, strict=True
        ):
            first *= keep
            first += (1.0 - keep) * shorten * gradient
            second *= keep_squares
            second += (1.0 - keep_squares) * np.square(shorten * gradient)
            scale = np.sqrt(second / (1.0 - keep_squares**self._steps)) + 1e-8
            array -= self._rate * first / (1.0 - keep**self._steps) / scale

    def follow(self, other: TrainableNetwork, share: float) -> None:
        """Move the parameters towards those of another network by a share of the distance."""
        for own, theirs in zip(self.parameters, other.parameters, strict=True):
            own += share * (theirs - own)

    def arrays(self) -> dict[str, Vector]:
        """Return copies of the layers as an actor names them."""
        count = len(self.parameters) // 2
        weights = {f"w{number}": self.parameters[2 * number].copy() for number in range(count)}
        return weights | {f"b{number}": self.parameters[2 * number + 1].copy() for number in range(count)}


def softmax(scores: Vector) -> Vector:
    """Return the probabilities of each row of scores."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Moments:
    """Sums over the observations seen so far, from which mean and scale of each entry follow. ``mean`` and ``scale``
    are those of the space's bounds, in use until anything was seen."""

    mean: Vector
    scale: Vector
    count: int
    total: Vector
    squares: Vector

    @classmethod
    def of(cls, spaces: Spaces) -> Moments:
        mean, scale = normalisation(spaces.observation, FINE)
        return cls(mean, scale, 0, np.zeros_like(mean), np.zeros_like(mean))

    def with_rows(self, rows: Vector) -> Moments:
        """Return the statistics with more observations. Sums are of distances from ``mean``, to keep their digits."""
        if not len(rows):
            return self
        rows = rows - self.mean
        total, squares = self.total + rows.sum(axis=0), self.squares + np.square(rows).sum(axis=0)
        return Moments(self.mean, self.scale, self.count + len(rows), total, squares)

    def normalisation(self) -> dict[str, Vector]:
        """Return mean and scale. Entries that never moved have the scale of their bounds."""
        if not self.count:
            return {"mean": self.mean, "scale": self.scale}
        shift = self.total / self.count
        deviation = np.sqrt(np.maximum(self.squares / self.count - np.square(shift), 0.0))
        return {"mean": self.mean + shift, "scale": np.where(deviation > 1e-6, deviation, self.scale)}


def sees_images(space: dict[str, Any]) -> bool:
    """Whether observations have images, which are reduced to blocks."""
    if "spaces" not in space:
        return math.prod(space.get("shape") or ()) > FINE.largest
    children = space["spaces"].values() if isinstance(space["spaces"], dict) else space["spaces"]
    return any(sees_images(child) for child in children)


def write_actor(actor: Actor, folder: Path) -> None:
    """Write the files of the policy to ``folder``, in place of everything there."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        if old.is_file() and old.name not in FILES:
            old.unlink()
    for name, source in FILES.items():
        (folder / name).write_bytes(source.read_bytes())
    with open(folder / "weights.npz", "wb") as file:
        np.savez(file, allow_pickle=False, **{name: np.asarray(value) for name, value in actor.weights.items()})
