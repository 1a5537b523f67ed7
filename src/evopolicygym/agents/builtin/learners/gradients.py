"""A trainable network in numpy: layers with tanh between them, their gradients, and Adam."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.random import Generator

from .policies.actor import Vector

MOMENTUM: Final = (0.9, 0.999)


class TrainableNetwork:
    """``last`` scales the initial weights of the last layer: small ones give outputs near zero at first."""

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
