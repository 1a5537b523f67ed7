"""`evaluate`: a folder or a source, on chosen cases."""

from __future__ import annotations

import subprocess
import sys
from json import loads
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym import PolicyNotLoaded, UserError

POLICY = Path(__file__).parents[2] / "examples/acrobot"
TASK = "core16/acrobot"
BROKEN = """
class Policy:
    def __init__(self, obs_space, action_space, env_meta): pass
    def reset(self, episode_index): pass
    def act(self, obs): raise ValueError("on purpose")
"""


def test_a_folder_and_its_source_score_the_same_as_the_command(tmp_path):
    folder = evopolicygym.evaluate(POLICY, TASK, seeds="paper", cases="0-2", split="heldout")
    source = evopolicygym.evaluate(
        (POLICY / "policy.py").read_text(),
        evopolicygym.load_task(TASK),
        seeds="paper",
        cases=[0, 1, 2],
        split="heldout",
    )
    options = ["--seeds", "paper", "--cases", "0-2", "--split", "heldout", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "evopolicygym", "evaluate", str(POLICY), TASK, *options], capture_output=True, check=True
    )
    printed = loads(done.stdout)
    assert folder.returns == source.returns == tuple(episode["score"] for episode in printed["episodes"])
    assert folder.mean == printed["mean"] and folder.ids.comparable_id == printed["comparable_id"]
    assert set(folder.as_dict()) == set(printed)


def test_results_are_a_data_frame(tmp_path):
    steps: list[tuple[int, int]] = []
    evaluation = evopolicygym.evaluate(
        BROKEN, TASK, seeds="paper", cases=[3, 3, 1], progress=lambda *step: steps.append(step)
    )
    frame = evaluation.to_pandas()
    assert frame["case"].tolist() == [3, 3, 1] and frame["return"].tolist() == list(evaluation.returns) == [-500.0] * 3
    assert frame["error"].tolist() == ["act_error"] * 3 and evaluation.failed == 3
    assert {type(error) for error in frame["error"]} == {str}
    assert evaluation.episodes[0].error.text.endswith("ValueError: on purpose\n")
    assert repr(evaluation) == (
        "Evaluation(task='core16/acrobot', split='train', splits_id='paper', mean=-500.0, "
        "episodes=3, failed=3, faults=0)"
    )
    assert steps == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_episodes_are_recorded(tmp_path):
    evopolicygym.evaluate(POLICY, TASK, seeds="paper", cases=[0], record=tmp_path / "new")
    assert (tmp_path / "new/ep_000/trajectory.jsonl").is_file()
    with pytest.raises(UserError, match="is not empty"):
        evopolicygym.evaluate(POLICY, TASK, seeds="paper", cases=[0], record=tmp_path / "new")


def test_a_policy_that_does_not_load_is_an_exception():
    with pytest.raises(PolicyNotLoaded, match="nothing_of_this_name") as caught:
        evopolicygym.evaluate("print('hello')\nimport nothing_of_this_name\n", TASK, seeds="paper", cases=[0])
    assert (caught.value.error.kind, caught.value.stdout) == ("import_error", "hello\n")


@pytest.mark.parametrize(
    ("policy", "options", "message"),
    [
        ("nowhere", {}, "nowhere is not a folder"),
        (POLICY, {"split": "test"}, "Choose one of 'train', 'validation', 'heldout'"),
        (POLICY, {"seeds": "open"}, "Choose one of 'paper', 'sealed'"),
        (POLICY, {"isolation": "C"}, "Choose one of 'auto', 'A', 'B', 'none'"),
        (POLICY, {"jobs": 0}, "jobs is 0"),
        (POLICY, {"cases": []}, "no cases are named"),
        (POLICY, {"cases": [5000]}, "case 5000 is out of range"),
        *((POLICY, {"cases": [case]}, "cases holds") for case in (0.5, True, "0", None)),
        ("", {}, "policy is an empty string"),
        (None, {}, "policy is None"),
        ("a\0b", {}, "which is not a path"),
        ("a\ud800", {}, "is not a"),
        ("a" * 5000, {}, "a path of 5000 characters"),
        (BROKEN + "#\0\n", {}, "holds a NUL"),
        (BROKEN + "#\ud800\n", {}, "half of a surrogate pair"),
        (POLICY, {"record": "a\0b"}, "which is not a path"),
        (POLICY, {"video": True}, "a video needs a place"),
        (POLICY, {"record": POLICY / "inside"}, "lies in the policy's folder"),
        (POLICY, {"ray_address": "auto"}, "needs Ray"),
    ],
)
def test_wrong_arguments_are_named(policy, options, message):
    with pytest.raises(UserError, match=message):
        evopolicygym.evaluate(policy, TASK, **{"seeds": "paper", "cases": [0]} | options)
    assert not (POLICY / "inside").exists()


def test_tasks_by_id_and_file(tmp_path):
    published = [name for name in evopolicygym.list_tasks() if name.startswith("core16/")]
    generated = [name for name in evopolicygym.list_tasks() if name.startswith("novel/")]
    assert len(published) == len(generated) == 16
    assert all(evopolicygym.load_task(name).id == name for name in published)
    with pytest.raises(UserError, match="Did you mean core16/acrobot"):
        evopolicygym.load_task("core16/acrobat")
    with pytest.raises(UserError):
        evopolicygym.load_task(tmp_path / "nowhere.toml")
