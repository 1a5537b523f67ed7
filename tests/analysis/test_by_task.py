"""Statistics with tasks as the sample, and probabilities from few runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evopolicygym.analysis.stats.by_task import bounded_mean, compare_by_task
from evopolicygym.analysis.stats.first_place import first_on_task, first_over_tasks, shrunk
from evopolicygym.analysis.stats.improvement import improvement, improvement_over_tasks, share_of_wins
from evopolicygym.analysis.stats.power import tasks_needed
from evopolicygym.reference.return_bounds import Bounds


@pytest.fixture
def scores():
    generator = np.random.default_rng(3)
    return generator.normal(0.3, 1.0, 16), generator.normal(0.0, 1.0, 16)


def test_the_tests_over_tasks_are_those_of_scipy(scores):
    first, second = scores
    test, expected = compare_by_task(list(first), list(second)), stats.ttest_rel(first, second)
    assert test.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert (test.difference.interval.low, test.difference.interval.high) == pytest.approx(tuple(interval))
    assert test.p_sign == pytest.approx(stats.binomtest(int((first > second).sum()), 16).pvalue)
    assert test.won + test.lost == test.tasks == 16


def test_equal_scores_and_single_tasks_have_no_significant_difference():
    same = compare_by_task([1.0, 2.0], [1.0, 2.0])
    assert (same.p, same.p_sign, same.won, same.lost) == (1.0, 1.0, 0, 0)
    single = compare_by_task([1.0], [0.0])
    assert single.p is None and single.difference.interval is None


@pytest.mark.parametrize("second", [0.9, 0.2])
def test_equal_differences_have_no_interval_and_plan_nothing(second):
    test = compare_by_task([0.9] * 16, [second] * 16)
    assert test.difference.interval is None
    assert tasks_needed(0.05, [0.9 - second] * 16) is None


def test_intervals_of_differences_end_where_scores_do():
    scores = [1.0, 0.8], [0.0, 0.1]
    assert compare_by_task(*scores).difference.interval.high > 1.0
    assert compare_by_task(*scores, Bounds(0.0, 1.0)).difference.interval.high == 1.0


def test_p_values_of_few_tasks_are_at_least_those_of_the_sign_test():
    assert compare_by_task([1.0] * 4, [0.0] * 4).p == pytest.approx(0.125)
    assert compare_by_task([1.0] * 6, [0.0] * 6).p < 0.05


def test_a_win_on_every_task_has_an_interval_with_a_width():
    number = bounded_mean([1.0] * 16)
    assert number.value == number.interval.high == 1.0 and 0.7 < number.interval.low < 0.9
    middle = bounded_mean([0.0, 1.0] * 8)
    assert middle.interval.low + middle.interval.high == pytest.approx(1.0)


def test_probability_of_improvement_counts_ties_half():
    assert share_of_wins(np.array([1.0, 2.0]), np.array([1.0, 0.0])) == pytest.approx(3.5 / 4)


def test_two_runs_that_win_leave_the_other_side_possible():
    number = improvement(np.array([2.0, 3.0]), np.array([0.0, 1.0]))
    assert number.value == number.interval.high == 1.0 and number.interval.low < 0.5
    mirrored = improvement(np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    assert mirrored.interval.high == pytest.approx(1.0 - number.interval.low)
    assert improvement(np.array([2.0]), np.array([0.0, 1.0])) is None


def test_more_runs_narrow_the_probability_of_improvement():
    lows = [improvement(np.arange(runs) + 100.0, np.arange(runs) + 0.0).interval.low for runs in (2, 3, 5, 10)]
    assert lows == sorted(lows) and lows[1] < 0.5 < lows[2] and lows[-1] > 0.75


def test_improvement_over_tasks_needs_two_runs_everywhere():
    many, one = np.array([1.0, 2.0]), np.array([1.0])
    assert improvement_over_tasks([many, one], [many, many]) is None
    assert improvement_over_tasks([many, many], [many, many]).value == 0.5
    assert improvement_over_tasks([many], [many]) == improvement(many, many)


def test_the_chance_of_two_entrants_over_tasks_is_that_of_the_t_test(scores):
    first, second = scores
    shares = first_over_tasks(np.array([first, second]).T, np.random.default_rng(0), 40_000)
    one_sided = stats.ttest_rel(first, second, alternative="greater").pvalue
    assert shares[0] == pytest.approx(1.0 - one_sided, abs=0.01)
    assert sum(shares) == pytest.approx(1.0)


def test_equal_entrants_share_the_first_place():
    matrix = np.random.default_rng(0).normal(size=(3, 8))
    assert first_on_task([matrix, matrix.copy()], np.random.default_rng(1), 4000) == pytest.approx([0.5, 0.5], abs=0.03)
    zeros = np.zeros((3, 8))
    assert first_on_task([zeros, zeros], np.random.default_rng(1), 10) == [0.5, 0.5]
    assert first_on_task([matrix, matrix[:1]], np.random.default_rng(1), 10) is None
    assert first_on_task([matrix[:1]], np.random.default_rng(1), 10) == [1.0]


def test_an_entrant_with_fewer_runs_is_taken_to_vary_like_those_with_more():
    """Five of ten runs found a trick that three of an equal entrant missed."""
    generator = np.random.default_rng(3)
    ten = np.array([[0.0], [1.0]] * 5) + 0.01 * generator.normal(size=(10, 32))
    three = 0.01 * generator.normal(size=(3, 32))
    assert max(first_on_task([ten, three], np.random.default_rng(1), 4000)) < 0.95


def test_probabilities_of_few_observations_stay_below_1():
    assert shrunk([1.0, 0.0], 1 / 16) == pytest.approx([15 / 16, 1 / 16])
    three = shrunk([1.0, 0.0, 0.0], 1 / 16)
    assert three[0] == pytest.approx(15 / 16) and sum(three) == pytest.approx(1.0)
