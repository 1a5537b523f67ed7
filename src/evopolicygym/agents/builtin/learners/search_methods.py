"""The search methods: each proposes vectors of numbers (``ask``) and learns from what they scored (``tell``)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from ..policies.actor import Vector
from .search import SearchMethod

ARS_NOISE: Final = 0.2
ARS_STEP: Final = 0.2
OPENES_NOISE: Final = 0.2
OPENES_RATE: Final = 0.1
OPENES_DECAY: Final = 0.005
OPENES_MOMENTUM: Final = (0.9, 0.999)
GA_MUTATION: Final = 0.2
GA_PARENTS: Final = 4
CMA_SIGMA: Final = 0.5
CMA_MANY_NUMBERS: Final = 100


def make_method(name: str, size: int, seed: int, population: int) -> SearchMethod:
    """Return a new search over ``size`` numbers."""
    return METHODS[name](size, seed, population)


class RandomSearch:
    """Draws independent vectors, and keeps the best one."""

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


class AugmentedRandomSearch:
    """Augmented random search (Mania et al. 2018), version V2-t: pairs of opposite steps from the centre, of which the
    best few move it, scaled by the spread of their returns; observations are normalised by what was seen."""

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
        return [self._centre + sign * ARS_NOISE * way for way in self._directions for sign in (1.0, -1.0)]

    def tell(self, candidates: list[Vector], means: Vector) -> None:
        pairs = means.reshape(-1, 2)
        best = np.argsort(-pairs.max(axis=1), kind="stable")[: (len(pairs) + 1) // 2]
        spread = float(pairs[best].std())
        if spread > 0.0:
            slope = (pairs[best, 0] - pairs[best, 1]) @ self._directions[best] / len(best)
            self._centre = self._centre + ARS_STEP / spread * slope


class OpenES:
    """Evolution strategies of OpenAI (Salimans et al. 2017): opposite pairs, ranks in place of returns, Adam, weight
    decay."""

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
        return list(self._centre + OPENES_NOISE * self._directions)

    def tell(self, candidates: list[Vector], means: Vector) -> None:
        slope = centred_ranks(means) @ self._directions / (len(means) * OPENES_NOISE) - OPENES_DECAY * self._centre
        self._steps += 1
        keep, keep_squares = OPENES_MOMENTUM
        self._first = keep * self._first + (1.0 - keep) * slope
        self._second = keep_squares * self._second + (1.0 - keep_squares) * np.square(slope)
        first = self._first / (1.0 - keep**self._steps)
        second = self._second / (1.0 - keep_squares**self._steps)
        self._centre = self._centre + OPENES_RATE * first / (np.sqrt(second) + 1e-8)


class GeneticAlgorithm:
    """A genetic algorithm without crossover (Such et al. 2017): the best few have mutated children, and the best one
    stays."""

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
        steps = GA_MUTATION * self._random.normal(size=(self._population - 1, self._size))
        children = [self._parents[parent] + step for parent, step in zip(chosen, steps, strict=True)]
        return [self._parents[0], *children]

    def tell(self, candidates: list[Vector], means: Vector) -> None:
        order = np.argsort(-means, kind="stable")[:GA_PARENTS]
        self._parents = [candidates[number] for number in order]


class CovarianceMatrixAdaptation:
    """CMA-ES (Hansen) of the package cma. With many numbers it adapts variances only: the budget is too small for
    covariances."""

    plays_centre = True
    adapts = True

    def __init__(self, size: int, seed: int, population: int = 16) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that matplotlib, which only its plots need, is missing
            import cma  # here, because the package is visible to its agent alone

        random = np.random.default_rng(seed)
        options: dict[str, Any] = {"popsize": population, "CMA_diagonal": size > CMA_MANY_NUMBERS}
        # Its own random numbers, since environments may draw from numpy's global ones; nan keeps it from seeding those.
        options |= {"randn": lambda *shape: random.standard_normal(shape), "seed": np.nan}
        options |= {"verbose": -9, "verb_log": 0, "verb_disp": 0}
        self._strategy: Any = cma.CMAEvolutionStrategy(np.zeros(size), CMA_SIGMA, options)

    @property
    def centre(self) -> Vector:
        return np.array(self._strategy.mean)

    def ask(self) -> list[Vector]:
        return [np.asarray(numbers) for numbers in self._strategy.ask()]

    def tell(self, candidates: list[Vector], means: Vector) -> None:
        self._strategy.tell(candidates, (-means).tolist())


def draws(random: Generator, count: int, size: int) -> list[Vector]:
    """Return normal vectors of different lengths, between a tenth of the usual length and the whole: the right size of
    actions is not known."""
    lengths = 10.0 ** random.uniform(-1.0, 0.0, size=(count, 1))
    return list(lengths * random.normal(size=(count, size)))


def centred_ranks(values: Vector) -> Vector:
    """Return ranks from -0.5 (lowest) to 0.5; equal values share their mean rank."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts + 1) / 2.0)[places]
    return np.asarray(ranks / max(1, len(values) - 1) - 0.5)


METHODS: Final[dict[str, Callable[[int, int, int], SearchMethod]]] = {
    "random-search": RandomSearch,
    "ars": AugmentedRandomSearch,
    "openes": OpenES,
    "ga": GeneticAlgorithm,
    "cma-es": CovarianceMatrixAdaptation,
}
