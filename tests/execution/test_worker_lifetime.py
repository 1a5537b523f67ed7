"""A worker lives as long as its engine, whichever thread started it; one that dies idle costs no episode anything."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from conftest import PolicyPlayer, policy_source, toy_task
from evopolicygym.execution.records import EpisodeResult

WORKERS = 2


@pytest.fixture
def player(tmp_path: Path):
    made = PolicyPlayer(toy_task(), tmp_path, jobs=WORKERS)
    yield made
    made.engine.close()


def workers(player: PolicyPlayer) -> list[int]:
    return [worker._process.pid for worker in player.engine._workers.values()]


def assert_played(player: PolicyPlayer) -> None:
    outcomes = player.outcomes(policy_source(), 2 * WORKERS)
    assert all(isinstance(outcome, EpisodeResult) and outcome.error is None for outcome in outcomes), outcomes


def test_workers_outlive_the_thread_that_started_them(player):
    def replace_workers() -> None:
        for worker in player.engine._workers.values():
            worker.kill()
        assert_played(player)

    before = workers(player)
    thread = threading.Thread(target=replace_workers)
    thread.start()
    thread.join()
    started_in_thread = workers(player)
    assert not set(before) & set(started_in_thread)
    assert_played(player)
    assert workers(player) == started_in_thread


def test_workers_that_died_without_work_are_replaced_at_no_cost(player):
    dead = workers(player)
    for pid in dead:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert_played(player)
    assert not set(dead) & set(workers(player))
