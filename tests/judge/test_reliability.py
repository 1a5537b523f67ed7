"""The long proofs of the judge, run by `make prove`; their figures stand in docs/reliability.md."""

from __future__ import annotations

import errno
import http.client
import json
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from conftest import policy_source
from evopolicygym.judge.feedback import digest
from evopolicygym.runs.run_status import read_state
from process_helpers import descendants
from server_helpers import SMALL, Server, command

pytestmark = pytest.mark.slow
SEEDS, KILLS = range(4), 50  # two hundred in all
RUNS = 8
HOSTILE = 10_000
FIRST = "key-first"
MIB = 1024  # of the KiB that /proc counts in


class Agent(threading.Thread):
    """Submits one random request after another, with a key for each, and repeats what gets no answer."""

    def __init__(self, server: Server, seed: int) -> None:
        super().__init__(daemon=True)
        self.server, self.random = server, random.Random(seed)
        self.replies: dict[str, Any] = {}
        self.sent: dict[str, list[int]] = {FIRST: [0, 1]}
        self.stop = threading.Event()
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self.stop.is_set():
            key = f"key-{len(self.sent)}"
            self.sent[key] = [self.random.randrange(100) for _ in range(self.random.randint(1, 3))]
            self.replies[key] = self.answer(key)
            self.ask_again(self.random.choice(list(self.replies)))  # also of what was answered long ago

    def ask_again(self, key: str) -> None:
        if self.answer(key) != self.replies[key]:
            self.wrong.append(key)

    def answer(self, key: str) -> Any:
        """Whatever it takes: servers come and go. Half of the time by polling."""
        while True:
            with suppress(OSError, http.client.HTTPException, ValueError):  # no server, half a reply, no address yet
                waits = self.random.random() < 0.5
                code, reply = self.server.submit(self.sent[key], waits, Idempotency_Key=key)
                while code in (200, 202) and reply["status"] == "running":
                    code, reply = self.server.call("GET", f"/submissions/{reply['submit_id']}")
                if code in (200, 202) or reply.get("status") != "busy":
                    return reply
            time.sleep(0.01)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_kills_lose_nothing(serve, record_property, seed):
    """Kills at random instants of submissions, some of them while the server is still starting."""
    server = serve(*SMALL, "--budget", "100000")
    server.policy()
    agent, chance, span = Agent(server, seed), random.Random(seed), 4 * seconds_of_a_submission(server)
    agent.start()
    hit: dict[str, int] = {"running": 0, "undelivered": 0, "torn": 0, "starting": 0}
    try:
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.0, span))
            server.kill()
            for what in instants(server.root):
                hit[what] += 1
            if chance.random() < 0.1:
                hit["starting"] += kill_while_starting(server, chance)
            server.start()
    finally:
        agent.stop.set()
        agent.join(600)
    check(agent)
    text = ", ".join(f"{count} {what}" for what, count in hit.items())
    record_property("random kills", f"{KILLS + hit['starting']} kills, {len(agent.replies)} submissions ({text})")


def seconds_of_a_submission(server: Server) -> float:
    """Kills come within a few of them, however busy the machine is: most interrupt one, and some get done."""
    began = time.monotonic()
    server.submit([0, 1], Idempotency_Key=FIRST)
    return time.monotonic() - began


def kill_while_starting(server: Server, chance: random.Random) -> int:
    """``start`` waits for the announcement, which is not to come: a timer is faster."""
    timer = threading.Timer(chance.uniform(0.0, 1.0), lambda: server.process.kill())
    timer.start()
    server.start()
    timer.join()
    server.kill()
    return 1


def instants(root: Path) -> list[str]:
    """What the kill interrupted, by what it left on disk."""
    state, problems = read_state(root), []
    if not (root / "ledger.jsonl").read_bytes().endswith(b"\n"):
        problems.append("torn")
    if state.running:
        problems.append("running")
    delivered = root / "workspace" / "feedback"
    if any(
        submission.judged and not (delivered / submission.name).exists() for submission in state.submissions.values()
    ):
        problems.append("undelivered")
    return problems


def check(agent: Agent) -> None:
    server = agent.server
    assert not agent.is_alive() and not agent.wrong
    for key in agent.replies:
        agent.ask_again(key)
    assert not agent.wrong, "a reply that was given is not true any more"
    assert all(reply["status"] == "ok" for reply in agent.replies.values())
    check_books(server.root, agent)
    assert server.remaining() == 100_000 - sum(map(len, agent.sent.values()))
    record = server.finish()
    assert record["outcome"]["kind"] == "scored"
    verified = command("verify", server.root, "--jobs", "1")
    assert verified.returncode == 0, verified.stdout


