"""--max-candidates: hidden validation selects among the last N distinct checkpoints, and responses name them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from conftest import policy_source
from evopolicygym.analysis.leaderboard.selection import candidates
from evopolicygym.judge.events import (
    Charged,
    Closed,
    EpisodeStats,
    Finished,
    Judged,
    Opened,
    Repeated,
    Scored,
    Selected,
    Validated,
)
from evopolicygym.judge.scoring import remaining_episodes, unmeasured
from evopolicygym.judge.state import RunState, apply
from evopolicygym.run_record import load
from evopolicygym.runs.open_run import run_ids
from evopolicygym.runs.settings import RunSettings
from evopolicygym.sandbox.checkpoints import Checkpoint
from evopolicygym.tasks.registry import find_task
from evopolicygym.tasks.splits import PaperSplits
from server_helpers import SMALL, Server, command


def submit(server: Server, *actions: int) -> list[list[str] | None]:
    """A policy for each action, which is its reward; returns what each reply names as candidates."""
    named = []
    for action in actions:
        server.policy(policy_source(f"return {action}"))
        code, answer = server.submit([0])
        assert code == 200
        named.append(answer["candidates"])
    return named


def test_the_selection_is_among_the_last_distinct_checkpoints(serve):
    """The best policy was superseded; one that was submitted again is among the last once more."""
    server = serve(*SMALL, "--max-candidates", "2")
    assert server.call("GET", "/info")[1]["max_candidates"] == 2
    instructions = (server.workspace / "AGENTS.md").read_text()
    assert "the last 2 different ones" in instructions
    assert submit(server, 1, 2) == [["submit_001"], ["submit_001", "submit_002"]]
    assert submit(server, 1) == [["submit_001", "submit_002", "submit_003"]]
    assert submit(server, 0) == [["submit_001", "submit_003", "submit_004"]]
    assert "candidates so far: submit_001, submit_003, submit_004" in _shown_again(server)
    record = server.finish()
    assert record["outcome"]["submission"] == 3 and record["options"]["max_candidates"] == 2
    assert len(record["checkpoints"]) == 3 and len(candidates(load(server.root))) == 2
    assert command("verify", server.root).returncode == 0
    assert record["ids"]["fingerprint"]["max_candidates"] == 2


def _shown_again(server: Server) -> str:
    """Return what the client prints for the same submission, which is already judged."""
    key = next(line for line in _ledger(server.root) if line["kind"] == "charged" and line["data"]["submission"] == 4)
    pending = {"key": key["data"]["key"], "cases": "0"}
    (server.workspace / ".pending.json").write_text(json.dumps(pending))
    return server.client().stdout


def _ledger(root: Path) -> list[dict]:
    return [json.loads(line) for line in (root / "ledger.jsonl").read_text().splitlines()]


def test_without_a_limit_the_best_of_all_is_selected(serve):
    server = serve()
    assert server.call("GET", "/info")[1]["max_candidates"] is None
    assert submit(server, 1, 2, 1, 0) == [None] * 4
    assert "different ones" not in (server.workspace / "AGENTS.md").read_text()
    record = server.finish()
    assert record["outcome"]["submission"] == 2 and record["options"]["max_candidates"] is None
    assert len(candidates(load(server.root))) == 3
    assert "max_candidates" not in record["ids"]["fingerprint"]


def test_a_limit_changes_the_comparable_id():
    task, splits = find_task("core16/acrobot"), PaperSplits()
    plain, limited, other = (
        run_ids(task, splits, RunSettings(task="core16/acrobot", max_candidates=limit))["comparable_id"]
        for limit in (None, 4, 5)
    )
    assert len({plain, limited, other}) == 3
    example = next(Path(__file__).parents[2].glob("examples/runs/**/run.json"))
    assert "max_candidates" not in load(example).ids.fingerprint


def test_candidates_of_a_state():
    """Submissions that did not load are none; neither are those of superseded checkpoints."""
    when = datetime.now(UTC)
    state = apply(RunState(), Opened("r", 10, 1, 1, {}, max_candidates=2), when)
    played = EpisodeStats((1.0,), (1,), (None,))
    for number, (name, verdict) in enumerate(
        [("a", "ok"), ("b", "ok"), ("c", "crash"), ("a", "ok"), ("d", "ok")], start=1
    ):
        state = apply(state, Charged(number, f"k{number}", Checkpoint(name * 64, 1, 1, True, False), (0,)), when)
        state = apply(state, Judged(number, verdict, played, 0, 0.0, {}, ""), when)
    assert [submission.number for submission in state.candidates] == [1, 4, 5]


def test_episodes_that_are_left_to_play():
    """Validation of each candidate, held-out twice by the winner and once by the first, also if it was superseded."""
    when = datetime.now(UTC)
    opened, played = Opened("r", 10, 2, 3, {}, max_candidates=2), EpisodeStats((1.0,), (1,), (None,))
    state = apply(RunState(), opened, when)
    assert remaining_episodes(state) == 0
    for number, name in enumerate("abc", start=1):
        state = apply(state, Charged(number, f"k{number}", Checkpoint(name * 64, 1, 1, True, False), (0,)), when)
        state = apply(state, Judged(number, "ok", played, 0, 0.0, {}, ""), when)
        assert remaining_episodes(state) == [2 + 2 * 3, 4 + 3 * 3, 4 + 3 * 3][number - 1]
    for event, remaining in (
        (Closed("agent_stopped"), 13),
        (Validated("b" * 64, played, 0.0), 11),
        (Validated("c" * 64, played, 0.0), 9),
        (Selected(3), 9),
        (Scored("c" * 64, played, 0.0), 6),
        (Repeated((1.0,), 0.0), 3),
        (Scored("a" * 64, played, 0.0), 0),
        (Finished(), 0),
    ):
        state = apply(state, event, when)
        assert remaining_episodes(state) == remaining, event
    assert [checkpoint.hash for checkpoint in unmeasured(state)] == ["b" * 64]


def test_a_first_submission_that_wins_is_not_left_to_play():
    when, played = datetime.now(UTC), EpisodeStats((1.0,), (1,), (None,))
    state = apply(RunState(), Opened("r", 10, 2, 3, {}), when)
    for event in (
        Charged(1, "k", Checkpoint("a" * 64, 1, 1, True, False), (0,)),
        Judged(1, "ok", played, 0, 0.0, {}, ""),
        Closed("agent_stopped"),
        Validated("a" * 64, played, 0.0),
        Selected(1),
    ):
        state = apply(state, event, when)
    assert remaining_episodes(state) == 2 * 3
    state = apply(state, Scored("a" * 64, played, 0.0), when)
    assert remaining_episodes(state) == 3 and unmeasured(state) == []
