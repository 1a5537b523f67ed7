"""The HTTP API: what it answers, to whom, and clients that must not be able to stop it."""

from __future__ import annotations

import json
import re
import resource
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from raw_requests import Gate, connect, read_response, request_head, wait_for_verdict

from conftest import policy_source
from evopolicygym.server.http_server import bind
from server_helpers import SMALL, Server

METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND")
PATHS = {"/info": "GET", "/task": "GET", "/submit": "POST", "/submissions/submit_001": "GET", "/openapi.json": "GET"}


@pytest.fixture(scope="module")
def gate(tmp_path_factory) -> Gate:
    return Gate(tmp_path_factory.mktemp("gate") / "open")


@pytest.fixture(scope="module")
def server(serve_for_all: Callable[..., Server], gate: Gate) -> Server:
    server = serve_for_all("--budget", "1000", *SMALL, task="toys:Gated-v0", TOY_GATE=str(gate.path))
    server.policy()
    assert server.submit([0])[0] == 200
    return server


@pytest.fixture
def running(server: Server, gate: Gate) -> Iterator[str]:
    """A submission that runs until the gate is opened."""
    gate.shut()
    code, answer = server.submit([3], wait=False)
    assert (code, answer["status"]) == (202, "running")
    yield answer["submit_id"]
    gate.open()
    wait_for_verdict(server, answer["submit_id"])


def test_info_has_every_field(server):
    code, info = server.call("GET", "/info")
    assert code == 200
    assert set(info) == {
        "protocol_version", "state", "env_meta", "episode_budget", "min_episodes_per_submit",
        "max_episodes_per_submit", "resource_limits", "allowed_imports", "denied_imports", "feedback",
        "max_candidates",
    }  # fmt: skip
    assert set(info["state"]) == {"remaining_budget", "n_submits", "is_finalized", "phase", "running"}
    assert info["env_meta"].items() >= {
        "env": "toys:Gated-v0", "env_version": 1, "n_env_instances": 1024, "max_episode_steps": 1000, "obs_storage": {},
    }.items()  # fmt: skip
    assert info["env_meta"]["obs_space"]["shape"] == [2] and info["env_meta"]["action_space"]["n"] == 3
    assert (info["episode_budget"], info["min_episodes_per_submit"], info["max_episodes_per_submit"]) == (1000, 1, 128)
    assert {"init_cpu_s", "act_cpu_s", "episode_cpu_s", "memory_mb"} <= set(info["resource_limits"])
    assert "gymnasium" in info["denied_imports"] and "numpy" in info["allowed_imports"]


def test_the_task_is_markdown(server):
    with urllib.request.urlopen(f"{server.api}/task", timeout=60) as reply:
        assert reply.headers["content-type"].startswith("text/markdown")
        assert reply.read().decode() in (server.workspace / "AGENTS.md").read_text()


def test_the_response_to_a_submission(server):
    code, answer = server.submit("1,0")
    assert code == 200 and answer["status"] == "ok" and answer["submit_id"] == answer["summary"]["submit_id"]
    assert answer["summary"]["env_instances"] == [1, 0] and len(answer["summary"]["returns"]) == 2
    assert server.call("GET", f"/submissions/{answer['submit_id']}") == (200, answer)


def test_the_published_client_works_unmodified(server):
    """As published, word for word but for the address."""
    body = json.dumps({"env_instances": [0, 1]}).encode()
    request = urllib.request.Request(f"{server.api}/submit", data=body, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        result = json.loads(response.read())
    assert result["summary"]["mean_return"] > 10


@pytest.mark.parametrize("path", PATHS)
def test_wrong_methods_are_refused(server, path):
    for method in METHODS:
        if method != PATHS[path]:
            assert server.call(method, path)[0] == 405, method


def test_an_agent_cannot_finalize_its_run(server):
    for method in METHODS[:5]:
        code, answer = server.call(method, "/finalize", b"{}")
        assert code == 405 and (method not in ("GET", "HEAD") or "agent cannot end" in answer["message"])
    assert not server.call("GET", "/info")[1]["state"]["is_finalized"]


def test_without_the_token_every_path_is_unknown(server):
    """The same response to every path, so that none can be distinguished."""
    base, _, token = server.api.rpartition("/")
    answers = set()
    for wrong in ("", token[:-1], token + "x", token.swapcase(), "%00", "..", "x" * 5000):
        for path in (*PATHS, "/finalize", "", "/", "/info/"):
            for method in METHODS[:5]:
                stranger = Server.__new__(Server)
                stranger.api = f"{base}/{wrong}"
                answers.add(json.dumps(stranger.call(method, path)))
    assert answers == {'[404, {"message": "Not Found"}]'}


@pytest.mark.parametrize("path", ["", "/", "/info/", "/nothing", "/submissions", "/submissions/", "/../info", "//info"])
def test_unknown_paths_are_not_found(server, path):
    assert server.call("GET", path)[0] == 404


@pytest.mark.parametrize(
    "name", ["submit_000", "submit_999", "1", "..%2Finfo", "%00", "submit_001%0a", "é".encode().hex()]
)
def test_unknown_submissions_are_not_found(server, name):
    assert server.call("GET", f"/submissions/{name}")[0] == 404


def test_it_listens_on_loopback_only(server):
    port = f"{urlsplit(server.api).port:04X}"
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    listening = [local for _, local, _, state, *_ in lines if state == "0A" and local.endswith(f":{port}")]
    assert listening == [f"0100007F:{port}"]


def test_every_run_has_its_own_long_token(tmp_path):
    tokens = set()
    for number in range(20):
        root = tmp_path / str(number)
        root.mkdir()
        for _ in range(2):  # a restart keeps the token
            listener, address = bind(root)
            listener.close()
            tokens.add(address.token)
        assert (root / ".door.json").stat().st_mode & 0o077 == 0
    assert len(tokens) == 20
    assert all(re.fullmatch(r"[\w-]{32}", token) for token in tokens)  # 192 bits


def test_a_body_that_is_declared_too_large_is_refused_unread(server):
    with connect(server) as connection:
        connection.sendall(request_head(server, f"Content-Length: {1 << 30}"))
        code, body = read_response(connection)
    assert code == 413 and json.loads(body)["status"] == "too_large"


def test_a_body_without_end_is_refused_and_not_kept(server):
    before, sent = peak_memory(server), 0
    chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    with connect(server) as connection:
        connection.sendall(request_head(server, "Transfer-Encoding: chunked"))
        for _ in range(128):
            connection.sendall(chunk)
            sent += 1 << 20
        code, _ = read_response(connection)
    assert code == 413 and sent == 128 << 20
    assert peak_memory(server) - before < 32 << 20


def peak_memory(server: Server) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) << 10


