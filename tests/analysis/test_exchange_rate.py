"""What the score of an entrant is worth in training of baselines, by the stored curves."""

from __future__ import annotations

import os
import subprocess

import pytest
from synthetic_records import synthetic_run

from evopolicygym.analysis.exchange_rate import exchange_rates
from evopolicygym.analysis.leaderboard.build import leaderboard
from evopolicygym.analysis.leaderboard.text_tables import exchange_table
from evopolicygym.api.statistics import curve_records
from evopolicygym.errors import UserError
from evopolicygym.reference.anchors import stored_anchors
from evopolicygym.reference.curves import stored_curves

TASK = "core16/acrobot"
CURVES = [curve for curve in stored_curves() if curve.task == TASK]
FACTS = stored_anchors().tasks[TASK].fingerprint


def acrobot_run(score, **more):
    return synthetic_run([score] * 32, TASK, facts=FACTS | more)


def test_the_stored_curves_are_complete_and_on_the_cases_of_the_paper():
    assert CURVES
    for curve in stored_curves():
        assert curve.complete and curve.splits_id == "paper" and curve.heldout_cases == 32
        assert curve.fingerprint == stored_anchors().tasks[curve.task].fingerprint


def test_a_score_is_reached_after_more_training_the_higher_it_is():
    low, high, never = (exchange_rates(CURVES, acrobot_run(score), score)[0] for score in (-400.0, -100.0, -1.0))
    assert low.steps <= high.steps <= high.trained_steps
    assert never.steps is None and "not reached within" in never.words


def test_curves_of_other_cases_versions_or_numbers_of_cases_do_not_count():
    assert exchange_rates(CURVES, acrobot_run(-100.0), -100.0)
    for other in ({"splits": "sealed"}, {"packages": {"numpy": "1"}}, {"horizon": 100}):
        assert exchange_rates(CURVES, acrobot_run(-100.0, **other), -100.0) == []
    assert exchange_rates(CURVES, synthetic_run([-100.0] * 8, TASK, facts=FACTS), -100.0) == []


def test_the_leaderboard_has_a_row_for_each_entrant_and_algorithm():
    (board,) = leaderboard([acrobot_run(-100.0)], [], draws=10, curves=CURVES).boards
    algorithms = sorted({curve.algorithm for curve in CURVES})
    assert len(algorithms) > 1
    assert [row[:3] for row in exchange_table(board).rows] == [(TASK, "codex m", name) for name in algorithms]
    (board,) = leaderboard([acrobot_run(-100.0)], [], draws=10).boards
    assert board.exchange_rates == ()


def test_a_folder_without_curves_is_refused(tmp_path):
    with pytest.raises(UserError, match="there is no learning curve"):
        curve_records([tmp_path])
    with pytest.raises(UserError, match="there is no learning curve"):
        curve_records([tmp_path / "nothing"])
    assert curve_records(()) == [*stored_curves()]


def test_a_folder_of_a_stranger_is_searched_with_bounds(tmp_path):
    """Folders nested deeper than a function may call itself; links; files that are too large together."""
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (below / "one.curve.json").write_text(CURVES[0].model_dump_json())
    assert curve_records([tmp_path])[0] == CURVES[0], "control"
    (tmp_path / "linked.curve.json").symlink_to(below / "one.curve.json")
    with pytest.raises(UserError, match="a link, which is not followed"):
        curve_records([tmp_path])
    (tmp_path / "linked.curve.json").unlink()
    for number in range(17):
        with (tmp_path / f"{number}.curve.json").open("wb") as file:
            file.truncate(16 << 20)
    with pytest.raises(UserError, match="bytes together"):
        curve_records([tmp_path])
    here = os.open(below, os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    try:
        with pytest.raises(UserError, match="nested too deep"):
            curve_records([tmp_path])
    finally:
        subprocess.run(["rm", "-rf", str(below)], check=True)  # deeper than Python can remove
