"""submit.py while its server is busy, restarts, is missing or has closed the run."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlsplit

import pytest
from client_helpers import fresh, pending, plain, start

from process_helpers import wait_until
from server_helpers import SMALL, Server


@pytest.fixture(scope="module")
def shared_server(serve_for_all: Callable[..., Server]) -> Server:
    return serve_for_all("--budget", "1000", *SMALL)


@pytest.fixture
def server(shared_server: Server) -> Iterator[Server]:
    yield from fresh(shared_server)


class Stranger(BaseHTTPRequestHandler):
    """Something else that listens where the server was."""

    replies = [
        (404, b"{}"),
        (200, b"<html>hello</html>"),
        (500, b"oops"),
        (200, b"[]"),
        (200, b"3"),
        (200, b"{}"),
        (200, b"\xff"),
    ]

    def do_GET(self) -> None:
        self.close_connection = True
        code, body = self.replies[0]
        type(self).replies = self.replies[1:] or self.replies
        self.send_response(code)
        self.send_header("Content-Length", str(len(body) + (not self.replies)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


def test_a_server_that_restarts_at_another_port(serve, tmp_path):
    """It is killed while the client waits; its port is taken by something that answers, and answers nonsense."""
    gate = tmp_path / "gate"
    server = serve(task="toys:Gated-v0", TOY_GATE=str(gate))
    server.policy()
    first = server.api
    client = start(server, "0-2")
    while server.call("GET", "/info")[1]["state"]["running"] is None:
        time.sleep(0.02)
    server.kill()
    stranger = HTTPServer(("127.0.0.1", urlsplit(first).port or 0), Stranger)
    threading.Thread(target=stranger.serve_forever, daemon=True).start()
    try:
        server.start(TOY_GATE=str(gate))
        assert server.api != first and server.api.rpartition("/")[2] == first.rpartition("/")[2]
        gate.touch()
        printed, errors = client.communicate(timeout=120)
    finally:
        stranger.shutdown()
        stranger.server_close()
    assert client.returncode == 0 and "mean return" in printed and "Traceback" not in errors, errors
    assert server.remaining() == 125


def test_a_busy_server_and_a_spent_budget(serve, tmp_path):
    """Another submission is waited for; when the budget is spent, the refusal says so; a restart keeps the address."""
    gate = tmp_path / "gate"
    server = serve("--budget", "3", *SMALL, task="toys:Gated-v0", TOY_GATE=str(gate))
    server.policy()
    first = server.api
    assert server.submit([0], wait=False)[0] == 202
    waiting = start(server, "1,2")
    assert waiting.stderr and "still running" in waiting.stderr.readline()
    server.kill()
    server.start(TOY_GATE=str(gate))
    assert server.api == first
    gate.touch()
    printed, _ = waiting.communicate(timeout=120)
    assert waiting.returncode == 0 and "remaining budget: 0" in printed
    done = server.client("0")
    assert done.returncode == 2 and "run_closed" in done.stderr and plain(done)
    assert not pending(server).exists()


def test_a_missing_server_is_waited_for(server, tmp_path):
    """Until the client is killed; the key is kept for the next call."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    (server.workspace / "door.json").write_text(json.dumps({"api": f"http://127.0.0.1:{port}/x"}))
    process = start(server, "3")
    assert process.stderr and "trying again" in process.stderr.readline()
    process.kill()
    process.communicate()
    assert json.loads(pending(server).read_text())["cases"] == "3"


def test_a_closed_run_is_not_waited_for(serve):
    """Neither by a later client nor by one that was waiting for the server."""
    server = serve()
    server.policy()
    assert server.client("0").returncode == 0
    server.kill()
    waiting = start(server, "1")
    assert waiting.stderr and "trying again" in waiting.stderr.readline()
    server.finish()
    _, errors = waiting.communicate(timeout=60)
    assert waiting.returncode == 2 and "the run is closed" in errors and "Traceback" not in errors
    for arguments in (["2"], [], ["--info"], ["--check"]):
        done = server.client(*arguments)
        assert done.returncode == 2 and "the run is closed" in done.stderr and plain(done)


def test_a_run_that_is_closed_while_its_last_submission_plays(serve, tmp_path):
    """It was charged and played: a client that waits for it prints its result, not a refusal."""
    gate = tmp_path / "gate"
    server = serve(task="toys:Gated-v0", TOY_GATE=str(gate))
    server.policy()
    waiting = start(server, "0")
    wait_until(lambda: server.call("GET", "/info")[1]["state"]["running"])
    time.sleep(2)  # by now it was told that it runs, and asks once a second
    waiting.send_signal(signal.SIGSTOP)
    gate.touch()
    assert server.finish()["budget"]["charged"] == 1
    waiting.send_signal(signal.SIGCONT)
    printed, errors = waiting.communicate(timeout=60)
    assert waiting.returncode == 0 and "submit_001: ok" in printed, errors
    assert not pending(server).exists()


def test_a_server_that_restarts_is_waited_for(serve):
    server = serve()
    server.policy()
    server.kill()
    waiting = start(server, "0")
    assert waiting.stderr and "trying again" in waiting.stderr.readline()
    server.start()
    printed, errors = waiting.communicate(timeout=60)
    assert waiting.returncode == 0 and "mean return" in printed, errors
