"""The shipped smoke suite: run once, and killed at random and resumed."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from suite_helpers import SuiteRunner, comparable_facts, kill_scheduler

SMOKE = Path(__file__).parents[2] / "suites" / "smoke.toml"
KILLS = 5


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    work = SuiteRunner(tmp_path_factory.mktemp("smoke"), SMOKE.read_text())
    work.outcome = work.run("--parallel-runs", 4)
    return work


def test_every_run_has_a_score(undisturbed):
    assert undisturbed.outcome.returncode == 0, undisturbed.outcome.stderr
    rows = undisturbed.rows()
    assert len(rows) == 8 and all(row["status"] == "scored" for row in rows.values())
    assert all(row["score"] is not None and row["attempts"] == 1 for row in rows.values())
    assert rows["core16-acrobot__tuner__s0"]["score"] > rows["core16-acrobot__starter__s0"]["score"]


def test_running_it_again_does_nothing(undisturbed):
    before = {path: path.stat().st_mtime_ns for path in undisturbed.folder.glob("runs/*/ledger.jsonl")}
    again = undisturbed.run()
    assert again.returncode == 0 and "all 8 runs have a score" in again.stderr
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_random_kills_do_not_change_the_results(undisturbed, tmp_path):
    work = SuiteRunner(tmp_path, SMOKE.read_text())
    chance = random.Random(6)
    for _ in range(KILLS):
        process = work.start("--parallel-runs", 4)
        time.sleep(chance.uniform(1.5, 6.0))
        kill_scheduler(process)
    assert (last := work.run("--parallel-runs", 4)).returncode == 0, last.stderr
    assert work.names() == undisturbed.names()
    for name in work.names():
        record, expected = work.record(name), comparable_facts(undisturbed.record(name))
        differing = {
            key: (value, expected[key]) for key, value in comparable_facts(record).items() if value != expected[key]
        }
        assert not differing, f"{name}: {json.dumps(differing)} {record['times']} {record['turns']}"
