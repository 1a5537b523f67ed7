"""Summaries of the runs of all tasks that are not plain means."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evopolicygym.analysis.stats.estimates import average, estimate_score
from evopolicygym.analysis.stats.pooled import (
    estimate_interquartile_mean,
    estimate_optimality_gap,
    interquartile_mean,
    optimality_gap,
    performance_profile,
)


def tasks(count, runs=3, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.normal(0.5, 0.2, (runs, 1)) + generator.normal(0.0, 0.1, (runs, 8)) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 3, 4, 7, 16, 80])
def test_interquartile_mean(count):
    scores = np.random.default_rng(count).normal(size=count)
    assert interquartile_mean(scores) == pytest.approx(stats.trim_mean(scores, 0.25))


def test_the_interval_of_the_interquartile_mean_is_about_its_value():
    made = tasks(4)
    estimate = estimate_interquartile_mean(made)
    assert estimate.value == pytest.approx(interquartile_mean(np.concatenate([task.mean(axis=1) for task in made])))
    assert estimate.interval.low < estimate.value < estimate.interval.high


def test_an_outlier_moves_the_interval_of_the_mean_alone():
    made = tasks(4)
    made[0] = np.vstack([made[0][:2], made[0][2:] + 100.0])
    trimmed, mean = estimate_interquartile_mean(made).interval, average([estimate_score(task) for task in made])
    assert trimmed.high - trimmed.low < 0.1 * (mean.interval().high - mean.interval().low)


def test_optimality_gap_counts_nothing_above_one():
    assert optimality_gap(np.array([0.5, 1.0, 3.0])) == pytest.approx(0.5 / 3)
    runs = np.array([[0.5, 0.5], [1.0, 1.0], [2.0, 4.0]])
    estimate = estimate_optimality_gap([runs])
    assert estimate.value == pytest.approx(0.5 / 3) and estimate.interval.low >= 0.0


def test_below_one_the_optimality_gap_is_the_rest_of_the_mean():
    made = tasks(4)
    mean, gap = average([estimate_score(task) for task in made]), estimate_optimality_gap(made)
    assert gap.value == pytest.approx(1.0 - mean.value)
    assert gap.interval.low == pytest.approx(1.0 - mean.interval().high)


def test_one_run_has_no_interval():
    assert estimate_optimality_gap(tasks(4, 1)).interval is None
    assert estimate_interquartile_mean(tasks(4, 1)).interval is None


def test_performance_profile_falls_from_one_to_zero():
    profile = performance_profile([np.array([0.2, 0.4, 0.9])], (0.0, 0.3, 0.4, 1.0))
    assert [share.value for share in profile] == pytest.approx([1.0, 2 / 3, 1 / 3, 0.0])
    assert not any(share.interval for share in profile)


def test_the_band_of_a_profile_has_a_width_with_one_run_of_each_task():
    high, low = performance_profile([np.array([0.9])] * 4, (0.5, 1.0))
    assert (high.value, high.interval.high, low.value, low.interval.low) == (1.0, 1.0, 0.0, 0.0)
    assert high.interval.low < 1.0 and low.interval.high > 0.0
