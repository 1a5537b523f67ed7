"""Evolution strategies of OpenAI (Salimans et al. 2017): opposite pairs, ranks in place of
returns, Adam, weight decay."""

from __future__ import annotations

from typing import Final

import numpy as np

from .policies.actor import Vector

NOISE: Final = 0.2
RATE: Final = 0.1
DECAY: Final = 0.005
MOMENTUM: Final = (0.9, 0.999)


class OpenES:
    plays_centre = True
    adapts = True

    def __init__(self, size: int, seed: int, population: int = 16) -> None:
        self._random = np.random.default_rng(seed)
        self._pairs = max(1, population // 2)
        self._centre: Vector = np.zeros(size)
        self._first: Vector = np.zeros(size)
        self._second: Vector = np.zeros(size)
        self._directions: Vector = np.zeros((0, size))
        self._steps = 0

    @property
    def centre(self) -> Vector:
        return self._centre

    def ask(self) -> list[Vector]:
        half = self._random.normal(size=(self._pairs, len(self._centre)))
        self._directions = np.concatenate([half, -half])
        return list(self._centre + NOISE * self._directions)

    def tell(self, candidates: list[Vector], means: Vector) -> None:
        slope = centred_ranks(means) @ self._directions / (len(means) * NOISE) - DECAY * self._centre
        self._steps += 1
        keep, keep_squares = MOMENTUM
        self._first = keep * self._first + (1.0 - keep) * slope
        self._second = keep_squares * self._second + (1.0 - keep_squares) * np.square(slope)
        first = self._first / (1.0 - keep**self._steps)
        second = self._second / (1.0 - keep_squares**self._steps)
        self._centre = self._centre + RATE * first / (np.sqrt(second) + 1e-8)


def centred_ranks(values: Vector) -> Vector:
    """Return ranks from -0.5 (lowest) to 0.5; equal values share their mean rank."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts + 1) / 2.0)[places]
    return np.asarray(ranks / max(1, len(values) - 1) - 0.5)
