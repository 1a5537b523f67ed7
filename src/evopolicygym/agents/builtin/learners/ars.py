"""Augmented random search (Mania et al. 2018), version V2-t: pairs of opposite steps from the centre, of which the best
few move it, scaled by the spread of their returns; observations are normalised by what was seen."""

from __future__ import annotations

from typing import Final

import numpy as np

from .policies.actor import Vector

NOISE: Final = 0.2
STEP: Final = 0.2


class AugmentedRandomSearch:
    plays_centre = True
    adapts = True

    def __init__(self, size: int, seed: int, population: int = 16) -> None:
        self._random = np.random.default_rng(seed)
        self._pairs = max(1, population // 2)
        self._centre: Vector = np.zeros(size)
        self._directions: Vector = np.zeros((0, size))

    @property
    def centre(self) -> Vector:
        return self._centre

    def ask(self) -> list[Vector]:
        self._directions = self._random.normal(size=(self._pairs, len(self._centre)))
        return [self._centre + sign * NOISE * way for way in self._directions for sign in (1.0, -1.0)]

    def tell(self, candidates: list[Vector], means: Vector) -> None:
        pairs = means.reshape(-1, 2)
        best = np.argsort(-pairs.max(axis=1), kind="stable")[: (len(pairs) + 1) // 2]
        spread = float(pairs[best].std())
        if spread > 0.0:
            slope = (pairs[best, 0] - pairs[best, 1]) @ self._directions[best] / len(best)
            self._centre = self._centre + STEP / spread * slope
