"""Charts of one board."""

from __future__ import annotations

from dataclasses import replace

import pytest

import evopolicygym
from conftest import TESTS
from evopolicygym.report.board_charts import performance_profiles
from evopolicygym.report.svg import fit_axis
from evopolicygym.report.text import number

BAND = "fill-opacity"


def test_profiles_of_few_tasks_have_no_bands():
    """They would be from 0 to 1, and hide the lines."""
    board = evopolicygym.leaderboard(TESTS.parent / "examples" / "runs").boards[0]
    whole = next(aggregate for aggregate in board.aggregates if aggregate.standings)
    few, enough = (performance_profiles("profiles", replace(whole, tasks=tasks), {}) for tasks in (2, 6))
    assert few and BAND not in str(few.body) and enough and BAND in str(enough.body)


@pytest.mark.parametrize(
    ("value", "text"), [(10_000.0, "10000"), (12_345.6, "12346"), (2e6, "2000000"), (0.5, "0.5"), (1e9, "1e+09")]
)
def test_numbers_are_written_out_as_far_as_they_can_be_read(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    "values", [(1e-322, 1.1e-322), (0.0, 5e-324), (5e-324, 1e-323), (1e60, -1e60), (1.0, 1.0000000000000002), (3.0,)]
)
def test_an_axis_of_any_returns_has_a_few_ticks(values):
    """Records of others may hold numbers so small that their difference cannot be divided."""
    axis = fit_axis(values, 0.0, 100.0)
    assert 2 <= len(axis.ticks()) <= 20
    assert all(0.0 <= axis(value) <= 100.0 for value in values)
