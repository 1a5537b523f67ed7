"""Variance components, and the effects of harness and model where they are crossed."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_records import suite

from evopolicygym.analysis.leaderboard.build import leaderboard
from evopolicygym.analysis.stats.variance import variance_components


def crossed(runs, cases, rest, shape, seed=0):
    generator = np.random.default_rng(seed)
    by_run, by_case = generator.normal(0.0, runs, (shape[0], 1)), generator.normal(0.0, cases, (1, shape[1]))
    return by_run + by_case + generator.normal(0.0, rest, shape)


def test_many_runs_and_cases_show_the_true_deviations():
    components = variance_components([(crossed(3.0, 2.0, 1.0, (400, 400)), 2.0)])
    deviations = [part.value for part in (components.runs, components.cases, components.rest)]
    assert deviations == pytest.approx([1.5, 1.0, 0.5], rel=0.1)
    assert components.shares == pytest.approx((9 / 14, 4 / 14, 1 / 14), abs=0.05)


@pytest.mark.parametrize("tasks", [1, 4])
def test_intervals_hold_the_true_deviations(tasks):
    held = np.zeros(3)
    for seed in range(100):
        components = variance_components(
            [(crossed(1.0, 0.5, 1.0, (3, 32), [seed, task]), 1.0) for task in range(tasks)]
        )
        parts = zip((components.runs, components.cases, components.rest), (1.0, 0.5, 1.0), strict=True)
        held += [number.interval.low <= truth <= number.interval.high for number, truth in parts]
    assert held.min() >= 88


def test_returns_that_do_not_vary_have_no_components():
    components = variance_components([(np.full((3, 5), -0.1), 0.3)])
    assert (components.runs.value, components.runs.interval, components.rest.value, components.shares) == (
        0.0,
        None,
        0.0,
        None,
    )


def test_one_run_has_no_variance_components():
    assert variance_components([(np.ones((1, 5)), 1.0)]) is None
    assert variance_components([(np.ones((2, 5)), 1.0), (np.ones((1, 5)), 1.0)]) is None
    assert variance_components([]) is None


def test_a_board_has_components_over_all_tasks_and_by_task():
    (board,) = leaderboard(suite({"a": 0.5, "b": 0.7}, 3, cases=8), [], draws=100).boards
    whole = [row for row in board.variance if row.task == "all tasks"]
    assert [row.entrant for row in whole] == ["a m", "b m"] and len(board.variance) == 2 + 2 * 16
    assert whole[0].components.runs.value == pytest.approx(0.1, abs=0.05)
    assert not leaderboard(suite({"a": 0.5}, 1, cases=8), [], draws=100).boards[0].variance


def test_harness_and_model_are_told_apart_where_they_are_crossed():
    runs = [
        run
        for harness, one in (("codex", 0.2), ("claude", 0.4))
        for model, two in (("big", 0.4), ("small", 0.0))
        for run in suite({harness: one + two}, 1, cases=8, seed=len(model), model=model)
    ]
    (board,) = leaderboard(runs, [], draws=100).boards
    components = board.crossed
    assert (components.harnesses, components.models, components.tasks) == (("claude", "codex"), ("big", "small"), 16)
    (harness,), (model,) = components.harness_differences, components.model_differences
    assert (harness.first, model.first) == ("claude", "big")
    assert harness.test.difference.value == pytest.approx(0.2, abs=0.06)
    assert model.test.difference.value == pytest.approx(0.4, abs=0.06)
    assert (components.harness, components.model) == pytest.approx((0.2 / 2**0.5, 0.4 / 2**0.5), abs=0.05)
    assert components.both < 0.1


def test_one_harness_with_each_model_is_not_crossed():
    runs = [*suite({"codex": 0.5}, 1, model="big"), *suite({"claude": 0.5}, 1, model="small")]
    assert leaderboard(runs, [], draws=100).boards[0].crossed is None
