"""Networks as vectors of numbers, the statistics that normalise their inputs, and the files of a submitted policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..shotgun import normalisation
from ..tuner.evaluator import POLICIES as TUNER_POLICIES
from ..tuner.evaluator import Spaces
from ..tuner.policies.features import FINE
from .policies.actor import Actor, Vector

POLICIES: Final = Path(__file__).parent / "policies"
FILES: Final = {
    "policy.py": POLICIES / "network.py",
    "actor.py": POLICIES / "actor.py",
    "features.py": TUNER_POLICIES / "features.py",
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
