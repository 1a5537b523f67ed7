"""Policies that play through a translation see, and are recorded with, the visible task; their returns are the true
ones."""

from __future__ import annotations

import json

from conftest import PolicyPlayer, policy_source, toy_task
from evopolicygym.execution.records import Recording
from evopolicygym.tasks.conditions import TaskView, TextLevel

BLIND = TaskView(TextLevel.BLIND)


def test_at_the_blind_text_the_keys_of_spaces_have_no_meaning(tmp_path):
    act = """
    assert list(obs) == ["x0", "x1", "x2", "x3", "x4", "x5"], list(obs)
    assert list(self.spaces) == list(obs) and obs["x5"].startswith("step "), obs
    return {"x0": 0, "x1": [1, 2], "x2": (0, [0, 0]), "x3": [0, 0, 0], "x4": [0, 0]}
    """
    player = PolicyPlayer(toy_task("Everything-v0").seen(BLIND), tmp_path)
    source = policy_source(act, init="self.spaces = obs_space['spaces']")
    try:
        result = player.play(source, Recording(str(tmp_path / "episode")))
    finally:
        player.engine.close()
    assert (result.error, result.score) == (None, 30.0)
    lines = [json.loads(line) for line in (tmp_path / "episode" / "trajectory.jsonl").read_text().splitlines()]
    assert all(list(line["obs"]) == ["x0", "x1", "x2", "x3", "x4", "x5"] for line in lines)
    assert lines[3]["action"] == {"x0": 0, "x1": [1, 2], "x2": [0, [0, 0]], "x3": [0, 0, 0], "x4": [0.0, 0.0]}
    assert list(player.engine.obs_space["spaces"]) == list(lines[0]["obs"])


def test_a_task_without_keys_is_shown_as_it_is(tmp_path):
    player = PolicyPlayer(toy_task().seen(BLIND), tmp_path)
    try:
        assert player.play(policy_source()).score > 10.0
        assert player.engine.obs_space["shape"] == [2]
    finally:
        player.engine.close()
