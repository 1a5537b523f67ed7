"""The search methods by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .ars import AugmentedRandomSearch
from .genetic import GeneticAlgorithm
from .openes import OpenES
from .random_search import RandomSearch
from .search import SearchMethod


def make_method(name: str, size: int, seed: int, population: int) -> SearchMethod:
    """Return a new search over ``size`` numbers."""
    return METHODS[name](size, seed, population)


def _cma_es(size: int, seed: int, population: int) -> SearchMethod:
    from .cma_es import CovarianceMatrixAdaptation  # the package cma is visible to its agent alone

    return CovarianceMatrixAdaptation(size, seed, population)


METHODS: Final[dict[str, Callable[[int, int, int], SearchMethod]]] = {
    "random-search": RandomSearch,
    "ars": AugmentedRandomSearch,
    "openes": OpenES,
    "ga": GeneticAlgorithm,
    "cma-es": _cma_es,
}