def test_slow_clients_do_not_delay_others(server):
    remaining = server.remaining()
    beginnings = [
        b"",
        b"P",
        request_head(server)[:40],
        request_head(server, "Content-Length: 30"),
        request_head(server, "Content-Length: 30") + b"{",
    ]
    with ExitStack() as stack:
        for number in range(100):
            stack.enter_context(connect(server)).sendall(beginnings[number % len(beginnings)])
        assert server.submit([0])[0] == 200
    assert server.remaining() == remaining - 1


def test_endless_connections_leave_descriptors_for_the_judge(server, gate, running):
    """Without a bound the feedback could not be written: a fault of the judge, and three of them void a run."""
    limit = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (512, limit[1]))
    try:
        with ExitStack() as stack:
            for _ in range(700):
                stack.enter_context(connect(server))
            gate.open()
            feedback = server.workspace / "feedback" / running
            while not feedback.exists() and server.process.poll() is None and "refunded" not in ledger(server):
                time.sleep(0.05)
        assert wait_for_verdict(server, running)["status"] == "ok"
    finally:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limit)


def ledger(server: Server) -> str:
    return (server.root / "ledger.jsonl").read_text()


def test_a_client_that_leaves_changes_nothing(server, gate):
    remaining, number = server.remaining(), server.call("GET", "/info")[1]["state"]["n_submits"]
    gate.shut()
    body = b'{"env_instances": [5, 6]}'
    with connect(server) as connection:
        connection.sendall(request_head(server, f"Content-Length: {len(body)}") + body)
        while (state := server.call("GET", "/info")[1]["state"])["n_submits"] == number:
            time.sleep(0.02)
    gate.open()
    answer = wait_for_verdict(server, state["running"])
    assert answer["status"] == "ok" and len(answer["summary"]["returns"]) == 2
    assert server.remaining() == remaining - 2


def test_of_simultaneous_submissions_one_is_accepted(server, gate):
    remaining = server.remaining()
    gate.shut()
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda case: server.submit([case], wait=False), range(50)))
    accepted = [answer for code, answer in answers if code == 202]
    refused = [answer["status"] for code, answer in answers if code == 409]
    assert len(accepted) == 1 and refused == ["busy"] * 49
    gate.open()
    assert wait_for_verdict(server, accepted[0]["submit_id"])["status"] == "ok"
    assert server.remaining() == remaining - 1


def test_simultaneous_requests_with_one_key_are_charged_once(server, gate):
    remaining, answers = server.remaining(), []
    gate.shut()
    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(server.submit, [8, 9], Idempotency_Key="together") for _ in range(20)]
        while server.call("GET", "/info")[1]["state"]["running"] is None:
            time.sleep(0.02)
        gate.open()
        answers = [future.result() for future in asked]
    assert all(answer == answers[0] for answer in answers) and answers[0][0] == 200
    assert server.remaining() == remaining - 2


def test_an_asynchronous_submission(server, gate, running):
    assert server.submit([0])[1]["status"] == "busy"
    waiting = {"submit_id": running, "status": "running", "remaining_budget": server.remaining()}
    unknown = {"summary": None, "message": None, "candidates": None}
    assert server.call("GET", f"/submissions/{running}") == (200, waiting | unknown)
    gate.open()
    wait_for_verdict(server, running)
    body = b'{"env_instances": [0]}'
    code, answer = server.call("POST", "/submit", body, Prefer="respond-async, wait=10", Idempotency_Key="later")
    assert code == 202
    assert wait_for_verdict(server, answer["submit_id"])["status"] == "ok"


def test_clients_that_never_end_do_not_delay_the_end_of_a_run(serve):
    server = serve()
    server.policy(policy_source())
    assert server.submit([0])[0] == 200
    with connect(server) as half, connect(server) as silent, connect(server) as endless:
        half.sendall(request_head(server, "Content-Length: 30") + b"{")
        silent.sendall(b"GET /")
        endless.sendall(request_head(server, "Transfer-Encoding: chunked"))
        stop = threading.Event()
        drip = threading.Thread(target=_drip, args=(endless, stop))
        drip.start()
        record = server.finish()
        stop.set()
        drip.join()
    assert record["outcome"]["kind"] == "scored" and record["budget"]["charged"] == 1


def _drip(connection: socket.socket, stop: threading.Event) -> None:
    while not stop.wait(0.05):
        try:
            connection.sendall(b"1\r\n \r\n")
        except OSError:
            return
