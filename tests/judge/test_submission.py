"""Submissions to a real server: what they cost, what they return, what is refused for free."""

from __future__ import annotations

import json
from itertools import accumulate

import numpy as np
import pytest

from conftest import policy_source


def test_the_client_of_the_public_protocol(serve):
    """Post case numbers, read the mean return."""
    server = serve()
    server.policy()
    code, result = server.submit([0, 1])
    assert code == 200 and result["status"] == "ok"
    assert result["summary"]["mean_return"] > 10
    assert server.remaining() == 126


def test_order_and_repeats_are_kept(serve):
    server = serve()
    server.policy()
    _, result = server.submit("3,1,3,2-4")
    returns = result["summary"]["returns"]
    assert result["summary"]["env_instances"] == [3, 1, 3, 2, 3, 4]
    assert returns[0] == returns[2] == returns[4] and returns[0] != returns[1]


def test_a_failed_episode_leaves_the_submission_ok(serve):
    server = serve()
    server.policy(policy_source("return 1 if obs[1] < 0.5 else 'up'"))
    _, result = server.submit("0-7")
    summary = result["summary"]
    assert result["status"] == "ok" and 0 < summary["n_failed"] < 8
    failed = {failure["episode"] for failure in summary["errors"]}
    assert all((summary["returns"][i] < 0) == (i in failed) for i in range(8))
    assert summary["invalid_actions"] == len(failed)
    episode = server.workspace / "feedback/submit_001/episodes" / f"ep_{min(failed):03}"
    assert "invalid_action" in (episode / "error.txt").read_text()


def test_a_policy_that_does_not_load_costs_all_requested_episodes(serve):
    server = serve()
    server.policy("import gymnasium\n")
    code, result = server.submit("0-3")
    assert (code, result["status"], server.remaining()) == (200, "denied_import", 124)
    assert result["summary"]["returns"] == [] and result["summary"]["mean_return"] is None
    errors = (server.workspace / "feedback/submit_001/errors.txt").read_text()
    assert 'policy.py", line 1' in errors


def test_refusals_are_free(serve):
    server = serve("--budget", "5", "--jobs", "1", "--seeds", "paper")
    server.policy()
    refused = {
        "invalid_env_instance": [
            "0-30000000",
            [-1],
            [1024],
            [1.5],
            ["0"],
            [True],
            "",
            "a",
            [],
            None,
            {"a": 1},
            [10**40],
        ],
        "budget_invalid": ["0-5", "0-127,0", [0] * 129, "0-1023," * 50 + "0"],
    }
    for reason, requests in refused.items():
        for request in requests:
            code, answer = server.submit(request)
            assert (code, answer["status"], answer["remaining_budget"]) == (400, reason, 5), request
            assert answer["message"]
    for body in (b"", b"{", b"[]", b"{}", b"[" * 60_000, b"\xff", b'{"env_instances": [0], "wait": 1}'):
        assert server.call("POST", "/submit", body)[0] == 400
    assert server.call("POST", "/submit", b" " * (1 << 17))[0] == 413
    assert server.remaining() == 5


def test_links_in_the_system_folder_are_refused_free(serve):
    server = serve()
    server.policy()
    (server.workspace / "system" / "link").symlink_to("/etc/passwd")
    code, answer = server.submit([0])
    assert (code, answer["status"]) == (400, "snapshot_invalid") and "link" in answer["message"]
    assert server.remaining() == 128
    assert str(server.root) not in answer["message"]


def test_the_last_episode_closes_the_run(serve):
    server = serve("--budget", "2", "--jobs", "1", "--seeds", "paper")
    server.policy()
    assert server.submit("0-1")[1]["summary"]["remaining_budget"] == 0
    code, answer = server.submit([0])
    assert (code, answer["status"]) == (409, "run_closed")
    state = server.call("GET", "/info")[1]["state"]
    assert state["is_finalized"] and state["phase"] == "closed"


def test_an_idempotency_key_is_charged_once(serve):
    server = serve()
    server.policy()
    first = server.submit([0, 1], Idempotency_Key="k")
    assert server.submit([0, 1], Idempotency_Key="k") == first
    assert server.submit("0-1", Idempotency_Key="k") == first
    code, answer = server.submit([0, 2], Idempotency_Key="k")
    assert (code, answer["status"], server.remaining()) == (422, "key_reused", 126)


def test_a_busy_refusal_is_free_and_polling_ends(serve):
    server = serve(task="toys:Slow-v0")
    server.policy()
    code, answer = server.submit([0], wait=False)
    assert (code, answer["status"]) == (202, "running")
    assert server.submit([1])[1]["status"] == "busy"
    assert server.submit([1], Prefer="respond-async")[0] == 409
    while (polled := server.call("GET", f"/submissions/{answer['submit_id']}"))[1]["status"] == "running":
        pass
    assert polled[0] == 200 and polled[1]["summary"]["returns"] and server.remaining() == 127


def test_feedback_is_complete_and_reads_back(serve):
    server = serve("--jobs", "1", "--seeds", "paper")
    server.policy(policy_source("print('hi', obs[0]); return 1"))
    _, result = server.submit([5, 6])
    folder = server.workspace / result["summary"]["feedback"]
    assert json.loads((folder / "summary.json").read_text()) == result["summary"]
    for number in (0, 1):
        episode = folder / "episodes" / f"ep_{number:03}"
        steps = [json.loads(line) for line in (episode / "trajectory.jsonl").read_text().splitlines()]
        assert len(steps) == 11
        with np.load(episode / "episode.npz", allow_pickle=False) as arrays:
            assert [*accumulate(arrays["reward"].tolist())][-1] == pytest.approx(result["summary"]["returns"][number])
        assert (episode / "stdout.txt").read_text().count("hi") == 10
    canonical = server.root / "feedback" / "submit_001"
    assert (canonical / "summary.json").read_bytes() == (folder / "summary.json").read_bytes()
