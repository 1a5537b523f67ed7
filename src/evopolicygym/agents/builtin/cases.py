"""Which train cases a search plays, and how many of them for each candidate."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

TRAIN_CASES: Final = 1024
FRESH_CASES: Final = 4  # the first case that nothing before the search depended on


def next_cases(generation: int, count: int) -> list[int]:
    """Return other cases for every generation, so that policies that are good only on a few cases do not survive."""
    first = FRESH_CASES + generation * count
    return [(first + number) % TRAIN_CASES for number in range(count)]


def cases_needed(returns: NDArray[np.float64]) -> int:
    """Return 1, 2 or 4 cases for each policy: more, the less policies differ compared with the noise between cases."""
    centred = returns - returns.mean(axis=0)
    noise = float((centred - centred.mean(axis=1, keepdims=True)).var(axis=1, ddof=1).mean())
    signal = float(centred.mean(axis=1).var(ddof=1)) - noise / returns.shape[1]
    return 1 if noise < 0.3 * signal else 2 if noise < 2.0 * signal else 4
