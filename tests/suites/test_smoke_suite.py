"""The shipped smoke suite: run once, and killed at random and resumed."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from suite_helpers import SuiteRunner, comparable_facts, kill_scheduler

SMOKE = Path(__file__).parents[2] / "suites" / "smoke.toml"


ONE_TASK = ("repeats=1", 'tasks=["core16/acrobot"]')


@pytest.mark.parametrize(
    ("runs", "kills", "changes"), [(2, 2, ONE_TASK), pytest.param(8, 6, (), marks=pytest.mark.slow)]
)
def test_random_kills_do_not_change_the_results(runs, kills, changes, tmp_path):
    """Every run has a score, also when it was killed, and running the suite again does nothing. In one test: the runs
    of a suite take long, and tests of a module may be run by several processes."""
    undisturbed = SuiteRunner(tmp_path / "undisturbed", SMOKE.read_text())
    options = ("--parallel-runs", 4, *(word for change in changes for word in ("--set", change)))
    assert (ended := undisturbed.run(*options)).returncode == 0, ended.stderr
    rows = undisturbed.rows()
    assert len(rows) == runs and all(row["status"] == "scored" for row in rows.values())
    assert all(row["score"] is not None and row["attempts"] == 1 for row in rows.values())
    assert rows["core16-acrobot__tuner__s0"]["score"] > rows["core16-acrobot__starter__s0"]["score"]
    check_running_again_does_nothing(undisturbed, options)
    killed = SuiteRunner(tmp_path / "killed", SMOKE.read_text())
    kill_and_resume(killed, options, kills)
    check_same_results(killed, undisturbed)


def check_running_again_does_nothing(work, options):
    before = {path: path.stat().st_mtime_ns for path in work.folder.glob("runs/*/ledger.jsonl")}
    again = work.run(*options)
    assert again.returncode == 0 and f"all {len(before)} runs have a score" in again.stderr
    assert before == {path: path.stat().st_mtime_ns for path in before}


def kill_and_resume(work, options, kills):
    chance = random.Random(6)
    for _ in range(kills):
        process = work.start(*options)
        time.sleep(chance.uniform(1.5, 6.0))
        kill_scheduler(process)
    assert (last := work.run(*options)).returncode == 0, last.stderr


def check_same_results(work, undisturbed):
    assert work.names() == undisturbed.names()
    for name in work.names():
        record, expected = work.record(name), comparable_facts(undisturbed.record(name))
        differing = {
            key: (value, expected[key]) for key, value in comparable_facts(record).items() if value != expected[key]
        }
        assert not differing, f"{name}: {json.dumps(differing)} {record['times']} {record['turns']}"
