"""Charts of one board."""

from __future__ import annotations

from dataclasses import replace

import evopolicygym
from conftest import TESTS
from evopolicygym.report.board_charts import performance_profiles

BAND = "fill-opacity"


def test_profiles_of_few_tasks_have_no_bands():
    """They would be from 0 to 1, and hide the lines."""
    board = evopolicygym.leaderboard(TESTS.parent / "examples" / "runs").boards[0]
    whole = next(aggregate for aggregate in board.aggregates if aggregate.standings)
    few, enough = (performance_profiles("profiles", replace(whole, tasks=tasks), {}) for tasks in (2, 6))
    assert few and BAND not in str(few.body) and enough and BAND in str(enough.body)
