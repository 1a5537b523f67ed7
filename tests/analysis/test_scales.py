"""Scale 2: bounded scores, failures as a rate of their own, and orders under other choices."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_records import suite, synthetic_run

from evopolicygym.analysis.leaderboard.build import leaderboard
from evopolicygym.analysis.leaderboard.sensitivity import sensitivity
from evopolicygym.analysis.scales import bounded_runs, run_scores, scale_of, with_scales
from evopolicygym.analysis.scores import run_score
from evopolicygym.errors import UserError
from evopolicygym.reference.anchors import stored_anchors
from evopolicygym.reference.paper import core16
from evopolicygym.reference.scales import Scale, scales

CHEETAH = "core16/half-cheetah"
FAILURE = -20_000.0


def core_rows(runs, scale=2):
    (board,) = leaderboard(runs, [], draws=50, scale=scale).boards
    return {row.entrant: row for row in board.aggregates[0].standings}


def expert_runs(agent, tasks, **more):
    return [synthetic_run([scales()[task].high] * 4, task, agent, failure_return=FAILURE, **more) for task in tasks]


def test_one_run_without_a_policy_costs_one_task_and_is_shown():
    """On scale 1 it outweighed fifteen tasks at the best agent's level."""
    tasks = core16()
    failure = synthetic_run(None, tasks[-1], "unlucky", kind="no_ok_submit", cases=4, failure_return=FAILURE)
    runs = [*expert_runs("unlucky", tasks[:-1]), failure, *expert_runs("steady", tasks)]
    runs += suite({"poor": 0.1}, 1, cases=4)
    table = core_rows(runs)
    assert [table[name].rank for name in ("steady m", "unlucky m", "poor m")] == [1, 2, 3]
    assert table["unlucky m"].normalised.value == pytest.approx(15 / 16)
    assert (table["unlucky m"].failed, table["unlucky m"].without_policy) == (1 / 16, 1)
    assert (table["steady m"].failed, table["steady m"].without_policy) == (0.0, 0)
    assert core_rows(runs, scale=1)["unlucky m"].rank == 3


def test_trivial_policies_share_the_last_rank():
    anchors = stored_anchors().tasks
    runs = [
        synthetic_run(getattr(anchors[task], name).returns[0], task, name, facts=anchors[task].fingerprint)
        for task in core16()
        for name in ("constant", "zero")
    ]
    (board,) = leaderboard(runs, [stored_anchors()], draws=50, with_paper=True).boards
    table = {row.entrant: row for row in board.aggregates[0].standings}
    trivial = [table[name] for name in ("constant m", "zero m", "random policy")]
    assert [(row.rank, row.normalised.value) for row in trivial] == [(5, 0.0)] * 3
    assert all(row.unclipped < 0.0 for row in trivial)


def test_a_failed_episode_counts_as_the_lower_end():
    high = scales()[CHEETAH].high
    run = synthetic_run([FAILURE, high, high, high], CHEETAH, failed=1, failure_return=FAILURE)
    ((row,),) = [table.rows for table in leaderboard([run], [], draws=50).boards[0].tasks]
    assert row.score == pytest.approx((FAILURE + 3 * high) / 4)
    assert (row.normalised, row.failed) == (pytest.approx(0.75), 0.25)
    old = leaderboard([run], [], draws=50, scale=1).boards[0].tasks[0].rows[0]
    assert old.normalised == pytest.approx(scales(1)[CHEETAH].normalise(row.score)) and old.normalised < -1.0


def test_runs_are_bounded_one_by_one_and_cases_keep_their_spread():
    scale = Scale(0.0, 10.0)
    returns = np.array([[18.0, 22.0], [-5.0, -15.0], [4.0, 6.0]])
    bounded = bounded_runs(returns, scale)
    assert bounded.mean(axis=1).tolist() == pytest.approx([1.0, 0.0, 0.5])
    assert np.ptp(bounded, axis=1).tolist() == pytest.approx([0.4, 1.0, 0.2])
    assert bounded_runs(returns, Scale(0.0, 10.0, version=1)).tolist() == pytest.approx(returns / 10.0)


@pytest.mark.parametrize(("version", "expected"), [(1, 3.0), (2, 1.0)])
def test_the_version_is_chosen_for_an_analysis(version, expected):
    ends = scales(version)[CHEETAH]
    (run,) = with_scales([synthetic_run([ends.low + 3.0 * ends.unit] * 2, CHEETAH)], [], version)
    assert scale_of(run) == ends
    assert run_scores([run_score(run)], ends).tolist() == pytest.approx([expected])


def test_there_is_no_scale_3():
    with pytest.raises(UserError, match="no scale 3"):
        with_scales([], [], 3)


def test_a_constant_policy_is_no_agent():
    """The constant scores 2.16 on Parking and standing still 1.004 on Ant by scale 1."""
    for task in ("core16/parking", "core16/ant"):
        low = scales()[task].low
        assert scales()[task].normalise(low) == 0.0
        assert scales(1)[task].normalise(low) > 1.0


def orders(scores, returns=None, other=None):
    arrays = {name: [np.array([value]) for value in row] for name, row in scores.items()}
    others = {"scale 1": {name: [np.array([value]) for value in row] for name, row in other.items()}} if other else {}
    return sensitivity(["t1", "t2", "t3"], arrays, returns or scores, others)


def test_an_order_that_rests_on_one_task_is_named():
    sensitivity = orders({"a": [1.0, 0.4, 0.4], "b": [0.2, 0.5, 0.5]})
    assert (
        "without t1" in sensitivity.changing
        and "median" in sensitivity.changing
        and "rank score" in sensitivity.changing
    )
    assert "without t2" not in sensitivity.changing
    assert sensitivity.left_out_ranks("a") == (1, 2)


def test_a_clear_order_holds_in_every_variation():
    sensitivity = orders(
        {"a": [0.9, 0.8, 0.7], "b": [0.3, 0.2, 0.1]}, other={"a": [2.0, 2.0, 2.0], "b": [1.0, 1.0, 1.0]}
    )
    assert sensitivity.changing == []
    assert [order.choice for order in sensitivity.choices] == ["interquartile mean", "median", "rank score", "scale 1"]


def test_entrants_that_become_equal_are_not_reversed():
    sensitivity = orders({"a": [0.9, 0.5, 0.5], "b": [0.8, 0.5, 0.5]}, other={"a": [0.0] * 3, "b": [1.0] * 3})
    assert sensitivity.changing == ["scale 1"]


def test_one_entrant_has_no_order():
    assert orders({"a": [1.0, 1.0, 1.0]}) is None
