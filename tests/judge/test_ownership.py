"""One process owns a run; other commands ask it, wait for it, or are refused."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from conftest import policy_source
from evopolicygym.judge.state import RunPhase
from evopolicygym.runs.run_status import read_state
from evopolicygym.server import owner_socket
from process_helpers import alive, descendants, wait_until
from server_helpers import COMMAND, SMALL, command, with_task

SLOW = policy_source(act="import time; time.sleep(0.2); return 1")  # ten steps: two seconds an episode


def finish(root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *with_task("finish", root, "--json")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_second_server_is_refused_and_two_finish_at_once(serve):
    server = serve()
    server.policy()
    server.submit([0])
    before = (server.root / "ledger.jsonl").read_bytes()
    second = command("serve", "toys:Toy-v0", "--run", server.root, *SMALL)
    assert second.returncode == 2 and "another process owns the run" in second.stderr
    assert "submit there" not in second.stderr, "an agent may be playing it"
    assert (server.root / "ledger.jsonl").read_bytes() == before
    refused = command("score", server.root)
    assert refused.returncode == 2 and "no outcome yet" in refused.stderr
    both = [finish(server.root) for _ in range(2)]
    outcomes = [process.communicate(timeout=240) for process in both]
    assert [process.returncode for process in both] == [0, 0], outcomes
    assert outcomes[0][0] == outcomes[1][0]
    assert server.process.wait(60) == 0
    assert not (server.root / owner_socket.NAME).exists()
    again = command("serve", "toys:Toy-v0", "--run", server.root, *SMALL)
    assert again.returncode == 0 and "is finished" in again.stderr  # it does not wait for what never comes
    verified = command("verify", server.root, "--jobs", "1")
    assert verified.returncode == 0, verified.stdout


def test_two_finish_without_a_server(serve):
    """The first finishes the run; the other waits for it."""
    server = serve()
    server.policy()
    server.submit([0])
    server.kill()
    assert (server.root / owner_socket.NAME).exists()  # of a dead owner
    both = [finish(server.root) for _ in range(2)]
    outcomes = [process.communicate(timeout=240) for process in both]
    assert [process.returncode for process in both] == [0, 0], outcomes
    assert outcomes[0][0] == outcomes[1][0]
    assert sum(line.count(b'"kind":"finished"') for line in (server.root / "ledger.jsonl").open("rb")) == 1


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_server_leaves_no_process_and_the_run_can_continue(serve, ending):
    server = serve()
    server.policy(SLOW)
    assert server.submit([0], wait=False, Idempotency_Key="k")[0] == 202
    assert wait_until(lambda: list((server.root / "feedback").glob(".staged-*/episodes/ep_000")))  # it plays
    relatives = descendants(server.process.pid)
    assert len(relatives) >= 2
    assert server.kill(ending) == 128 + ending
    assert wait_until(lambda: not alive(relatives))
    assert read_state(server.root).running is not None
    server.start()
    assert server.submit([0], Idempotency_Key="k")[1]["status"] == "ok"
    assert server.remaining() == 127


def test_a_run_with_a_long_path(serve):
    """The path of a socket has at most 107 bytes, that of a run may be longer."""
    server = serve(name="/".join(["a rather long name with spaces é"] * 8))
    assert len(os.fsencode(server.root)) > 250
    server.policy()
    assert server.submit([0])[1]["status"] == "ok"
    assert server.finish()["outcome"]["kind"] == "scored"


def test_an_idle_connection_does_not_keep_the_owner_alive(serve):
    server = serve()
    with socket.socket(socket.AF_UNIX) as idle, owner_socket._address(server.root) as address:
        idle.connect(address)
        assert server.finish()["outcome"]["kind"] == "no_ok_submit"
        assert read_state(server.root).phase is RunPhase.FINISHED
