"""Generated tasks over several keys: scores share a scale, each key counts the same, and conditions stay apart."""

from __future__ import annotations

import math

import pytest
from synthetic_records import synthetic_run

from evopolicygym.analysis.leaderboard.build import Leaderboard, leaderboard
from evopolicygym.analysis.leaderboard.text_tables import keys_table
from evopolicygym.run_record import RunRecord, TaskScale

TASK = "novel/control-1"


def novel_run(key: int, share: float, task: str = TASK, agent: str = "codex", budget: int = 128) -> RunRecord:
    """Return a run at a share of the way from trivial to expert, whose ends are others for each key."""
    low, high = 10.0 * key, 10.0 * key + 50.0
    value = low + share * (high - low)
    facts = {"world": f"w{key}-{task}", "env_options": {"draw": key, "low": low, "high": high}}
    run = synthetic_run((value, value), task, agent, splits=f"sealed:{key}", facts=facts, budget=budget)
    scale = TaskScale(low=low, high=high, draws=key + 1)
    return run.model_copy(update={"task": run.task.model_copy(update={"scale": scale})})


def board(runs: list[RunRecord]) -> Leaderboard:
    return leaderboard(runs, (), draws=100)


def test_each_key_counts_the_same():
    runs = [novel_run(1, 0.2), novel_run(1, 0.4), novel_run(1, 0.6), novel_run(2, 0.8)]
    (table,) = board(runs).keys
    (row,) = table.rows
    assert (row.task, row.entrant, row.keys, row.runs) == (TASK, "codex m", 2, 4)
    assert row.normalised.value == pytest.approx((0.4 + 0.8) / 2)
    assert row.between_keys == pytest.approx(math.sqrt(2 * 0.2**2))
    assert row.between_runs == pytest.approx(0.2)
    assert "2" in keys_table(table).rows[0]


def test_the_interval_over_keys_ends_with_the_scale_and_says_what_few_keys_are_worth():
    (table,) = board([novel_run(1, 0.95), novel_run(2, 0.8)]).keys
    interval = table.rows[0].normalised.interval
    assert 0.0 <= interval.low < 0.8 and interval.high == 1.0
    assert "95 % intervals from so few keys contained the true value in " in keys_table(table).title


def test_scores_of_chance_are_not_surely_above_the_best_trivial_policy():
    """Half of the runs are below 0, where the scale ends: the mean of what is left is above 0 under every key."""
    shares = (-0.30, 0.06, 0.24), (-0.10, -0.14, 0.24), (0.05, 0.19, -0.24), (0.22, -0.27, 0.11)
    runs = [novel_run(key, share) for key, of_key in enumerate(shares, 1) for share in of_key]
    (table,) = board(runs).keys
    (row,) = table.rows
    assert row.normalised.interval.low > 0.05 and row.normalised.value == pytest.approx(1.11 / 12)
    assert row.unclipped.interval.low < 0.0 and row.unclipped.value == pytest.approx(0.005)
    assert keys_table(table).rows[0][6] == "0.005"


def test_all_tasks_together_need_every_task():
    runs = [novel_run(key, share, task) for key in (1, 2) for task, share in ((TASK, 0.2), ("novel/control-2", 0.6))]
    runs += [novel_run(key, 0.9, agent="other") for key in (1, 2)]
    (table,) = board(runs).keys
    whole = [row for row in table.rows if row.task == "all tasks"]
    assert [(row.entrant, row.keys, row.runs) for row in whole] == [("codex m", 2, 4)]
    assert whole[0].normalised.value == whole[0].unclipped.value == pytest.approx(0.4)


def test_a_table_of_keys_needs_two_keys_under_the_same_conditions():
    assert board([novel_run(1, 0.2), novel_run(1, 0.3)]).keys == ()
    assert board([synthetic_run(), synthetic_run(splits="sealed:1")]).keys == ()
    assert board([novel_run(1, 0.2), novel_run(2, 0.2, budget=64)]).keys == ()


def test_tasks_of_one_key_share_a_board_and_aggregates():
    tasks = [f"novel/{family}-{level}" for family in ("control", "rules") for level in (1, 2)]
    made = board([novel_run(1, 0.1 * number, task) for number, task in enumerate(tasks)])
    (only,) = made.boards
    names = [aggregate.name for aggregate in only.aggregates]
    assert names == ["novel", "novel/control", "novel/level-1", "novel/level-2", "novel/rules"]
    (row,) = only.aggregates[0].standings
    assert row.normalised.value == pytest.approx(0.15)
