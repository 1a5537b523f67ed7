"""Conditions of a run that make no sense are refused before anything is opened."""

from __future__ import annotations

import pytest

from evopolicygym.errors import UserError
from evopolicygym.runs.settings import RunSettings
from server_helpers import SMALL, TOY, command


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--text", "long"), "'long' is not one of 'brief', 'full', 'blind'"),
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
