"""The analysis commands as processes."""

from __future__ import annotations

import json

import pytest
from synthetic_records import suite, synthetic_run, write

from command_server import run_command as run
from evopolicygym.reference.paper import document

TASKS = ["core16/acrobot", "core16/ant"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write(suite({"codex": 0.9}, 2, tasks=TASKS), folder / "a")
    write(suite({"kimi": 0.2}, 2, tasks=TASKS), folder / "b")
    return folder


def test_leaderboard_prints_entrants_intervals_and_what_they_are(runs):
    done = run("leaderboard", runs)
    assert done.returncode == 0, done.stderr
    assert "core16/acrobot" in done.stdout
    assert "N = 2: codex m, kimi m" in done.stdout
    assert "not ranked, because no entrant has all tasks of the group: core16 (at most 2 of 16)" in done.stdout
    assert done.stderr == ""


def test_leaderboard_as_json_with_the_papers_rows(runs):
    done = run("leaderboard", runs, "--paper", "--json")
    assert done.returncode == 0, done.stderr
    (board,) = json.loads(done.stdout)["boards"]
    assert board["paper_rows"] == "mixed"
    assert board["tasks"][0]["entrants"] == 6


def test_broken_runs_are_named_and_the_exit_code_says_so(runs, tmp_path):
    write([synthetic_run()], tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{}")
    done = run("leaderboard", tmp_path)
    assert done.returncode == 1
    assert "codex m" in done.stdout
    assert f"skipped {tmp_path / 'broken'}" in done.stderr


def test_missing_runs_are_named_and_the_exit_code_says_so(tmp_path):
    write([synthetic_run(), synthetic_run(None, status="closed", name="half")], tmp_path)
    done = run("leaderboard", tmp_path)
    assert done.returncode == 1
    assert "missing: codex m, half" in done.stdout


def test_control_characters_in_names_of_agents_are_escaped(tmp_path):
    write([synthetic_run(agent="evil\x1b[2J[bold]")], tmp_path)
    done = run("leaderboard", tmp_path)
    assert "\x1b" not in done.stdout
    assert "evil\\x1b[2J[bold] m" in done.stdout


def test_one_entrant_on_plain_and_disguised_tasks_has_a_knowledge_gap(tmp_path):
    """`compare` needs no second side then; the plain and the disguised runs of two entrants are compared apart."""
    disguise = {"text": "blind", "variant": "disguised"}
    made = []
    for agent in ("codex", "kimi"):
        for task, score in (("core16/acrobot", -80.0), ("core16/ant", 900.0)):
            facts = {"text": "blind", "variant": {"name": "disguised", "key": task, "disguise": "d"}}
            made.append(
                synthetic_run((score, score + 1), task, agent, facts={"text": "brief"}, options={"text": "brief"})
            )
            made.append(synthetic_run((score - 50, score - 51), task, agent, facts=facts, options=disguise))
    write(made[:4], tmp_path / "codex")
    write(made[4:], tmp_path / "kimi")
    done = run("compare", tmp_path / "codex")
    assert done.returncode == 0, done.stderr
    assert "knowledge gap of codex m: plain (text: brief) minus disguised" in done.stdout
    assert "overall, normalised" in done.stdout and "2 tasks" in done.stdout and "against" not in done.stdout
    (gap,) = json.loads(run("compare", tmp_path / "codex", "--json").stdout)["knowledge_gaps"]
    assert [task["gap"]["value"] for task in gap["tasks"]] == [51.0, 51.0] and gap["normalised"]["interval"]
    both = run("compare", tmp_path / "codex", tmp_path / "kimi").stdout
    assert "(second): text brief, variant plain" in both and "(second): text blind, variant disguised" in both
    board = run("leaderboard", tmp_path)
    assert board.stdout.count("knowledge gap of ") == 2 and board.returncode == 0
    write(made[:4:2], tmp_path / "sides" / "plain")
    write(made[1:4:2], tmp_path / "sides" / "disguised")
    sides = run("compare", tmp_path / "sides" / "plain", tmp_path / "sides" / "disguised")
    assert sides.returncode == 0 and "; its knowledge gap is below" in sides.stdout, sides.stderr
    assert "variant: plain, not disguised" in sides.stdout and "variant.name" not in sides.stdout


def test_compare_two_folders(runs):
    done = run("compare", runs / "a", runs / "b")
    assert done.returncode == 0, done.stderr
    assert "codex m (first) against kimi m (second)" in done.stdout
    comparison = json.loads(run("compare", runs / "a", runs / "b", "--json").stdout)
    assert comparison["pairs"][0]["overall"]["test"]["difference"]["value"] == pytest.approx(0.7, abs=0.2)


def test_compare_says_what_could_not_be_compared(runs, tmp_path):
    write([synthetic_run(task="core16/pusher", agent="kimi")], tmp_path)
    done = run("compare", runs / "a", tmp_path)
    assert done.returncode == 1
    assert "not compared: core16/pusher: codex m has no score" in done.stdout


def test_one_side_cannot_be_compared(runs):
    done = run("compare", runs / "a")
    assert done.returncode == 2
    assert "compare needs two sides" in done.stderr


@pytest.mark.parametrize("command", ["leaderboard", "compare"])
def test_a_path_without_runs_is_bad_input(command, tmp_path):
    done = run(command, tmp_path)
    assert done.returncode == 2
    assert "no run below" in done.stderr


def test_reproduce():
    done = run("reproduce")
    assert done.returncode == 0
    assert done.stdout.endswith("verdict: reproduced\n")


def test_reproduce_with_an_altered_cell(tmp_path):
    given = json.loads(run("reproduce", "--json").stdout)["input"]
    assert given == document().model_dump()
    given["table1"]["core16/pusher"]["MiniMax-M3"] = -20.0
    (tmp_path / "input.json").write_text(json.dumps(given))
    done = run("reproduce", "--input", tmp_path / "input.json")
    assert done.returncode == 1
    assert "altered: Table 1, core16/pusher, MiniMax-M3: -20.0, printed -39.245446618032645" in done.stdout
    assert "differs: Table 2, MiniMax-M3, mujoco" in done.stdout
    assert done.stdout.endswith("verdict: NOT reproduced\n")
