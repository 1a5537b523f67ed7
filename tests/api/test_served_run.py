"""A run that a program serves and plays itself: `serve`, `finish` and `verify`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest

import evopolicygym
from evopolicygym import RunClosed, UserError
from forged_runs import move_back_in_time

TASK = "core16/mountain-car-continuous"
SMALL = {"budget": 2, "validation_cases": 1, "heldout_cases": 2, "seeds": "paper", "jobs": 1}


def test_leaving_the_block_keeps_the_run_open_and_the_same_call_continues_it(tmp_path):
    with evopolicygym.serve(TASK, tmp_path / "run", **SMALL) as served:
        served.workspace.submit([0])
        assert (served.remaining, served.workspace.remaining, served.task) == (1, 1, TASK)
    with pytest.raises(RunClosed):
        served.workspace.submit([1])
    assert evopolicygym.load_run(tmp_path / "run").status == "open"
    with evopolicygym.serve(TASK, tmp_path / "run") as served:
        served.workspace.submit([1])
    run = evopolicygym.finish(tmp_path / "run")
    assert (run.outcome, run.agent, len(run.record.submissions)) == ("scored", None, 2)
    assert evopolicygym.finish(tmp_path / "run") == run
    with pytest.raises(UserError, match="is finished: it accepts no more"), evopolicygym.serve(TASK, tmp_path / "run"):
        pass
    verification = evopolicygym.verify(tmp_path / "run", jobs=1)
    assert verification.ok and {finding.what for finding in verification.findings} >= {"ledger", "budget", "replay"}


def test_the_time_between_two_sittings_is_not_played_time(tmp_path):
    """An hour lies between the first and the second; the times of the first count."""
    with evopolicygym.serve(TASK, tmp_path / "run", **SMALL) as served:
        served.workspace.submit([0])
    move_back_in_time(tmp_path / "run", 3600)
    with evopolicygym.serve(TASK, tmp_path / "run") as served:
        progress = served.progress
    wall_s = evopolicygym.load_run(tmp_path / "run").record.submissions[0].wall_s
    assert wall_s is not None and wall_s <= progress.elapsed_s < 1800
    assert progress.remaining_s is not None and progress.remaining_s < 1800


def test_an_error_in_the_block_stops_the_server_and_is_raised(tmp_path):
    threads = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError), evopolicygym.serve(TASK, tmp_path / "run", **SMALL) as served:
        1 / 0  # noqa: B018
    assert served.workspace.remaining == 0
    while set(threading.enumerate()) - threads:  # ends with the test's own time limit
        time.sleep(0.01)


def test_wait_ends_when_the_command_finishes_the_run(tmp_path):
    command = [sys.executable, "-m", "evopolicygym", "finish", str(tmp_path / "run")]
    with evopolicygym.serve(TASK, tmp_path / "run", **SMALL) as served:
        served.workspace.submit([0])
        with subprocess.Popen(command, stdout=subprocess.PIPE) as finishing:
            served.wait()
            finishing.communicate()
        assert finishing.returncode == 0
        assert served.finish().outcome == "scored"


def test_it_serves_where_an_event_loop_is_running(tmp_path):
    """As in a notebook."""

    async def notebook() -> evopolicygym.Run:
        with evopolicygym.serve(TASK, tmp_path / "run", **SMALL) as served:
            served.workspace.submit([0, 1])
            return served.finish()

    assert asyncio.run(notebook()).outcome == "scored"


def test_wrong_arguments_are_named_and_leave_nothing(tmp_path):
    for options, message in (
        ({"budget": 0}, "budget must be at least 1"),
        ({"seeds": "mine"}, "seeds"),
        ({"variant": "odd"}, "variant"),
    ):
        with pytest.raises(UserError, match=message), evopolicygym.serve(TASK, tmp_path / "run", **options):
            pass
    for function in (evopolicygym.finish, evopolicygym.score, evopolicygym.verify):
        with pytest.raises(UserError, match="holds no run"):
            function(tmp_path / "run")
    assert not (tmp_path / "run").exists()
