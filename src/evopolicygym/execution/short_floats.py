"""Short text for floats: the fewest digits that read back to the same float32."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

DIGITS: Final = (6, 7, 8, 9)  # nine always suffice for a float32
LARGEST_EXPONENT: Final = 22  # up to here powers of ten are exact floats, so one division rounds correctly
POWERS: Final = 10.0 ** np.arange(LARGEST_EXPONENT + 1)


def shortest(values: NDArray[Any]) -> list[Any]:
    """Return floats as nested lists whose ``repr`` is short.

    Each number reads back to the float32 nearest to the given one; what float32 cannot hold stays as it is. All numbers
    of many steps are converted at once: one by one, the conversion would take as long as the steps themselves."""
    with np.errstate(all="ignore"):
        single = values.astype(np.float32)
        exact = single.astype(np.float64)
        short = exact.copy()
        exponent = np.floor(np.log10(np.abs(exact)))
        is_open = np.isfinite(exact) & (exact != 0.0)
        for digits in DIGITS:
            scale = digits - 1 - np.where(is_open, exponent, 0.0)
            power = POWERS[np.minimum(np.abs(scale), LARGEST_EXPONENT).astype(np.int64)]
            rounded = np.where(scale >= 0, np.rint(exact * power) / power, np.rint(exact / power) * power)
            fits = is_open & (np.abs(scale) <= LARGEST_EXPONENT) & (rounded.astype(np.float32) == single)
            short[fits] = rounded[fits]
            is_open &= ~fits
    too_large = np.isinf(single) & np.isfinite(values)
    short[too_large] = values[too_large]
    for index in np.argwhere(is_open):  # exponents beyond those of POWERS: rare
        short[tuple(index)] = float(str(single[tuple(index)]))
    as_lists: list[Any] = short.tolist()
    return as_lists
