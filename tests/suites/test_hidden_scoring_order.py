"""Suites order their work so that hidden scoring and agents on the same cases exclude each other without deadlock."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from suite_helpers import TOY, SuiteRunner

from evopolicygym.errors import UserError
from evopolicygym.suites.file import Suite, plan
from evopolicygym.suites.folder import SuiteFolder
from evopolicygym.suites.scheduler import Scheduler

TWO = TOY.replace('["toys:Toy-v0"]', '["toys:Toy-v0", "toys:Levels-v0"]') + "[agents.starter]\n[agents.nop]\n"
THINKER = """
repeats = 3
[agents.thinker]
name = "command"
command = ["sh", "-c", "python3 submit.py 0-3; sleep $((3 * EVOPOLICYGYM_SEED % 6))"]
"""


def read(folder: Path, text: str) -> Suite:
    (folder / "some.toml").write_text(text)
    return Suite.read(folder / "some.toml")


def test_neighbours_in_the_plan_have_different_tasks_and_agents(tmp_path):
    planned = plan(read(tmp_path, "repeats = 2\n" + TWO))
    tasks_and_agents = [(run.task.id, run.agent) for run in planned]
    first = [
        ("toys:Toy-v0", "starter"),
        ("toys:Levels-v0", "nop"),
        ("toys:Toy-v0", "nop"),
        ("toys:Levels-v0", "starter"),
    ]
    assert tasks_and_agents == first + first and [run.repeat for run in planned] == [0] * 4 + [1] * 4


def test_an_agent_whose_task_is_being_scored_is_held_back(tmp_path):
    async def begun() -> list[list[str]]:
        suite = read(tmp_path, "repeats = 2\n" + TWO)
        (tmp_path / "out").mkdir()
        scheduler = Scheduler(SuiteFolder(tmp_path / "out"), plan(suite), suite.cap, 1, 3)

        def begin() -> list[str]:
            return [process.planned.name for process in scheduler._next_processes()]

        first = begin()
        scheduler._agent_gone(scheduler._processes["toys-Levels-v0__nop__s0"])
        second = begin()
        for name in ("toys-Levels-v0__nop__s0", "toys-Toy-v0__nop__s0"):  # are scored
            del scheduler._processes[name]
        return [first, second, begin()]

    first, second, third = asyncio.run(begun())
    assert first == ["toys-Toy-v0__starter__s0", "toys-Levels-v0__nop__s0", "toys-Toy-v0__nop__s0"]
    assert second == ["toys-Toy-v0__starter__s1"], "rather of the next round than of the task that is being scored"
    assert third == ["toys-Levels-v0__starter__s0"], "once its task is free"


def test_a_suite_that_asks_for_eager_validation_is_refused(tmp_path):
    with pytest.raises(UserError, match="eager validation was removed"):
        read(tmp_path, TOY + 'validate_when = "eager"\n[agents.nop]\n')


def test_a_suite_of_one_task_is_scored_batch_by_batch(tmp_path):
    """The first agent ends long before the second; the third begins when both are scored."""
    work = SuiteRunner(tmp_path, THINKER.replace("\n[", "\n" + TOY + "[", 1))
    done = work.run("--parallel-runs", 2)
    assert done.returncode == 0, done.stderr
    runs = [spans(work.folder / "runs" / name) for name in work.names()]
    for agent, _ in runs:
        for _, hidden in runs:
            assert agent[1] < hidden[0] or hidden[1] < agent[0], runs
    assert "waiting: hidden cases of toys:Toy-v0" in done.stderr, "said where the suite is watched"


def spans(run: Path) -> tuple[tuple[float, float], tuple[float, float]]:
    """When the agent lived, and when hidden cases were played: a line of these says how long it took."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]
    times = [(line["kind"], datetime.fromisoformat(line["time"]).timestamp(), line["data"]) for line in lines]
    agent = [time for kind, time, _ in times if kind in ("prompted", "turned")]
    began = next(time - data["wall_s"] for kind, time, data in times if kind == "validated")
    return (agent[0], agent[-1]), (began, next(time for kind, time, _ in times if kind == "finished"))
