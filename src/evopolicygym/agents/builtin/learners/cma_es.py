"""CMA-ES (Hansen) of the package cma. With many numbers it adapts variances only: the budget is too small for
covariances."""

from __future__ import annotations

import warnings
from typing import Any, Final

import numpy as np

from .policies.actor import Vector

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns that matplotlib, which only its plots need, is missing
    import cma

SIGMA: Final = 0.5
MANY_NUMBERS: Final = 100


class CovarianceMatrixAdaptation:
    plays_centre = True
    adapts = True

    def __init__(self, size: int, seed: int, population: int = 16) -> None:
        random = np.random.default_rng(seed)
        options: dict[str, Any] = {"popsize": population, "CMA_diagonal": size > MANY_NUMBERS}
        # Its own random numbers, since environments may draw from numpy's global ones; nan keeps it from seeding those.
        options |= {"randn": lambda *shape: random.standard_normal(shape), "seed": np.nan}
        options |= {"verbose": -9, "verb_log": 0, "verb_disp": 0}
        self._strategy: Any = cma.CMAEvolutionStrategy(np.zeros(size), SIGMA, options)

    @property
    def centre(self) -> Vector:
        return np.array(self._strategy.mean)

    def ask(self) -> list[Vector]:
        return [np.asarray(numbers) for numbers in self._strategy.ask()]

    def tell(self, candidates: list[Vector], means: Vector) -> None:
        self._strategy.tell(candidates, (-means).tolist())
