"""Descriptors run out: never because of connections, and without harm for any other reason."""

from __future__ import annotations

import os
import random
import resource
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from raw_requests import Gate, connect, read_response, request_head

from conftest import policy_source
from evopolicygym.judge.ledger import read
from evopolicygym.judge.state import Submission
from evopolicygym.runs.run_status import read_state
from process_helpers import descendants, wait_until
from server_helpers import SMALL, Server, command

FEW = 200  # descriptors: far fewer than the connections that come
BODY = b'{"env_instances": [0, 1]}'


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


@pytest.fixture
def server(serve: Callable[..., Server], gate: Gate) -> Server:
    server = serve("--budget", "1000", *SMALL, task="toys:Gated-v0", TOY_GATE=str(gate.path))
    server.policy()
    assert server.submit([0])[0] == 200
    return server


def descriptors(server: Server) -> set[int]:
    return {int(name) for name in os.listdir(f"/proc/{server.process.pid}/fd")}


@contextmanager
def limited(server: Server, number: int) -> Iterator[None]:
    before = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (number, before[1]))
    try:
        yield
    finally:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, before)


@contextmanager
def short(server: Server, spare: int) -> Iterator[None]:
    """No more than so many can be opened. A connection for whoever wants to ask all the same is to be there before."""
    taken = descriptors(server)
    with limited(server, [number for number in range(10_000) if number not in taken][spare]):
        yield


def ask(connection: socket.socket, server: Server, key: str) -> None:
    connection.sendall(request_head(server, f"Content-Length: {len(BODY)}", f"Idempotency-Key: {key}") + BODY)


def charged(server: Server, key: str) -> Submission | None:
    return read_state(server.root).by_key(key)


def delivered(server: Server, submission: Submission) -> bool:
    return (server.workspace / "feedback" / submission.name / "summary.json").exists()


def check_that_all_is_well(server: Server, before: set[int]) -> None:
    """Check that the server plays submissions, has closed all files, printed no traceback, and has a valid ledger."""
    answer = server.submit([0, 1])[1]
    assert answer["status"] == "ok" and (server.workspace / "feedback" / answer["submit_id"]).exists()
    assert wait_until(lambda: len(descriptors(server)) <= len(before), 60), sorted(descriptors(server) - before)
    state = read_state(server.root)
    assert state.running is None and list(read(server.root / "ledger.jsonl"))
    assert server.remaining() == 1000 - state.charged
    server.kill()
    assert server.process.stderr and "Traceback" not in server.process.stderr.read()


def test_connections_leave_the_judge_its_descriptors(server):
    before = descriptors(server)
    with limited(server, FEW), ExitStack() as stack:
        for number in range(3 * FEW):
            stack.enter_context(connect(server))
            if number % FEW == FEW // 2:
                answer = server.submit([0, 1])[1]
                assert answer["status"] == "ok" and (server.workspace / "feedback" / answer["submit_id"]).exists()
                assert len(descriptors(server)) < FEW - 20
    assert read_state(server.root).refunds == 0
    check_that_all_is_well(server, before)


def test_a_low_limit_is_raised_to_the_usual_one():
    """Where the hard limit allows it; what is higher stays."""
    low = "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])));"
    show = "from evopolicygym.server.http_server import protocol; protocol(); print(resource.getrlimit(7)[0])"
    for limits, raised in {(100, 2000): 1024, (100, 300): 300, (1500, 2000): 1500}.items():
        asked = [sys.executable, "-c", low + show, *map(str, limits)]
        assert int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout) == raised


def test_a_new_connection_replaces_an_idle_one_not_a_pending_one(server, gate):
    before = descriptors(server)
    gate.shut()
    with connect(server) as waiting, ExitStack() as stack:
        ask(waiting, server, "kept")
        assert wait_until(lambda: charged(server, "kept"))
        for number in range(600):
            idle = stack.enter_context(connect(server))
            if number % 3:
                with suppress(OSError):
                    idle.sendall([b"GET /", request_head(server, "Content-Length: 9") + b"{"][number % 2])
            if number % 100 == 0:
                assert server.call("GET", "/info")[0] == 200
        gate.open()
        assert read_response(waiting)[0] == 200
    check_that_all_is_well(server, before)


