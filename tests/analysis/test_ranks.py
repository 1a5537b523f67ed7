"""Ranks: equals share the best one, and the order of the entrants means nothing."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evopolicygym.analysis.stats.bootstrap import probability_of_improvement
from evopolicygym.analysis.stats.estimates import Estimate
from evopolicygym.analysis.stats.ranks import RankInterval, drawn_ranks, over_tasks, rank_intervals, rank_score, ranks

VALUES = st.lists(st.sampled_from([-1.5, 0.0, 0.25, 7.0, 1e9]) | st.floats(-10, 10), min_size=1, max_size=8)


def test_ties_share_the_best_rank():
    assert ranks([0.0, 3.0, 3.0, -1.0, 0.0]) == [3, 1, 1, 5, 3]


def test_one_entrant_has_no_rank_score():
    assert rank_score(1, 1) is None
    assert over_tasks([(1, 1)]).score is None


def test_every_tie_for_the_first_place_is_a_win():
    total = over_tasks([(1, 5), (2, 5), (3, 5), (1, 5)])
    assert (total.wins, total.top2, total.score) == (2, 3, (1.0 + 0.75 + 0.5 + 1.0) / 4)


@given(VALUES, st.randoms())
def test_a_permutation_of_the_entrants_permutes_the_ranks(values, shuffler):
    order = list(range(len(values)))
    shuffler.shuffle(order)
    assert ranks([values[i] for i in order]) == [ranks(values)[i] for i in order]


@given(VALUES)
def test_ranks_count_who_is_strictly_greater(values):
    found = ranks(values)
    assert min(found) == 1
    for i, one in enumerate(values):
        for j, other in enumerate(values):
            assert (found[i] < found[j]) == (one > other)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=6))
def test_ranks_of_draws_are_the_same_ranks(values):
    drawn = drawn_ranks(np.array(values, dtype=float)[:, None])
    assert drawn[:, 0].tolist() == ranks(values)


def test_the_order_of_summation_makes_no_difference_between_draws():
    assert drawn_ranks(np.array([[0.1 + 0.2], [0.3]]))[:, 0].tolist() == [1, 1]


def test_rank_intervals_follow_from_significant_differences():
    """The first surely beats the third; nothing else is sure."""
    sure, unsure = (
        Estimate(1.0, variance=1e-4, variance_uncertainty=1e-10),
        Estimate(0.1, variance=1.0, variance_uncertainty=0.1),
    )
    found = rank_intervals(3, lambda i, j: sure.scaled(-1.0) if (i, j) == (2, 0) else unsure)
    assert found == [RankInterval(1, 2), RankInterval(1, 3), RankInterval(2, 3)]


def test_without_an_error_estimate_any_rank_is_possible():
    assert rank_intervals(2, lambda i, j: Estimate(5.0, one_run=1, one_case=1)) == [
        RankInterval(1, 2),
        RankInterval(1, 2),
    ]


def test_many_entrants_and_many_runs_need_little_memory():
    """All pairs at once would need 400 MB for the ranks, and as much for the runs."""
    draws = np.random.default_rng(0).normal(size=(200, 1250))
    tracemalloc.start()
    ranked = drawn_ranks(draws)
    share = probability_of_improvement([draws], [draws])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50 << 20
    assert sorted(ranked[:, 0]) == list(range(1, 201)) and (share == 0.5).all()
