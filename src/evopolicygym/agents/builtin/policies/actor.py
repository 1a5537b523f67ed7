"""A small network in numpy: features of an observation to controls, with exploration noise where it was asked for.

The noise follows from the first observation and from the number of the submission: a learner that has the observations
can repeat it, and the same search is the same to the bit, whatever the randomness of the run.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Vector = NDArray[np.float64]

SPREADS = (-5.0, 1.0)  # bounds of the logarithms of spreads
FARTHEST = 5.0  # normalised entries are clipped here: an entry that never moved before must not decide everything


class Actor:
    """``weights``: mean and scale of the features; w0, b0, w1, b1, ... of the layers; optionally ``spread``, the
    standard deviation of the noise of each control, or ``spreads`` if the second half of the outputs are the logarithms
    of that, or ``samples`` to draw a choice by its score; ``squashes`` for controls through tanh;
    ``relu`` for hidden layers without tanh; ``stream``, which noise of all."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self.weights = weights
        self.mean, self.scale = weights["mean"], weights["scale"]
        count = sum(name.startswith("w") for name in weights)
        self.layers = [(weights[f"w{number}"], weights[f"b{number}"]) for number in range(count)]
        self.spread, self.samples = weights.get("spread"), bool(weights.get("samples", False))
        self.squashes, self.stream = bool(weights.get("squashes", False)), int(weights.get("stream", 0))
        self.has_spreads = bool(weights.get("spreads", False))
        self.is_relu = bool(weights.get("relu", False))
        self._random: Generator | None = None

    def reset(self) -> None:
        """Begin an episode."""
        self._random = None

    def controls(self, features: Vector) -> Vector:
        """Controls for the next step of the episode."""
        if self._random is None:
            self._random = noise_of(features, self.stream)
        outputs = self.perturbed(self.outputs(features), self._random)
        return np.tanh(outputs) if self.squashes else outputs

    def outputs(self, features: Vector) -> Vector:
        """Return the output of the last layer for one observation, or for rows of them."""
        values: Vector = (features - self.mean) / self.scale
        values = np.minimum(np.maximum(values, -FARTHEST), FARTHEST)  # half the time of np.clip
        for weights, bias in self.layers[:-1]:
            values = values @ weights + bias
            values = np.maximum(values, 0.0) if self.is_relu else np.tanh(values)
        weights, bias = self.layers[-1]
        outputs: Vector = values @ weights + bias
        return outputs

    def perturbed(self, outputs: Vector, random: Generator) -> Vector:
        """Outputs with noise; the highest of scores with Gumbel noise is a draw from their softmax."""
        if self.samples:
            return outputs + random.gumbel(size=outputs.shape)
        if self.has_spreads:
            outputs, logarithms = np.split(outputs, 2, axis=-1)
            return outputs + np.exp(np.clip(logarithms, *SPREADS)) * random.normal(size=outputs.shape)
        return outputs if self.spread is None else outputs + self.spread * random.normal(size=outputs.shape)

    def replayed(self, rows: Vector) -> Vector:
        """Return the outputs of ``perturbed`` in an episode with these features, a row for each step, before tanh."""
        return self.perturbed(self.outputs(rows), noise_of(rows[0], self.stream))


def noise_of(first: Vector, stream: int) -> Generator:
    """The random numbers of the episode that begins with these features."""
    digest = hashlib.sha256(first.tobytes() + stream.to_bytes(8, "little")).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))
