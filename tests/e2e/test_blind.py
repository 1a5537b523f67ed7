"""Nothing that an agent can read gives a blind task away: a real agent in its sandbox looks for every name."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from evopolicygym.errors import UserError
from evopolicygym.judge.events import Closed
from evopolicygym.runs.folder_names import check_path_is_neutral
from evopolicygym.runs.open_run import open_run
from evopolicygym.runs.settings import RunSettings
from evopolicygym.tasks.registry import core16, find_task
from server_helpers import TOY, command
from text_facts import names_of

DUMP = Path(__file__).parent / "dump_all.py"
FEW = ("--budget", "4", "--validation-cases", "1", "--heldout-cases", "1", "--jobs", "1", "--seeds", "paper")
DENIED = re.compile(r'"denied_imports": ?\[[^]]*\]')  # the same for all tasks


def lines_read(folder: Path, task: str, *options: str) -> set[str]:
    """Return all lines that the agent of a run could read."""
    program = folder / "agent" / "dump_all.py"
    program.parent.mkdir(parents=True)
    program.write_bytes(DUMP.read_bytes())
    words = ("run", task, "--json", *FEW, *options, "--agent", "command", "--", sys.executable, program)
    done = command(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["budget"]["charged"] == 4
    (root,) = (folder / "runs").iterdir()
    text = (root / "workspace" / "everything.txt").read_text()
    assert all(sign in text for sign in ("no_such_module", "KeyError", "max_episode_steps", "=== environ"))
    return set(DENIED.sub("", text).splitlines())


@pytest.fixture(scope="module")
def of_any_task(tmp_path_factory) -> set[str]:
    """What the agent of any task reads, such as the programs of built-in agents."""
    return lines_read(tmp_path_factory.mktemp("any"), TOY, "--text", "blind")


def names_told(task: str, lines: set[str]) -> set[str]:
    return names_of(core16()[task]).found_in("\n".join(lines))


@pytest.mark.parametrize(
    ("slug", "options"),
    [
        ("acrobot", ("--variant", "disguised")),
        ("reacher", ("--agent-isolation", "B")),
        pytest.param("four-rooms", (), marks=pytest.mark.slow),
        pytest.param("fetch-push", (), marks=pytest.mark.slow),
    ],
)
def test_nothing_that_an_agent_can_read_names_a_blind_task(tmp_path, of_any_task, slug, options):
    read = lines_read(tmp_path, f"core16/{slug}", "--text", "blind", *options)
    assert not names_told(f"core16/{slug}", read - of_any_task)


def test_the_same_agent_finds_the_names_of_a_task_that_is_told(tmp_path, of_any_task):
    read = lines_read(tmp_path, "core16/parking", "--text", "full")
    assert {"core16/parking", "parking-v0", "desired_goal"} <= names_told("core16/parking", read - of_any_task)


@pytest.mark.parametrize("name", ["acrobot-1", "Acrobot", "my_acrobot/1", "myacrobotruns"])
def test_a_folder_that_names_a_blind_task_is_found(tmp_path, name):
    settings = RunSettings.make(task="core16/acrobot", text="blind")
    with pytest.raises(UserError, match=r"names the task \(acrobot\)"):
        check_path_is_neutral(tmp_path / name, settings, find_task("core16/acrobot"))


def test_a_folder_that_names_a_blind_task_is_refused(tmp_path):
    """Also for a suite, whose runs lie in its folder."""
    name = "my_acrobot/1"
    done = command("serve", "core16/acrobot", "--run", tmp_path / name, "--text", "blind")
    assert done.returncode == 2 and "names the task (acrobot)" in done.stderr
    suite = tmp_path / "suite.toml"
    suite.write_text('tasks = ["core16/acrobot"]\nagents = {starter = {}}\ndefaults = {text = "blind"}')
    planned = command("suite", "run", suite, "--folder", tmp_path / name)
    assert planned.returncode == 2 and "names the task (acrobot)" in planned.stderr
    assert "--folder" in planned.stderr and "--run" not in planned.stderr
    assert not (tmp_path / Path(name).parts[0]).exists()


def test_a_link_to_a_folder_that_names_a_blind_task_is_refused(tmp_path):
    (tmp_path / "acrobot").mkdir()
    (tmp_path / "link").symlink_to("acrobot")
    suite = tmp_path / "suite.toml"
    suite.write_text('tasks = ["core16/acrobot"]\nagents = {starter = {}}\ndefaults = {text = "blind"}')
    for words in (
        ("serve", "core16/acrobot", "--run", tmp_path / "link" / "1", "--text", "blind"),
        ("suite", "run", suite, "--folder", tmp_path / "link" / "1"),
    ):
        done = command(*words)
        assert done.returncode == 2 and "names the task (acrobot)" in done.stderr, done.stderr
    assert not list((tmp_path / "acrobot").iterdir())


def test_a_path_shown_to_the_agent_that_names_a_blind_task_is_refused(tmp_path):
    notes = tmp_path / "acrobot-notes.txt"
    notes.touch()
    words = ("run", "core16/acrobot", "--run", tmp_path / "1", "--text", "blind", "--show", notes, "--agent", "command")
    done = command(*words, "--", "true")
    assert done.returncode == 2 and f"sees {notes}, and that path names the task (acrobot)" in done.stderr, done.stderr
    assert not (tmp_path / "1").exists()


def test_a_short_name_within_a_word_does_not_name_a_task(tmp_path):
    settings = RunSettings.make(task="core16/ant", text="blind")
    check_path_is_neutral(tmp_path / "constant", settings, find_task("core16/ant"))
    with pytest.raises(UserError, match=r"names the task \(ant\)"):
        check_path_is_neutral(tmp_path / "ant_1", settings, find_task("core16/ant"))


def test_a_blind_run_that_was_moved_to_a_folder_that_names_its_task_is_not_resumed(tmp_path):
    neutral, telling = tmp_path / "1", tmp_path / "toy-1"
    given = {"task": TOY, "text": "blind", "jobs": 1, "seeds": "paper"}
    with open_run(neutral, **given):
        pass
    neutral.rename(telling)
    with pytest.raises(UserError, match=r"names the task \(toy\)") as raised, open_run(telling, **given):
        pass
    assert "Move the run" in raised.value.remedy
    telling.rename(neutral)
    with open_run(neutral, **given) as run:
        run.judge.record(Closed("test"))
    neutral.rename(telling)
    with open_run(telling, **given):  # no agent sees it any more
        pass
