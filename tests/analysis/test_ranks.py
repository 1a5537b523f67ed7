"""Ranks: equals share the best one, and the order of the entrants means nothing."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evopolicygym.analysis.stats.first_place import share_of_first
from evopolicygym.analysis.stats.improvement import share_of_wins
from evopolicygym.analysis.stats.ranks import RankInterval, over_tasks, rank_intervals, rank_score, ranks

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
    ranked = ranks(values)
    assert min(ranked) == 1
    for i, value in enumerate(values):
        for j, other in enumerate(values):
            assert (ranked[i] < ranked[j]) == (value > other)


def test_rank_intervals_follow_from_significant_differences():
    """The first surely beats the third; nothing else is sure."""
    intervals = rank_intervals(3, lambda i, j: (-1.0, 0.001) if (i, j) == (2, 0) else (0.1, 0.5))
    assert intervals == [RankInterval(1, 2), RankInterval(1, 3), RankInterval(2, 3)]


def test_rank_intervals_are_corrected_for_the_number_of_pairs():
    """A difference that is significant by itself is not among six pairs."""
    alone, among = (rank_intervals(count, lambda i, j: (-1.0, 0.02 if (i, j) == (1, 0) else 0.9)) for count in (2, 4))
    assert alone == [RankInterval(1, 1), RankInterval(2, 2)]
    assert set(among) == {RankInterval(1, 4)}


def test_without_p_values_every_rank_is_possible():
    assert rank_intervals(2, lambda i, j: (5.0, None)) == [RankInterval(1, 2), RankInterval(1, 2)]


def test_many_entrants_and_many_runs_need_little_memory():
    """All pairs at once would need 400 MB."""
    draws = np.random.default_rng(0).normal(size=(1250, 200))
    tracemalloc.start()
    shares, wins = share_of_first(draws), share_of_wins(draws[:, 0], draws[:, 0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50 << 20
    assert abs(sum(shares) - 1.0) < 1e-9
    assert wins == 0.5
