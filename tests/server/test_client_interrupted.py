"""submit.py that is killed, cut off or started twice: the result is printed in the end, for one charge."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator

import pytest
from client_helpers import fresh, pending, plain, start

from server_helpers import SMALL, Server


@pytest.fixture(scope="module")
def shared_server(serve_for_all: Callable[..., Server]) -> Server:
    return serve_for_all("--budget", "1000", *SMALL)


@pytest.fixture
def server(shared_server: Server) -> Iterator[Server]:
    yield from fresh(shared_server)


def test_a_killed_client_shows_the_result_when_run_again(server):
    """The result is printed in the end, for one charge; also where the kill came before anything was sent."""
    chance = random.Random(3)
    for attempt in range(5):
        remaining, kills = server.remaining(), 0
        for _ in range(3):
            process = start(server, "4,5")
            time.sleep(chance.uniform(0.0, 0.6))
            kills += process.poll() is None
            process.kill()
            printed, _ = process.communicate()
            if "mean return" in printed:
                break
        else:
            printed = server.client("4,5").stdout
        assert "mean return" in printed, attempt
        assert server.remaining() == remaining - 2 and not pending(server).exists()


def test_without_cases_it_continues_an_interrupted_submission(server):
    remaining = server.remaining()
    pending(server).write_text(json.dumps({"key": f"interrupted-{remaining}", "cases": "7"}))
    done = server.client()
    assert done.returncode == 0 and "case 7" in done.stdout and "nothing is charged again" in done.stderr
    assert server.remaining() == remaining - 1 and not pending(server).exists()
    idle = server.client()
    assert idle.returncode == 2 and "nothing to wait for" in idle.stderr and server.remaining() == remaining - 1


def test_an_interrupted_submission_comes_before_new_cases(server):
    remaining = server.remaining()
    pending(server).write_text(json.dumps({"key": f"before-{remaining}", "cases": "7"}))
    done = server.client("8,9")
    assert done.returncode == 0 and "case 7" in done.stdout and "case 8" in done.stdout
    assert server.remaining() == remaining - 3


TAMPERED = [
    b"",
    b"[]",
    b"null",
    b"7",
    b'"x"',
    b"{}",
    b'{"key": 1}',
    b'{"key": "a b", "cases": "0"}',
    b"\xff\xfe",
    b"[" * 99999,
]


@pytest.mark.parametrize("content", TAMPERED)
def test_a_tampered_pending_file_is_ignored(server, content):
    remaining = server.remaining()
    pending(server).write_bytes(content)
    done = server.client("2")
    assert done.returncode == 0 and plain(done) and "ignored" in done.stderr
    assert server.remaining() == remaining - 1


def test_a_folder_instead_of_the_pending_file(server):
    remaining = server.remaining()
    pending(server).mkdir()
    (pending(server) / "x").touch()
    done = server.client("2")
    assert done.returncode == 2 and plain(done) and "nothing was submitted" in done.stderr
    assert server.remaining() == remaining and not list(server.workspace.glob(".pending.json.*"))


def test_a_broken_pipe_keeps_the_result_for_the_next_call(server):
    """The result was not read, so the next call prints it."""
    remaining = server.remaining()
    process = start(server, "5")
    assert process.stdout and process.stderr
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(60) == 141 and "Traceback" not in errors
    process.stderr.close()
    assert "mean return" in server.client("5").stdout and server.remaining() == remaining - 1


def test_two_clients_at_the_same_time(server):
    """Both print their results; neither removes the pending file of the other."""
    remaining = server.remaining()
    both = [start(server, cases) for cases in ("0", "1")]
    printed = [process.communicate(timeout=120) for process in both]
    assert all(process.returncode == 0 for process in both), printed
    assert all("mean return" in out and "Traceback" not in errors for out, errors in printed)
    assert server.remaining() == remaining - 2 and not pending(server).exists()
