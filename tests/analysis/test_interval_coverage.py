"""What the output says of few runs is what docs/statistics.md shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from evopolicygym.analysis.stats.estimates import COVERAGE

DOCS = Path(__file__).parents[2] / "docs" / "statistics.md"
EXTREME = ("runs dominate, skewed", "rare mode, 1 in 7")


def table(title: str) -> dict[str, list[float]]:
    lines = DOCS.read_text().split(f"### {title}")[1].split("###")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return {name: [float(value) for value in values] for name, *values in cells[2:]}


@pytest.mark.parametrize(
    ("title", "known"),
    [("One task\n", COVERAGE[1]), ("Mean over 4 tasks", COVERAGE[4]), ("Mean over 16 tasks", COVERAGE[16])],
)
def test_the_documented_tables_are_summed_up(title, known):
    rows = [values for name, values in table(title).items() if name not in EXTREME]
    for (low, high), values in zip(known.values(), list(zip(*rows, strict=True))[1:], strict=True):
        assert (100 * low, 100 * high) == pytest.approx((min(values), max(values)), abs=0.1)


def test_the_promise_holds_in_the_documented_tables():
    """93 to 97 % for the suite with 5 runs and more, and for a task with 10 runs and more; without the extremes."""
    for title, first in (("Mean over 16 tasks", 3), ("One task\n", 4)):
        for name, values in table(title).items():
            assert name in EXTREME or all(93.0 <= value <= 97.0 for value in values[first:]), name
