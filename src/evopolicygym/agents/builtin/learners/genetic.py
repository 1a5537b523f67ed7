"""A genetic algorithm without crossover (Such et al. 2017): the best few have mutated children, the best one stays."""

from __future__ import annotations

from typing import Final

import numpy as np

from .policies.actor import Vector
from .random_search import draws

MUTATION: Final = 0.2
PARENTS: Final = 4


class GeneticAlgorithm:
    plays_centre = False
    adapts = True

    def __init__(self, size: int, seed: int, population: int = 16) -> None:
        self._random = np.random.default_rng(seed)
        self._size, self._population = size, population
        self._parents: list[Vector] = []

    @property
    def centre(self) -> Vector:
        return self._parents[0] if self._parents else np.zeros(self._size)

    def ask(self) -> list[Vector]:
        if not self._parents:
            return draws(self._random, self._population, self._size)
        chosen = self._random.integers(len(self._parents), size=self._population - 1)
        steps = MUTATION * self._random.normal(size=(self._population - 1, self._size))
        children = [self._parents[parent] + step for parent, step in zip(chosen, steps, strict=True)]
        return [self._parents[0], *children]

    def tell(self, candidates: list[Vector], means: Vector) -> None:
        order = np.argsort(-means, kind="stable")[:PARENTS]
        self._parents = [candidates[number] for number in order]