def check_books(root: Path, agent: Agent) -> None:
    """Each key charged once, for its cases; each case the same return for ever; both copies of all feedback whole."""
    state = read_state(root)
    charged = {submission.charged.key: list(submission.charged.cases) for submission in state.submissions.values()}
    assert charged == agent.sent and len(state.submissions) == len(charged)
    returns: dict[int, float] = {}
    for entry in state.submissions.values():
        assert entry.judged
        for case, value in zip(entry.charged.cases, entry.judged.summary["returns"], strict=True):
            assert returns.setdefault(case, value) == value
        copies = root / "feedback" / entry.name, root / "workspace" / "feedback" / entry.name
        assert [digest(copy) for copy in copies] == [entry.judged.feedback] * 2


def test_eight_runs_at_once(serve, record_property):
    began = time.monotonic()
    with ThreadPoolExecutor(RUNS) as pool:
        servers = list(pool.map(lambda n: serve(*SMALL, "--budget", str(20 + n), name=f"run-{n}"), range(RUNS)))
        spent = list(pool.map(spend, servers, range(RUNS)))
        records = list(pool.map(Server.finish, servers))
        verified = list(pool.map(lambda server: command("verify", server.root, "--jobs", "1"), servers))
    for number, (cost, record) in enumerate(zip(spent, records, strict=True)):
        budget = record["budget"]
        assert (budget["total"], budget["charged"], budget["remaining"]) == (20 + number, cost, 20 + number - cost)
        assert record["outcome"]["kind"] == "scored" and record["outcome"]["repeat"] == "equal"
    assert len({tuple(record["outcome"]["heldout"]["returns"]) for record in records}) == 1
    assert [done.returncode for done in verified] == [0] * RUNS
    record_property("runs at once", f"{RUNS} served, {sum(spent)} episodes, {time.monotonic() - began:.0f} s in all")


def spend(server: Server, number: int) -> int:
    """Four clients at once, until nothing is left but what would be too much; returns what they were charged."""
    server.policy()

    def client(seed: int) -> int:
        chance, cost = random.Random(seed), 0
        while True:
            cases = [chance.randrange(1000) for _ in range(chance.randint(1, 5))]
            code, reply = server.submit(cases)
            cost += len(cases) * (code == 200)
            if code == 409 and reply["status"] == "busy":
                time.sleep(0.01)
            elif code != 200:
                assert reply["status"] in ("budget_invalid", "run_closed")
                return cost

    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(client, range(number * 4, number * 4 + 4)))


