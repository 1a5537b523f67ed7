"""A candidate that sleeps on hidden cases is bounded: once its wall time is used up, its other cases fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_outcomes import rewrite

from conftest import policy_source, toy_task, write_policy
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.records import EpisodeResult
from evopolicygym.judge import scoring
from evopolicygym.limits import Limits
from evopolicygym.runs.replay import Replay
from evopolicygym.runs.verify import verify
from evopolicygym.sandbox.policy.protocol import ErrorKind
from evopolicygym.tasks.splits import PaperSplits, Split, cases
from server_helpers import Server

CASES = 4
# Wall time for all cases together: 3 x 0.3 s x 4. One answer may take 2.5 s of it, one episode 3 s.
LIMITS = Limits(init_cpu_s=1.0, act_cpu_s=0.25, episode_cpu_s=0.3, memory_mb=512)
SLEEPING = policy_source(top="import time", init="time.sleep(2.0)")
# Its train case, by the observation: the number that the toy draws from the seed.
SLEEPING_ELSEWHERE = policy_source(
    top="import time\nKNOWN = {luck!r}", act="if obs[0] == 0 and abs(obs[1] - KNOWN) > 1e-9: time.sleep(2)\nreturn 0"
)
TOY = """
env_id = "toys:Toy-v0"
title = "A toy"
family = "toys"
horizon = 10
observation_space = "Box(2,) float64"
action_space = "Discrete(3)"
objective = "Play."
reward = "The action."
termination = "After ten steps."
[failure_return]
value = -5.0
derivation = "By decree."
[limits]
act_cpu_s = 0.25
episode_cpu_s = 0.3
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(toy_task(limits=LIMITS)) as engine:
        yield engine


def play(engine: LocalEngine, folder: Path, source: str) -> list[EpisodeResult]:
    task = toy_task(limits=LIMITS)
    chosen = cases(PaperSplits(), task.id, Split.VALIDATION, list(range(CASES)))
    results = scoring.play_cases(engine, task, engine.store.snapshot(write_policy(folder, source)), chosen)
    assert results is not None and [result.case.index for result in results] == list(range(CASES))
    return results


def test_the_other_cases_of_a_sleeping_candidate_fail(engine, tmp_path):
    last = play(engine, tmp_path / "policy", SLEEPING)[-1]
    assert last.error and last.error.kind is ErrorKind.TIMEOUT and "the cases before took 3.6 s" in last.error.text
    assert last.score == -5.0 and last.length == 0


def test_the_control_does_not_sleep_and_plays_all_cases(engine, tmp_path):
    results = play(engine, tmp_path / "policy", policy_source())
    assert [result.error for result in results] == [None] * CASES and results[-1].length == 10


def test_the_time_of_the_simulator_is_not_counted(tmp_path):
    """Two episodes take 2.4 s, by the simulator alone; their policy would have 1.8 s."""
    task = toy_task("Slow-v0", horizon=4, limits=LIMITS)
    chosen = cases(PaperSplits(), task.id, Split.VALIDATION, [0, 1])
    with LocalEngine(task) as engine:
        checkpoint = engine.store.snapshot(write_policy(tmp_path / "policy", policy_source()))
        results = scoring.play_cases(engine, task, checkpoint, chosen)
    assert results and [result.error for result in results] == [None, None]
    assert sum(result.wall_s for result in results) > 1.8 > sum(result.policy_wall_s for result in results)


def test_a_run_with_a_sleeping_candidate_ends_and_can_be_verified(tmp_path):
    """It sleeps on all cases but the one that it was tried on. Both candidates are scored."""
    (tmp_path / "toy.toml").write_text(TOY)
    options = ("--validation-cases", str(CASES), "--heldout-cases", "2", "--jobs", "1", "--seeds", "paper")
    server = Server(tmp_path / "run", *options, task=str(tmp_path / "toy.toml"))
    try:
        server.policy(policy_source(act="return 1"))
        first = server.submit([0])[1]
        assert first["status"] == "ok", first
        luck = (first["summary"]["returns"][0] - 10) / 10
        server.policy(SLEEPING_ELSEWHERE.format(luck=luck))
        assert server.submit([0])[1]["summary"]["errors"] == []
        finished = server.finish()
    finally:
        server.close()
    awake, sleeping = (checkpoint["validation"] for checkpoint in finished["checkpoints"])
    assert awake["errors"] == [None] * CASES
    assert sleeping["errors"][-1] == "timeout" and sleeping["returns"][-1] == -5.0 and sleeping["lengths"][-1] == 0
    assert finished["outcome"]["kind"] == "scored" and finished["outcome"]["submission"] == 1
    assert verify(server.root, 1, task=server.task).replay is Replay.EQUAL


def test_a_winner_that_runs_out_of_time_is_not_a_mismatch(tmp_path):
    """With one job the limit is passed after two cases; with four jobs all cases begin before it is. A record that
    claims another return for a case that was played is a mismatch all the same."""
    (tmp_path / "toy.toml").write_text(TOY)
    options = ("--validation-cases", "1", "--heldout-cases", str(CASES), "--jobs", "1", "--seeds", "paper")
    server = Server(tmp_path / "run", *options, task=str(tmp_path / "toy.toml"))
    try:
        server.policy(SLEEPING)
        server.submit([0])
        heldout = server.finish()["outcome"]["heldout"]
    finally:
        server.close()
    assert heldout["errors"][0] is None and heldout["errors"][-1] == "timeout"
    report = verify(server.root, CASES, task=server.task)
    assert report.replay is Replay.NONDETERMINISTIC and not report.ok
    assert "ran out of time when it was scored on the cases that differ (" in report.findings[-1].detail
    rewrite(server.root, lambda line: change_return(line, 0))
    assert verify(server.root, CASES, task=server.task).replay is Replay.MISMATCH


@pytest.mark.slow
def test_a_timeout_that_is_not_in_the_record_is_nondeterministic(tmp_path):
    """With four jobs all cases begin before the limit; with one job they do not. A forged record looks the same."""
    (tmp_path / "toy.toml").write_text(TOY)
    options = ("--validation-cases", "1", "--heldout-cases", str(CASES), "--jobs", str(CASES), "--seeds", "paper")
    server = Server(tmp_path / "run", *options, task=str(tmp_path / "toy.toml"))
    try:
        server.policy(SLEEPING)
        server.submit([0])
        assert server.finish()["outcome"]["heldout"]["errors"] == [None] * CASES
    finally:
        server.close()
    report = verify(server.root, 1, task=server.task)
    assert report.replay is Replay.NONDETERMINISTIC and not report.ok
    detail = report.findings[-1].detail
    assert "ran out of time here" in detail and "corrupt" not in detail


def change_return(line: dict[str, Any], case: int) -> None:
    if line["kind"] in ("scored", "repeated"):
        line["data"].get("tally", line["data"])["returns"][case] += 1.0
