"""Which entrants are on the Pareto front, and how sure that is."""

from __future__ import annotations

import numpy as np

from evopolicygym.analysis.stats.pareto import pareto_front

TASKS = 16


def around(value, seed, spread=0.05):
    return list(value + np.random.default_rng(seed).normal(0.0, spread, TASKS))


def test_clearly_better_entrants_are_surely_on_the_front():
    scores = [around(0.9, 1), around(0.5, 2), around(0.4, 3)]
    dollars = [around(9.0, 4), around(1.0, 5), around(5.0, 6)]
    assert pareto_front(scores, dollars) == ["surely", "surely", "no"]


def test_equal_entrants_are_all_possibly_on_the_front():
    scores = [around(0.5, seed, 0.3) for seed in range(4)]
    assert set(pareto_front(scores, [around(2.0, 10 + seed, 1.0) for seed in range(4)])) == {"possibly"}


def test_scores_decide_at_equal_costs_and_costs_at_equal_scores():
    assert pareto_front([around(0.9, 1), around(0.5, 2)], [[1.0] * TASKS] * 2) == ["surely", "no"]
    same = around(0.5, 1)
    assert pareto_front([same, same], [around(1.0, 2), around(5.0, 3)]) == ["surely", "no"]


def test_two_tasks_prove_no_place_on_the_front():
    assert pareto_front([[0.9, 0.9], [0.1, 0.1]], [[1.0, 1.0], [9.0, 9.0]]) == ["possibly", "possibly"]
    assert pareto_front([[0.9]], [[1.0]]) == ["surely"]
