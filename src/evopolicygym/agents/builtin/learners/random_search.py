"""Random search: independent draws, of which the best one is kept."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from .policies.actor import Vector


def draws(random: Generator, count: int, size: int) -> list[Vector]:
    """Return normal vectors, each of its own length between a tenth and once the usual one: how strong actions should
    be is not known."""
    lengths = 10.0 ** random.uniform(-1.0, 0.0, size=(count, 1))
    return list(lengths * random.normal(size=(count, size)))


class RandomSearch:
    plays_centre = False
    adapts = False

    def __init__(self, size: int, seed: int, population: int = 16) -> None:
        self._random = np.random.default_rng(seed)
        self._size, self._population = size, population
        self._best, self._mean = np.zeros(size), -np.inf

    @property
    def centre(self) -> Vector:
        return self._best

    def ask(self) -> list[Vector]:
        return draws(self._random, self._population, self._size)

    def tell(self, candidates: list[Vector], means: Vector) -> None:
        first = int(np.argmax(means))
        if means[first] > self._mean:
            self._best, self._mean = candidates[first], float(means[first])