def test_the_number_of_waiting_submissions_is_bounded(server, gate):
    """Each keeps its connection until its response, so there must be fewer of them than connections."""
    before = descriptors(server)
    gate.shut()
    with ExitStack() as stack:
        waiting = [stack.enter_context(connect(server)) for _ in range(200)]
        for connection in waiting:
            ask(connection, server, "one")
        assert wait_until(lambda: charged(server, "one"))
        assert server.call("GET", "/info")[0] == 200
        gate.open()
        codes = [read_response(connection)[0] for connection in waiting]
    assert set(codes) == {200, 409} and codes.count(200) >= 32
    assert server.remaining() == 1000 - 3
    check_that_all_is_well(server, before)


def pauses(server: Server) -> int:
    log = server.root / "logs" / "judge.log"
    return log.read_text().count("paused: no") if log.exists() else 0


def wait_for_answer_or_pause(server: Server, connection: socket.socket, before: int) -> None:
    """A pause lasts as long as the shortage, so that there is no answer before its end."""
    assert wait_until(lambda: select.select([connection], [], [], 0)[0] or pauses(server) > before)


def submit_short(server: Server, spare: int, key: str) -> tuple[int, str]:
    """Short from the request on: at the snapshot, or later."""
    server.policy(f"# {key}\n{policy_source()}")  # no checkpoint that is there already
    with connect(server) as connection:
        connection.sendall(request_head(server, method="GET", path="/info"))
        read_response(connection)
        before = pauses(server)
        with short(server, spare):
            ask(connection, server, key)
            wait_for_answer_or_pause(server, connection, before)
        return read_response(connection)


def become_short(server: Server, gate: Gate, spare: int, key: str, kill: bool) -> tuple[int, str]:
    """Short from the middle of an episode on: at the feedback, or at a new worker for one that dies just now."""
    gate.shut()
    with connect(server) as connection:
        ask(connection, server, key)
        assert wait_until(lambda: list((server.root / "feedback").glob(".staged-*/episodes/ep_*")))
        before = pauses(server)
        with short(server, spare):
            if kill:
                os.kill(worker(server), 9)
            gate.open()
            wait_for_answer_or_pause(server, connection, before)
        return read_response(connection)


def worker(server: Server) -> int:
    return next(
        pid for pid in descendants(server.process.pid) if b"worker_entry" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )


def check_the_books(server: Server, code: int, text: str, key: str) -> str:
    """Check that each submission is free, refunded or judged, as its response says."""
    submission = charged(server, key)
    if submission is None or submission.refunded:
        assert code == 503 and '"fault"' in text and ("refunded" if submission else "nothing was charged") in text
        assert submission is None or not delivered(server, submission)
        return "refunded" if submission else "free"
    assert code == 200 and submission.is_ok and (server.root / "feedback" / submission.name).exists()
    return "ok"


def test_without_a_descriptor_for_the_snapshot_a_submission_is_free(server):
    before = descriptors(server)
    assert check_the_books(server, *submit_short(server, 0, "none"), "none") == "free"
    assert check_the_books(server, *submit_short(server, 1, "one"), "one") == "free"
    check_that_all_is_well(server, before)


def test_without_a_descriptor_for_the_feedback_a_submission_waits(server, gate):
    """The log, too, has to be open already: where the failure is written down is where the server once died."""
    before = descriptors(server)
    assert check_the_books(server, *become_short(server, gate, 0, "none", kill=False), "none") == "ok"
    assert "Too many open files" in (server.root / "logs" / "judge.log").read_text()
    check_that_all_is_well(server, before)


def test_without_a_descriptor_for_a_worker_a_submission_waits(server, gate):
    before = descriptors(server)
    assert check_the_books(server, *become_short(server, gate, 0, "none", kill=True), "none") == "ok"
    check_that_all_is_well(server, before)


