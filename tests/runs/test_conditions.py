"""Conditions of a run that make no sense are refused before anything is opened."""

from __future__ import annotations

import json

import pytest

from conftest import policy_source
from evopolicygym.errors import UserError
from evopolicygym.runs.settings import RunSettings
from server_helpers import SMALL, TOY, command


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--text", "long"), "Invalid value for '--text': 'long' is not one of 'brief', 'full', 'blind'"),
        (("--variant", "disguised", "--text", "full"), "a disguised task has no text full"),
        (("--text", "blind", "--feedback", "video"), "a video would show what the blind text hides"),
        (("--variant", "shifted"), "shift"),
    ],
)
def test_a_run_under_impossible_conditions_is_not_opened(tmp_path, options, said):
    done = command("serve", TOY, "--run", tmp_path / "run", *SMALL, *options, env=None)
    assert done.returncode == 2 and said in " ".join(done.stderr.replace("\u2502", " ").split())
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_continued_with_another_text(serve, tmp_path):
    server = serve(*SMALL, "--text", "full")
    server.process.terminate()
    server.process.wait()
    for options in (("--text", "brief"), ("--own-models", "forbidden"), ("--feedback", "score")):
        done = command("serve", TOY, "--run", server.root, *SMALL, *options)
        assert done.returncode == 2 and "holds a run with other settings" in done.stderr


def test_a_disguise_implies_the_blind_text():
    assert RunSettings.make(task=TOY, variant="disguised").text == "blind"
    with pytest.raises(UserError, match="has no text brief"):
        RunSettings.make(task=TOY, variant="disguised", text="brief")


@pytest.mark.parametrize("text", ["brief", "blind"])
def test_errors_of_the_simulator_and_of_the_judge_do_not_name_a_blind_task(serve, text):
    """The judge's log has what the agent is not told."""
    raising = serve(*SMALL, "--text", text, task="toys:Raising-v0", name="first")
    raising.policy(policy_source("return 2"))
    shown = json.dumps(raising.submit([0])[1]) + (raising.workspace / "feedback/submit_001/errors.txt").read_text()
    assert "simulator_error" in shown and ("toy" in shown) == (text == "brief")
    importing = serve(*SMALL, "--text", text, task="toys:Importing-v0", name="second")
    importing.policy()
    replies = json.dumps([importing.submit([0])[1], importing.submit([0])[1]])
    assert "judge" in replies and ("a_package_that_nobody_has" in replies) == (text == "brief")
    assert "a_package_that_nobody_has" in (importing.root / "logs" / "judge.log").read_text()
