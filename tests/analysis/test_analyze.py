"""`analyze` as a process: data on stdout, messages on stderr, exit codes."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import time
from dataclasses import replace

import pytest
from run_folders import source, write_run

from command_server import run_command
from evopolicygym import analyze
from evopolicygym.analysis.analyze import by_conditions
from evopolicygym.analysis.diagnostics import diagnose
from evopolicygym.analysis.loading import RunFolder, open_run_folder
from evopolicygym.analysis.stats.estimates import Interval

STEPS = [
    source("a = 1", validation=1),
    source("a = 2", validation=3),
    source("b = [1]", validation=2),
    source("a = 3", validation=3),
    source("a = ", verdict="import_error"),
]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_command("analyze", *arguments)


@pytest.fixture
def runs(tmp_path):
    write_run(tmp_path / "runs" / "one", STEPS)
    write_run(tmp_path / "runs" / "two", STEPS[:1], demand="synthesis", task="core16/door-key", agent=None)
    return tmp_path / "runs"


def test_tables_for_people(runs):
    done = run(runs)
    assert (done.returncode, done.stderr) == (0, "")
    words = [line.split() for line in done.stdout.splitlines()]
    assert "one core16/acrobot tuner full text 2 4 5 4 1 3 123 1 4".split() in words
    assert "one    0/1        1/1         0/1       0/0       0/0   0/0     0/0  0  0    3".split() in words
    assert "full text tuner tuning 1 parametric 1 1 100 % 21 % 100 %".split() in [line[:14] for line in words]
    assert "by hand" in done.stdout
    assert "this run alone" in done.stdout


def test_everything_as_json(runs):
    done = run(runs, "--json")
    report = json.loads(done.stdout)
    first, second = report["runs"]
    assert [event["kind"] for event in first["timeline"]] == ["first", "parametric", "synthesis", "rollback", "failed"]
    assert first["phases"][1] == {"kind": "synthesis", "first": 3, "last": 3, "edits": 1, "hits": 0}
    assert first["progress"]["curve"] == [{"consumed": 1, "best": 1.0}, {"consumed": 2, "best": 3.0}]
    assert second["agent"] is None
    assert {(group["agent"], group["tasks"]) for group in report["groups"]} == {
        ("tuner", "tuning"),
        (None, "synthesis"),
    }
    assert report["skipped"] == []


def test_intervals_of_learning_curves_end_at_possible_returns(tmp_path):
    for name, validation in (("one", -490), ("two", -60)):
        write_run(tmp_path / name, [source("a = 1", validation=validation)])
    (group,) = analyze(tmp_path).groups
    assert group.learning["core16/acrobot"].at[16].interval == Interval(-500.0, 0.0)


def test_one_row_per_run_as_csv(runs):
    rows = list(csv.DictReader(io.StringIO(run(runs, "--csv").stdout)))
    assert [row["id"] for row in rows] == ["one", "two"]
    assert rows[0]["rollback_edits"] == "1"
    assert rows[1]["agent"] == ""
    where = ("opened", "evopolicygym", "protocol", "budget", "text", "splits", "isolation", "machine")
    assert all(row[column] for row in rows for column in where)


def test_skipped_folders_are_named_and_the_exit_code_says_so(runs):
    (runs / "torn").mkdir()
    (runs / "torn" / "run.json").write_text('{"schema_version": 1')
    for options in ([], ["--json"], ["--csv"]):
        done = run(runs, *options)
        assert done.returncode == 1
        assert "skipped" in done.stderr and "torn" in done.stderr
        assert "one" in done.stdout
    assert json.loads(run(runs, "--json").stdout)["skipped"][0]["path"].endswith("torn")


def test_nothing_but_broken_runs(tmp_path):
    (tmp_path / "ledger.jsonl").touch()
    for options in ([], ["--csv"]):
        done = run(tmp_path, *options)
        assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["/nowhere"], "/nowhere is not a folder"),
        (["/proc/self/fdinfo"], "no run in"),
        (["/", "--json", "--csv"], "Choose"),
    ],
)
def test_bad_input(arguments, says):
    done = run(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_names_from_elsewhere_do_not_steer_the_terminal(tmp_path):
    written = write_run(tmp_path / "runs" / "one", STEPS)
    written.facts["agent"]["name"] = "evil\x1b[2J[red]"
    written.rewrite()
    (tmp_path / "runs" / "bad\x1b[2J").mkdir()
    (tmp_path / "runs" / "bad\x1b[2J" / "run.json").write_text("{")
    done = run(tmp_path / "runs")
    assert "\x1b" not in done.stdout + done.stderr
    assert "evil\\x1b[2J[red]" in done.stdout
    assert "bad\\x1b[2J" in done.stderr


def test_several_folders(runs):
    assert len(json.loads(run(runs / "one", runs / "two", "--json").stdout)["runs"]) == 2


def test_very_many_conditions_are_named_in_time_that_grows_with_their_number(tmp_path):
    """Each group was compared with all others, fact by fact: 5,000 runs took minutes."""
    write_run(tmp_path / "run", STEPS[:1])
    opened = open_run_folder(tmp_path / "run")
    assert isinstance(opened, RunFolder)
    one = diagnose(opened)
    boards = [one.board | {"splits": f"sealed:{number // 2}"} for number in range(4000)]
    ids = [replace(one.same_id, comparable_id=f"c-{number}") for number in range(4000)]
    summaries = [replace(one.summary, comparable_id=f"c-{number}") for number in range(4000)]
    diagnoses = [
        replace(one, board=board, same_id=same_id, summary=summary)
        for board, same_id, summary in zip(boards, ids, summaries, strict=True)
    ]
    began = time.process_time()
    names = list(by_conditions(diagnoses))
    assert time.process_time() - began < 8.0
    assert len(names) == 4000 and names[0] == "full text, splits sealed:0, c-0"
    same_id = [
        replace(run, same_id=replace(one.same_id, comparable_id=f"c-{number}"))
        for number, run in enumerate(diagnoses[:1] * 60)
    ]
    assert len(by_conditions(same_id)) == 60, "also beyond the versions that are chosen with care"


def test_groups_whose_conditions_read_the_same_stay_apart(tmp_path):
    """The protocol of a forged record can be the number 1, not the text: no run may fall out of the tables."""
    diagnoses = []
    for name, protocol in (("one", "1"), ("two", 1), ("three", None), ("four", "None"), ("five", "1")):
        diagnosis = diagnose(open_run_folder(write_run(tmp_path / name, STEPS[:2]).folder))
        diagnoses.append(replace(diagnosis, board=diagnosis.board | {"protocol": protocol}))
    groups = by_conditions(diagnoses)
    assert sorted(map(len, groups.values())) == [1, 1, 1, 2], "equal ones are one group"
    assert len(groups) == 4
