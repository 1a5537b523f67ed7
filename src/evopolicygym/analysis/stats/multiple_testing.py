"""Corrections for several tests in one table."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Apply Holm's (1979) step-down correction; None (unknown) is not counted."""
    ranked = sorted((value, i) for i, value in enumerate(p_values) if value is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for position, (value, i) in enumerate(ranked):
        highest = max(highest, min(1.0, (len(ranked) - position) * value))
        corrected[i] = highest
    return corrected