def test_feedback_is_delivered_when_descriptors_are_available_again(server, gate):
    before = descriptors(server)
    gate.shut()
    with connect(server) as connection:
        ask(connection, server, "late")
        assert wait_until(lambda: list((server.root / "feedback").glob(".staged-*/episodes/ep_*")))
        with short(server, 4):
            gate.open()
            assert wait_until(lambda: (submission := charged(server, "late")) and submission.is_ok)
            staged = server.workspace / "feedback"
        assert read_response(connection)[0] == 200
    submission = charged(server, "late")
    assert submission and delivered(server, submission) and not list(staged.glob(".submit*"))
    check_that_all_is_well(server, before)


@pytest.mark.slow
@pytest.mark.parametrize("kill", [None, False, True])
def test_any_number_of_remaining_descriptors(serve, tmp_path, record_property, kill):
    """From none to enough: every submission is accounted for, and the next one is played."""
    gate, seen = Gate(tmp_path / "gate"), list[str]()
    for spare in range(16):
        options = {"task": "toys:Gated-v0", "TOY_GATE": str(gate.path), "name": f"run-{spare}"}
        server = serve("--budget", "1000", *SMALL, **options)
        server.policy()
        assert server.submit([0])[0] == 200
        before = descriptors(server)
        code, text = submit_short(server, spare, "k") if kill is None else become_short(server, gate, spare, "k", kill)
        seen.append(check_the_books(server, code, text, "k"))
        check_that_all_is_well(server, before)
    point = "in a request" if kill is None else "with a dead worker" if kill else "in an episode"
    record_property(
        f"short of descriptors {point}", ", ".join(f"{seen.count(kind)} {kind}" for kind in sorted({*seen}))
    )


@pytest.mark.slow
@pytest.mark.parametrize("limit", [160, FEW, 512])
def test_a_flood_of_connections_beside_real_work(serve, record_property, limit):
    """Opened and dropped without end, on a machine that is busy with other things."""
    server = serve("--budget", "1000", *SMALL)
    server.policy()
    assert server.submit([0])[0] == 200
    before, stop, opened = descriptors(server), threading.Event(), list[int]()
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    floods = [threading.Thread(target=flood, args=(server, stop, seed, opened)) for seed in range(2)]
    try:
        with limited(server, limit):
            for thread in floods:
                thread.start()
            answers = [insist(server, f"key-{number}") for number in range(150)]
    finally:
        stop.set()
        for thread in floods:
            thread.join()
        for process in busy:
            process.kill()
            process.wait()
    assert [answer["status"] for answer in answers] == ["ok"] * 150
    assert all((server.workspace / "feedback" / answer["submit_id"]).exists() for answer in answers)
    state = read_state(server.root)
    assert (state.charged, state.refunds, len(state.submissions)) == (301, 0, 151)
    assert wait_until(lambda: len(descriptors(server)) <= len(before))
    assert server.finish()["outcome"]["kind"] == "scored"
    assert command("verify", server.root, "--jobs", "1").returncode == 0
    record_property(f"connections at a limit of {limit}", f"{sum(opened)} beside 150 submissions")


def flood(server: Server, stop: threading.Event, seed: int, opened: list[int]) -> None:
    chance, held, count = random.Random(seed), list[socket.socket](), 0
    while not stop.is_set():
        with suppress(OSError):
            held.append(connect(server))
            count += 1
            held[-1].sendall(chance.choice([b"", b"GET /", request_head(server, "Content-Length: 9")]))
        if len(held) > 400:
            for connection in held[:200]:
                connection.close()
            del held[:200]
    for connection in held:
        connection.close()
    opened.append(count)


def insist(server: Server, key: str) -> dict[str, Any]:
    """A connection that is taken away before it has said what it wants is opened again; the key makes that safe."""
    while server.process.poll() is None:
        with suppress(OSError, HTTPException):
            return dict(server.submit([0, 1], Idempotency_Key=key)[1])
        time.sleep(0.01)
    raise AssertionError("the server is gone")
