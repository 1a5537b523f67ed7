"""A best-so-far curve in text: validation mean of the best candidate against episodes consumed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from evopolicygym.run_record import RunRecord

WIDTH: Final = 64
HEIGHT: Final = 8


def points(record: RunRecord) -> Iterator[tuple[int, float]]:
    """After each submission: episodes consumed, and the best validation mean so far."""
    means = {one.hash: one.validation.mean for one in record.checkpoints if one.validation}
    consumed, best = 0, None
    for one in record.submissions:
        consumed += one.charged
        if one.verdict == "ok" and one.checkpoint in means:
            best = max(means[one.checkpoint], best) if best is not None else means[one.checkpoint]
        if best is not None:
            yield consumed, best


def curve(record: RunRecord) -> list[str]:
    """Lines of text; none when nothing was validated."""
    known = list(points(record))
    if not known:
        return []
    low, high = known[0][1], known[-1][1]
    rows = [[" "] * WIDTH for _ in range(HEIGHT)]
    for column in range(WIDTH):
        reached = [best for consumed, best in known if consumed <= (column + 1) * record.budget.total / WIDTH]
        if reached:
            rows[HEIGHT - 1 - _level(reached[-1], low, high)][column] = "▀"
    labels = {0: f"{high:.5g}", HEIGHT - 1: f"{low:.5g}"}
    body = [f"{labels.get(number, ''):>10} ┤{''.join(row)}" for number, row in enumerate(rows)]
    return [*body, f"{'':>10} └{'─' * WIDTH}", f"{'episodes':>10}  0{record.budget.total:>{WIDTH - 1}}"]


def _level(value: float, low: float, high: float) -> int:
    return round((value - low) / (high - low) * (HEIGHT - 1)) if high > low else HEIGHT - 1
