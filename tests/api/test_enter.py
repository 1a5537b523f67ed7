"""A policy that was made elsewhere becomes a run: validated, measured, verifiable, and marked as entered."""

from __future__ import annotations

import pytest

import evopolicygym
from conftest import policy_source, write_policy
from server_helpers import command

SMALL = {"budget": 4, "validation_cases": 1, "heldout_cases": 2, "seeds": "paper"}
TASK = "toys:Toy-v0"


def test_a_policy_from_elsewhere_is_a_row_beside_the_runs_of_agents(tmp_path):
    for seed in (1, 2):
        policy = write_policy(tmp_path / f"ppo-{seed}", policy_source(act=f"return {seed - 1}"))
        made = evopolicygym.enter(policy, TASK, "PPO", folder=tmp_path / "runs" / str(seed), **SMALL)
    assert (made.name, made.outcome, made.agent, made.publishable) == ("PPO", "scored", None, True)
    record = made.record
    assert record.entered and record.budget.charged == 0 and record.times.closed_because == "policy_entered"
    assert evopolicygym.verify(made.folder, task=TASK).ok

    def agent(workspace):
        workspace.submit([0])

    played = evopolicygym.run(TASK, agent, name="mine", folder=tmp_path / "runs" / "agent", **SMALL)
    assert played.record.ids.comparable_id == record.ids.comparable_id
    boards = evopolicygym.leaderboard(tmp_path / "runs").boards
    (row,) = boards[0].tasks[0].rows
    assert (row.entrant, row.runs, row.gain) == ("PPO", 2, None)
    assert row.flags == ("entered: made elsewhere, no train episode was played (2 of 2)",)
    assert {summary.entrant for summary in evopolicygym.analyze(tmp_path / "runs").groups} == {"PPO", "mine"}


def test_a_policy_that_does_not_load_leaves_no_run(tmp_path):
    policy = write_policy(tmp_path / "policy", "raise ValueError('no')")
    with pytest.raises(evopolicygym.PolicyNotLoaded):
        evopolicygym.enter(policy, TASK, "broken", folder=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()


def test_options_that_would_not_be_used_are_refused(tmp_path):
    asked = command("evaluate", tmp_path, TASK, "--enter", "me", "--split", "train")
    assert asked.returncode == 2 and "--split cannot be given with --enter" in asked.stderr
    asked = command("evaluate", tmp_path, TASK, "--budget", "4")
    assert asked.returncode == 2 and "--budget needs --enter NAME" in asked.stderr
