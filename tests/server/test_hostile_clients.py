"""Clients that try to stop the server: others still get responses, and nothing is charged."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from raw_requests import Gate, connect, read_response, request_head

from conftest import policy_source
from evopolicygym.runs.run_status import read_state
from process_helpers import wait_until
from server_helpers import SMALL, Server

MANY = 300  # more than there are places
SUBMIT = b'{"env_instances": [1]}'


@pytest.fixture(scope="module")
def shared(serve_for_all: Callable[..., Server]) -> Server:
    server = serve_for_all("--budget", "1000", *SMALL)
    server.policy()
    assert server.submit([0])[0] == 200
    return server


@pytest.fixture
def server(shared: Server) -> Iterator[Server]:
    """Afterwards it answers, it plays, nothing was charged but that, and it has printed nothing but its progress."""
    remaining, submissions = shared.remaining(), len(read_state(shared.root).submissions)
    yield shared
    assert shared.call("GET", "/info")[0] == 200
    assert shared.submit([0])[1]["status"] == "ok"
    assert shared.remaining() == remaining - 1 and len(read_state(shared.root).submissions) == submissions + 1
    assert all("/1000 episodes" in line for line in printed(shared))


def printed(server: Server) -> list[str]:
    """What it has printed since the last call."""
    stream, text = server.process.stderr, b""
    assert stream
    while select.select([stream], [], [], 0)[0] and (more := os.read(stream.fileno(), 65536)):
        text += more
    return text.decode().splitlines()


def whole(server: Server, *lines: str, body: bytes = SUBMIT) -> bytes:
    return request_head(server, f"Content-Length: {len(body)}", *lines) + body


def answers_others(server: Server) -> bool:
    return bool(server.call("GET", "/info")[0] == 200)


def held_open(server: Server, stack: ExitStack, data: bytes) -> list[socket.socket]:
    """Many connections, each of which has said just this."""
    held = []
    for _ in range(MANY):
        held.append(stack.enter_context(connect(server)))
        with suppress(ConnectionError):
            held[-1].sendall(data)
    return held


@pytest.mark.parametrize("part", ["nothing", "half a line", "half a head", "half a body", "half a chunk"])
def test_slow_clients_do_not_exclude_others(server, part):
    """They continue byte by byte while others connect; the longest-idle connection is closed."""
    start, drop = {
        "nothing": (b"", b"\r\n"),
        "half a line": (b"POST /", b"x"),
        "half a head": (request_head(server)[:-2], b"X: y\r\n"),
        "half a body": (request_head(server, "Content-Length: 60000") + b"{", b" "),
        "half a chunk": (request_head(server, "Transfer-Encoding: chunked") + b"F0\r\n{", b" "),
    }[part]
    with ExitStack() as stack:
        held = held_open(server, stack, start)
        for _ in range(3):
            for connection in held:
                with suppress(ConnectionError):
                    connection.sendall(drop)
            assert answers_others(server)


def test_idle_clients_do_not_exclude_others(server):
    with ExitStack() as stack:
        for _ in range(MANY):
            connection = stack.enter_context(connect(server))
            connection.sendall(request_head(server, method="GET", path="/info"))
            assert read_response(connection)[0] == 200
        assert answers_others(server)


def test_clients_that_never_read_do_not_exclude_others(server):
    """Their answers fill what the kernel holds for them, then what we hold; no more than that is written."""
    request = request_head(server, method="GET", path="/openapi.json")
    with ExitStack() as stack:
        for _ in range(MANY // 5):
            connection = stack.enter_context(connect(server))
            connection.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    connection.send(request * 100)
        assert answers_others(server)


def test_half_closed_connections(server):
    with ExitStack() as stack:
        for data in (
            b"",
            b"GET /",
            request_head(server, "Content-Length: 9") + b"{",
            request_head(server, method="GET", path="/info"),
        ) * 75:
            connection = stack.enter_context(connect(server))
            connection.sendall(data)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
        assert answers_others(server)


@pytest.mark.parametrize(
    "lines", [["X: " + "y" * 100_000], [f"X-{n}: y" for n in range(20_000)], ["X: y\r\n z"] * 5000]
)
def test_huge_heads_are_refused(server, lines):
    with connect(server) as connection, suppress(ConnectionError):
        connection.sendall(request_head(server, *lines))
        assert b" 400 " in connection.makefile("rb").readline()


def test_pipelined_requests_are_answered_in_order(server):
    with connect(server) as connection:
        sender = threading.Thread(
            target=connection.sendall, args=(request_head(server, method="GET", path="/info") * 1000,)
        )
        sender.start()
        with connection.makefile("rb") as answers:
            codes = [code_of_next(answers) for _ in range(1000)]
        sender.join()
    assert set(codes) == {200}


def code_of_next(answers) -> int:
    code, length = int(answers.readline().split()[1]), 0
    for line in iter(answers.readline, b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split()[1])
    answers.read(length)
    return code


@pytest.mark.parametrize(
    "framing",
    ["Content-Length: 5", "Content-Length: 21", "Content-Length: 0", "Content-Length: -1", "Content-Length: +22",
     "Content-Length: 22, 23", "Content-Length: 0x16", "Content-Length: 22\r\nContent-Length: 5", "X: no length",
     "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, identity"],
)  # fmt: skip
def test_a_declared_length_that_is_too_short(server, framing):
    """Too short: the rest is no request. It is never half a submission that is played."""
    with connect(server) as connection:
        connection.sendall(request_head(server, framing) + SUBMIT)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answers:
            assert b" 20" not in answers.readline()


def test_a_declared_length_that_is_too_long_delays_no_other_client(server):
    with connect(server) as connection:
        connection.sendall(request_head(server, "Content-Length: 23") + SUBMIT)
        assert answers_others(server)


def test_endless_chunks_are_refused(server):
    with connect(server) as connection:
        connection.sendall(
            request_head(server, "Transfer-Encoding: chunked") + b"10000\r\n" + b" " * 0x10000 + b"\r\n1\r\n \r\n"
        )
        assert read_response(connection)[0] == 413
        with suppress(ConnectionError):
            for _ in range(1000):
                connection.sendall(b"1\r\n \r\n" * 100)
        assert answers_others(server)


def test_invalid_requests_print_nothing(server):
    """More of them than an unread pipe holds: a server that printed a line for each would block."""
    for number in range(3000):
        with connect(server) as connection, suppress(ConnectionError):
            connection.sendall(b"nonsense %d\r\n\r\n" % number)
            connection.recv(100)
    assert (server.root / "logs" / "judge.log").stat().st_size < 1 << 20


def test_pipelined_requests_with_one_key_are_charged_once(serve):
    server = serve("--budget", "1000", *SMALL)
    server.policy()
    request = whole(server, "Idempotency-Key: same")

    def ask(_: int) -> list[str]:
        with connect(server) as connection:
            connection.sendall(request * 5)
            with connection.makefile("rb") as answers:
                return [str(code_of_next(answers)) for _ in range(5)]

    with ThreadPoolExecutor(10) as pool:
        codes = [code for each in pool.map(ask, range(10)) for code in each]
    assert set(codes) == {"200"}
    assert server.remaining() == 999 and len(read_state(server.root).submissions) == 1


def test_submissions_while_the_run_is_finished(serve, tmp_path):
    """None is charged without being played, and none delays the end of the run."""
    gate = Gate(tmp_path / "gate")
    server = serve("--budget", "1000", *SMALL, task="toys:Gated-v0", TOY_GATE=str(gate.path))
    server.policy()
    gate.shut()
    running = server.submit([0], wait=False)[1]["submit_id"]
    stop, codes = threading.Event(), set[object]()

    def press(number: int) -> None:
        while not stop.is_set():
            try:
                codes.add(server.submit([number], wait=bool(number % 2), Idempotency_Key=f"{number}")[0])
            except (OSError, ValueError):
                codes.add("gone")

    pressing = [threading.Thread(target=press, args=(number,)) for number in range(8)]
    finishing = ThreadPoolExecutor(1).submit(server.finish)
    for thread in pressing:
        thread.start()
    gate.open()
    record = finishing.result()
    stop.set()
    for thread in pressing:
        thread.join()
    state = read_state(server.root)
    assert state.submissions[1].name == running and all(submission.is_ok for submission in state.submissions.values())
    assert record["outcome"]["kind"] == "scored" and record["budget"]["charged"] == len(state.submissions)
    assert codes <= {200, 202, 409, "gone"}


def test_a_repeated_key_is_answered_while_the_run_is_finished(serve, tmp_path):
    """A client that lost the response to a charged submission gets its result, not a refusal."""
    gate = Gate(tmp_path / "gate")
    server = serve("--budget", "1000", *SMALL, task="toys:Gated-v0", TOY_GATE=str(gate.path))
    server.policy()
    gate.shut()
    assert server.submit([0], wait=False, Idempotency_Key="lost")[0] == 202
    with ThreadPoolExecutor(2) as pool:
        finishing = pool.submit(server.finish)
        time.sleep(2)  # it waits for what is running
        again = pool.submit(server.submit, [0], Idempotency_Key="lost")
        time.sleep(0.5)
        gate.open()
        code, answer = again.result()
        assert (code, answer["status"], answer["submit_id"]) == (200, "ok", "submit_001")
        assert finishing.result()["budget"]["charged"] == 1


def test_slow_snapshots_do_not_delay_the_end_of_a_run(serve):
    """Those that wait for their turn when the run is closed have none."""
    server = serve("--budget", "1000", *SMALL)
    server.policy(policy_source())
    assert server.submit([0])[0] == 200
    system = server.workspace / "system"
    for number in range(3000):
        (system / f"a{number}").write_bytes(b"x" * 1000)
    os.symlink("/", system / "z")
    with ExitStack() as stack:
        waiting = [stack.enter_context(connect(server)) for _ in range(30)]
        for connection in waiting:
            connection.sendall(whole(server))
        assert read_response(waiting[0])[0] == 400
        record = server.finish()
        answers = [answer for connection in waiting[1:] if (answer := last_words(connection))]
    assert record["budget"]["charged"] == 1
    assert {answer["status"] for answer in answers} <= {"snapshot_invalid", "run_closed"}
    assert any(answer["status"] == "run_closed" for answer in answers)


def last_words(connection: socket.socket) -> dict[str, str] | None:
    with suppress(OSError, IndexError, ValueError):
        return dict(json.loads(read_response(connection)[1]))
    return None


@pytest.mark.slow
def test_a_hundred_thousand_requests(shared, record_property):
    """Tiny ones, pipelined, each of another kind; memory and log stay as they are."""
    before = memory(shared)
    kinds = [
        request_head(shared, method="GET", path="/info"),
        request_head(shared, method="GET", path="/submissions/submit_999"),
        whole(shared, body=b"{}"),
        request_head(shared, method="PUT"),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ]
    codes: dict[int, int] = {}
    for _ in range(100):
        with connect(shared) as connection:
            sender = threading.Thread(target=connection.sendall, args=(b"".join(kinds) * 200,))
            sender.start()
            with connection.makefile("rb") as answers:
                for code in (code_of_next(answers) for _ in range(1000)):
                    codes[code] = codes.get(code, 0) + 1
            sender.join()
    assert set(codes) == {200, 400, 404, 405}
    assert memory(shared) - before < 32 << 10
    assert wait_until(lambda: shared.submit([0])[1]["status"] == "ok")
    record_property("tiny requests", ", ".join(f"{count} x {code}" for code, count in sorted(codes.items())))


def memory(server: Server) -> int:
    """Return the memory of the server in KiB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