def test_hostile_requests_cost_nothing(serve, record_property):
    server, chance = serve(), random.Random(3)
    server.policy()
    before = server.call("GET", "/info")[1]["state"]
    codes: dict[int, int] = {}
    connection = Connection(server.api)
    for _ in range(HOSTILE - HOSTILE // 20):
        code = connection.ask(*hostile(chance))
        codes[code] = codes.get(code, 0) + 1
    for _ in range(HOSTILE // 20):
        code = raw(server.api, garbage(chance, connection.path))
        codes[code] = codes.get(code, 0) + 1
    assert not [code for code in codes if code >= 500]
    assert not set(codes) & {202}
    assert server.call("GET", "/info")[1]["state"] == before
    assert (server.root / "ledger.jsonl").stat().st_size < 1 << 20
    assert server.submit([0])[1]["status"] == "ok"
    shown = ", ".join(f"{count} x {code or 'closed'}" for code, count in sorted(codes.items()))
    record_property("hostile requests", f"{sum(codes.values())}: {shown}")


class Connection:
    """One connection, opened again where the server closes it."""

    def __init__(self, api: str) -> None:
        self.host, self.path = urlsplit(api).netloc, urlsplit(api).path
        self.connection = http.client.HTTPConnection(self.host, timeout=120)

    def ask(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> int:
        try:
            self.connection.request(method, path.replace("TOKEN", self.path[1:]), body, headers)
            reply = self.connection.getresponse()
            reply.read()
            return reply.status
        except (OSError, http.client.HTTPException):
            self.connection.close()
            return 0


VALUES: tuple[Any, ...] = (
    None, True, False, -1, 1.5, 10**30, -(10**30), 1e400, float("nan"), "", " ", "x", "0-", "-1", "0--1", "0-30000000",
    "9" * 300, "0," * 1000, "1-0", "0;1", "\x00", "\ud800", "😀", "0x1", "٣", [], {}, [[]], [[0]], [None], [True],
    [0.0], ["0"], [-1], [10**6], [0, -1], {"0": 0}, list(range(129)), "0-128", [0] * 5000, "0-127,0", "1e1", "+1",
)  # fmt: skip
PATHS = ("/", "/TOKEN", "/TOKEN/", "/TOKEN/submit/", "/TOKEN/submit/../info", "/TOKEN//submit", "/TOKEN/finalize",
         "/TOKEN/submissions/", "/TOKEN/submissions/submit_001", "/TOKEN/submissions/%00", "/TOKEN/submissions/..%2f..",
         "/TOKEN/submissions/%ff%fe", "/x/submit", "/%54OKEN/submit", "/TOKEN/info?x=" + "y" * 5000, "/openapi.json",
         "/../../etc/passwd", "//TOKEN/info", "/TOKEN/../ledger.jsonl", "/TOKEN/run.json")  # fmt: skip
KEYS = ("", " ", "a b", "x" * 201, "x" * 5000, "\xe9", "\x7f", "tab\tbed")


def hostile(chance: random.Random) -> tuple[str, str, bytes | None, dict[str, str]]:
    kind = chance.randrange(6)
    if kind == 0:
        return "POST", "/TOKEN/submit", body_of({"env_instances": chance.choice(VALUES)}), {}
    if kind == 1:
        wrong = chance.choice([{}, {"env_instance": [0]}, [0], "0", None, {"env_instances": [0], "wait": "no"}])
        return "POST", "/TOKEN/submit", body_of(wrong), {}
    if kind == 2:
        return "POST", "/TOKEN/submit", junk(chance), {"Content-Type": chance.choice(["text/plain", "x", ""])}
    if kind == 3:
        return "POST", "/TOKEN/submit", b'{"env_instances": [0]}', {"Idempotency-Key": chance.choice(KEYS)}
    if kind == 4:
        method = chance.choice(["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "HEAD", "BREW"])
        return method, "/TOKEN/submit", None, {}
    return chance.choice(["GET", "POST"]), chance.choice(PATHS), None, {}


def body_of(value: Any) -> bytes:
    return json.dumps(value).encode()


def junk(chance: random.Random) -> bytes:
    whole = b'{"env_instances": [0, 1]}'
    return chance.choice([
        chance.randbytes(chance.randrange(200)),
        whole[: chance.randrange(len(whole))],
        b"[" * 30_000,
        b'{"env_instances":' * 3_000,
        b'{"env_instances": [0], "env_instances": [-1]}',
        b"\xff\xfe" + whole.decode().encode("utf-16-le"),
        b" " * (64 << 10) + whole,
        b"x" * (1 << 20),
        b'{"env_instances": "' + b"0," * 40_000 + b'0"}',
    ])  # fmt: skip


def garbage(chance: random.Random, path: str) -> bytes:
    """What is not even HTTP, or lies about its length; every one wants the connection for itself."""
    head = f"POST {path}/submit HTTP/1.1\r\nHost: x\r\n".encode()
    return chance.choice([
        chance.randbytes(chance.randrange(1, 400)) + b"\r\n\r\n",
        head + b"Content-Length: -1\r\n\r\n{}",
        head + b"Content-Length: 99999999999999999999\r\n\r\n{}",
        head + b"Content-Length: 10\r\nContent-Length: 20\r\n\r\n{}",
        head + b"Content-Length: 50\r\n\r\n{}",
        head + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
        head + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n1\r\n{\r\n0\r\n\r\n",
        head + b"Transfer-Encoding: nonsense\r\n\r\n{}",
        head + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
        head + b"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n",
        head + b"Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n",
        b"GET " + path.encode() + b"/\xff\xfe\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST " + path.encode() + b"/submit HTTP/9.9\r\n\r\n",
    ])  # fmt: skip


def raw(api: str, data: bytes) -> int:
    """The status it answers with; 0 when it just closes."""
    with socket.create_connection((urlsplit(api).hostname, urlsplit(api).port), timeout=60) as connection:
        answer = b""
        with suppress(ConnectionError):
            connection.sendall(data)
            hang_up(connection)
            answer = connection.makefile("rb").readline()
    return int(answer.split()[1]) if answer.startswith(b"HTTP/") else 0


def hang_up(connection: socket.socket) -> None:
    """We have said all; a server that has had enough may have reset the connection before."""
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise


def test_memory_does_not_grow_with_submissions(serve, record_property):
    server = serve()
    server.policy(policy_source(act="print('x' * 1000); return 1"))
    after: dict[int, dict[str, int]] = {}
    for number in range(1, 129):
        assert server.submit([number])[1]["status"] == "ok"
        if number in (10, 128):
            after[number] = resident(server.process.pid)
    growth = {process_name: after[128][process_name] - after[10][process_name] for process_name in after[10]}
    assert max(growth.values()) < 50 * MIB
    shown = ", ".join(
        f"{process_name} {after[10][process_name] / MIB:.1f} then {after[128][process_name] / MIB:.1f} MiB"
        for process_name in growth
    )
    record_property("memory after 10 and after 128 submissions", shown)


def resident(pid: int) -> dict[str, int]:
    """Return the memory of the server and all its descendants: simulator workers, and the processes from which policies
    are forked."""
    return {"server": _kib(pid), "workers": sum(_kib(child) for child in descendants(pid))}


def _kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
