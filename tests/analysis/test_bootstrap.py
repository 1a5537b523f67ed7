"""Draws of other runs on other cases, and what is computed from them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evopolicygym.analysis.stats.bootstrap import (
    draw,
    interquartile_mean,
    optimality_gap,
    percentile_interval,
    performance_profile,
)
from evopolicygym.analysis.stats.estimates import estimate_score


@pytest.fixture
def matrices():
    generator = np.random.default_rng(5)
    cases = generator.normal(size=32)
    return {name: cases + generator.normal(size=(runs, 1)) for name, runs in (("a", 5), ("b", 2), ("c", 1))}


def test_the_same_seed_draws_the_same(matrices):
    one, other = (draw(matrices, np.random.default_rng(1), 50) for _ in range(2))
    assert all(np.array_equal(one[name], other[name]) for name in matrices)
    assert not np.array_equal(one["a"], draw(matrices, np.random.default_rng(2), 50)["a"])


def test_each_entrant_keeps_its_number_of_runs(matrices):
    assert {name: found.shape for name, found in draw(matrices, np.random.default_rng(1), 50).items()} == {
        "a": (5, 50),
        "b": (2, 50),
        "c": (1, 50),
    }


def test_cases_are_shared_by_all_entrants(matrices):
    """Two entrants that differ by a constant on every case keep that distance in every draw."""
    drawn = draw({"c": matrices["c"], "d": matrices["c"] + 2.0}, np.random.default_rng(3), 200)
    assert np.allclose(drawn["d"] - drawn["c"], 2.0)


def test_runs_are_drawn_for_each_entrant_by_itself():
    runs = np.arange(4.0)[:, None] * np.ones((4, 32))
    drawn = draw({"a": runs, "b": runs}, np.random.default_rng(3), 500)
    assert abs(np.corrcoef(drawn["a"].mean(axis=0), drawn["b"].mean(axis=0))[0, 1]) < 0.2


def test_means_of_draws_spread_as_the_estimate_says(matrices):
    for name, drawn in draw(matrices, np.random.default_rng(4), 4000).items():
        assert drawn.mean(axis=0).std() == pytest.approx(estimate_score(matrices[name]).standard_error)


def test_runs_without_any_spread_stay_where_they_are():
    drawn = draw({"zero": np.zeros((3, 8))}, np.random.default_rng(0), 20)
    assert not drawn["zero"].any()


def test_few_degrees_of_freedom_stretch_the_percentiles():
    drawn = np.random.default_rng(0).normal(size=20_000)
    wide, narrow = percentile_interval(0.0, drawn, 4.0), percentile_interval(0.0, drawn)
    assert wide.high / narrow.high == pytest.approx(stats.t.ppf(0.975, 4) / stats.norm.ppf(0.975))
    assert percentile_interval(0.0, drawn, 1.0, bounds=(-1.0, 1.0)).high == 1.0


@pytest.mark.parametrize("count", [1, 3, 4, 7, 16, 80])
def test_interquartile_mean(count):
    scores = np.random.default_rng(count).normal(size=(count, 3))
    assert interquartile_mean(scores) == pytest.approx(stats.trim_mean(scores, 0.25, axis=0))


def test_optimality_gap_counts_nothing_above_one():
    assert optimality_gap(np.array([0.5, 1.0, 3.0])) == pytest.approx(0.5 / 3)


def test_performance_profile_falls_from_one_to_zero():
    profile = performance_profile(np.array([0.2, 0.4, 0.9]), (0.0, 0.3, 0.4, 1.0))
    assert profile.tolist() == pytest.approx([1.0, 2 / 3, 1 / 3, 0.0])
