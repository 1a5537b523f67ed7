"""Calls that try to escape their metering, or to fill the judge's memory."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest
from gateway_helpers import KEY, Kept, RawServer, ask, calls, exchanges, gateway

from evopolicygym.gateway import connections
from evopolicygym.gateway import server as gateway_server
from process_helpers import wait_until

pytestmark = pytest.mark.timeout(60)
CHAT = "/v1/chat/completions"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
EVENT = b'data: {"model":"m","choices":[{"delta":{"content":"x"}}]}\n\n'
LAST = b'data: {"model":"m","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}\n\n'
STREAM = '{"model":"m","stream":true}'
REFUSAL = b"HTTP/1.1 400 Bad\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def stream_usage(server):
    """Answer as servers do: usage for a body that asks for it, by its parsed text."""

    def answer(talk):
        body = json.loads(server[0].requests[-1].partition(b"\r\n\r\n")[2])
        if body.get("model") != "m":
            return talk.sendall(REFUSAL)
        asks = (body.get("stream_options") or {}).get("include_usage") is True
        return talk.sendall(HEAD + EVENT + (LAST if body.get("stream") and asks else b""))

    return answer


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (STREAM, {"Content-Encoding": "identity"}),
        (gzip.compress(STREAM.encode(), mtime=0), {"Content-Encoding": "gzip"}),
        ('{"model":"m","stream":true,"metadata":{"include_usage":true}}', {}),
        ('{"model":"m","\\u0073tream":true}', {}),
        ('{"model":"m","stream":false,"stream":true,"x":NaN}', {}),
        ('{"model":"m","stream":true,"stream_options":{"include_usage":false}}', {}),
    ],
)
def test_no_spelling_of_a_streamed_call_escapes_its_metering(body, headers):
    holder: list[RawServer] = []
    with RawServer(stream_usage(holder)) as server, gateway(server.url) as opened:
        holder.append(server)
        answer = ask(opened, "POST", CHAT, body, {"Authorization": f"Bearer {opened.token}", **headers})
        assert answer.read() == EVENT
        (row,) = calls(opened, 1)
    assert row.usage.output == 3


@pytest.mark.parametrize(
    "body", ['{"stream":1}', '{"Stream":true}', '{"stream":true,"stream_options":1}', "stream", ""]
)
def test_a_call_that_servers_may_read_in_two_ways_is_refused(body):
    with RawServer(lambda talk: talk.sendall(HEAD)) as server, gateway(server.url) as opened:
        answer = ask(opened, "POST", CHAT, body)
        assert answer.status == 400 and "EvoPolicyGym" in json.load(answer)["error"]["message"]
    assert not server.requests


def test_a_refused_call_does_not_end_the_metering_of_others():
    holder: list[RawServer] = []
    with RawServer(stream_usage(holder)) as server, gateway(server.url) as opened:
        holder.append(server)
        assert ask(opened, "POST", CHAT, '{"stream":true}').status == 400
        assert ask(opened, "POST", CHAT, STREAM).read() == EVENT
        assert calls(opened, 2)[1].usage.output == 3


def test_an_answer_whose_client_has_gone_is_metered():
    more = threading.Event()

    def answer(talk):
        talk.sendall(HEAD + EVENT)
        more.wait(30)
        talk.sendall(LAST)

    with RawServer(answer) as server, gateway(server.url) as opened:
        with socket.create_connection(("127.0.0.1", opened.ports[0])) as talk:
            head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {opened.token}\r\n"
            talk.sendall(f"{head}Content-Length: {len(STREAM)}\r\n\r\n{STREAM}".encode())
            received = b""
            while b"choices" not in received:
                received += talk.recv(1 << 16)
        wait_until(lambda: any(client.is_gone for client in opened_clients(opened)))
        more.set()
        (row,) = calls(opened, 1)
        assert row.usage.output == 3 and row.is_complete


@pytest.mark.parametrize(("is_ended_by_judge", "is_troubled"), [(False, False), (True, True)])
def test_a_call_that_its_client_gives_up_is_no_trouble_of_the_provider(is_ended_by_judge, is_troubled):
    """An agent that hangs up could otherwise invent an outage. When the judge ends the turn, the server was silent."""
    with RawServer(lambda talk: talk.recv(1)) as server, gateway(server.url) as opened:
        with socket.create_connection(("127.0.0.1", opened.ports[0])) as talk:
            head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {opened.token}\r\n"
            talk.sendall(f"{head}Content-Length: {len(STREAM)}\r\n\r\n{STREAM}".encode())
            wait_until(lambda: server.requests)
            if is_ended_by_judge:
                opened.end_turn()
        (row,) = calls(opened, 1)
        assert opened.meter.used.requests == 1, "it is a request all the same: the provider may have worked on it"
        assert opened.meter.turn(0).facts(None)["retries"] == 0
    assert (row.status, row.is_troubled) == (0, is_troubled)


BROKEN = [
    f"POST {CHAT} HTTP/9.9\r\n\r\n",
    f"POST {CHAT} HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nAuthorization: Bearer \xff\xfe\r\n\r\n{{}}",
    f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "\x00\x01\x02\r\n\r\n",
]


@pytest.mark.parametrize("text", BROKEN)
def test_broken_requests_are_refused_and_fill_no_log(text, capfd):
    with RawServer(lambda talk: talk.sendall(HEAD)) as server, gateway(server.url) as opened:
        with socket.create_connection(("127.0.0.1", opened.ports[0]), 30) as talk:
            talk.sendall(text.encode("latin-1"))
            assert talk.makefile("rb").readline().split()[1] in (b"400", b"401")
        assert ask(opened, "POST", CHAT, "{}").status == 200
    assert len(server.requests) == 1 and capfd.readouterr() == ("", "")


def test_no_header_chooses_another_host():
    names = ("Forwarded", "X-Forwarded-Host", "X-Original-URL", "X-Host")
    headers = dict.fromkeys(names, "evil.example")
    with RawServer(lambda talk: talk.sendall(HEAD)) as server, gateway(server.url) as opened:
        ask(opened, "POST", CHAT, "{}", {"Authorization": f"Bearer {opened.token}", "Host": "evil.example", **headers})
    assert b"evil" not in server.requests[0]


@pytest.mark.parametrize("body", ["[" * 1_000_000, '{"a":' * 1_000_000, '{"messages":' + "[" * 100_000])
def test_deep_bodies_are_refused_or_carried(body):
    with RawServer(lambda talk: talk.sendall(HEAD)) as server, gateway(server.url) as opened:
        assert ask(opened, "POST", CHAT, body).status in (200, 400)
        assert ask(opened, "POST", "/v1/messages", body).status in (200, 400)
        assert ask(opened, "POST", CHAT, "{}").status == 200


def test_refused_requests_are_no_trouble_of_the_provider():
    with RawServer(lambda talk: talk.sendall(REFUSAL)) as server, gateway(server.url) as opened:
        assert ask(opened, "POST", CHAT, "stream").status == ask(opened, "POST", CHAT, STREAM).status == 400
        assert [row.is_troubled for row in calls(opened, 2)] == [False, False] and len(server.requests) == 2


@pytest.mark.parametrize("reply", [b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", b"nonsense", HEAD[:-2]])
def test_what_the_provider_does_is_trouble(reply):
    with RawServer(lambda talk: talk.sendall(reply)) as server, gateway(server.url) as opened:
        ask(opened, "POST", CHAT, STREAM).read()
        assert [row.is_troubled for row in calls(opened, 1)] == [True]


def opened_clients(opened):
    """Return the clients of the calls that are under way."""
    frames = [task.get_coro().cr_frame for task in list(opened._tasks)]
    return [frame.f_locals["client"] for frame in frames if frame]


def test_bodies_that_do_not_end_are_bounded_together(monkeypatch):
    monkeypatch.setattr(gateway_server, "MAX_BODIES", 1 << 20)
    with RawServer(lambda talk: talk.sendall(HEAD)) as server, gateway(server.url) as opened:
        head = (
            f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {opened.token}\r\nContent-Length: 900000\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", opened.ports[0])) as talk:
            talk.sendall(head.encode() + b" " * 800_000)
            wait_until(lambda: opened._bodies._used == 800_000)
            assert ask(opened, "POST", CHAT, "{" + " " * 400_000 + "}").status == 503
            assert ask(opened, "POST", CHAT, "{}").status == 200
        wait_until(lambda: opened._bodies._used == 0)


FEW_FILES = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
from evopolicygym.gateway.call_limits import CallLimits
from evopolicygym.gateway.metering import ModelMeter
from evopolicygym.gateway.patience import Patience
from evopolicygym.gateway.server import Gateway
from evopolicygym.gateway.upstream import ModelServer
servers = [ModelServer(sys.argv[1], "the-real-key"), ModelServer(sys.argv[1], "the-real-key")]
opened = Gateway(servers, ModelMeter(CallLimits(), {}), Patience(0.0))
print(opened.token, *opened.ports, flush=True)
sys.stdin.readline()
deadline = time.monotonic() + 60
with open("/dev/null"):
    while len(opened.meter.turn(0).calls) < 1000 and time.monotonic() < deadline:
        time.sleep(0.01)  # a call is counted after its answer was sent
    print(len(opened.meter.turn(0).calls), flush=True)
opened.close()
"""


def test_a_thousand_connections_to_a_judge_with_few_descriptors():
    """All are open before the first one is answered: they wait, and the process can still open files."""
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    with (
        RawServer(lambda talk: talk.sendall(reply)) as server,
        subprocess.Popen(
            [sys.executable, "-c", FEW_FILES, server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as judge,
    ):
        assert judge.stdin and judge.stdout
        token, *ports = judge.stdout.readline().split()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
        talks = [socket.create_connection(("127.0.0.1", int(ports[number % 2])), 30) for number in range(1000)]
        for talk in talks:
            talk.sendall(f"{head}Content-Length: 2\r\n\r\n{{}}".encode())
        answers = [talk.makefile("rb").readline() for talk in talks]
        for talk in talks:
            talk.close()
        judge.stdin.write("\n")
        judge.stdin.flush()
        assert judge.stdout.readline() == "1000\n"
    assert set(answers) == {b"HTTP/1.1 200 OK\r\n"}


def test_calls_that_wait_for_the_recorder_are_bounded(monkeypatch):
    monkeypatch.setattr(gateway_server, "MAX_UNRECORDED", 1000)
    with RawServer(lambda talk: talk.sendall(HEAD)) as server, gateway(server.url) as opened:
        sink = opened._sink
        assert isinstance(sink, Kept)
        assert ask(opened, "POST", CHAT, json.dumps({"user": "x" * 1000})).status == 200
        wait_until(lambda: sink.left_out == [1])
        assert ask(opened, "POST", CHAT, "{}").status == 200
        assert [kept.number for kept in exchanges(opened)] == [2]


@pytest.mark.parametrize("status", [b"200 OK", b"301 Moved", b"400 Bad"])
def test_no_answer_gives_the_agent_a_key_or_a_control_character(status):
    team = "secret-of-the-team"
    text = f"<{KEY}> <{team}>".encode()

    def answer(talk):
        talk.sendall(b"HTTP/1.1 %s\r\nX-Echo: \xff\x01%s\r\nConnection: close\r\n\r\n" % (status, team.encode()))
        for byte in text:
            talk.sendall(bytes([byte]))
            time.sleep(0.001)

    with RawServer(answer) as server, gateway(server.url, headers={"X-Team": team}) as opened:
        response = ask(opened, "POST", "/v1/messages", "{}")
        body = response.read()
    assert response.status == int(status[:3]) and body.startswith(b"<[key]") and b"> <[X-Team]" in body
    assert not {KEY, team} & set(body.decode().replace("<", " ").replace(">", " ").split())
    assert team not in response.headers["X-Echo"]


@pytest.mark.parametrize("begun", ["", f"POST {CHAT} HTTP/1.1\r\nHost:"])
def test_connections_without_a_call_do_not_keep_calls_out(begun, monkeypatch):
    monkeypatch.setattr(connections, "FIRST_CALL_S", 0.2)
    with RawServer(lambda talk: talk.sendall(HEAD)) as server, gateway(server.url) as opened:
        talks = [socket.create_connection(("127.0.0.1", opened.ports[0]), 30) for _ in range(300)]
        for talk in talks:
            talk.sendall(begun.encode())
        assert ask(opened, "POST", CHAT, "{}").status == 200
        for talk in talks:
            with suppress(ConnectionResetError):  # as it is closed, if the judge had not read what was sent
                assert not talk.recv(1)
            talk.close()


def test_a_call_whose_rest_does_not_arrive_is_refused(monkeypatch):
    monkeypatch.setattr(gateway_server, "BODY_SILENCE_S", 0.2)
    with RawServer(lambda talk: talk.sendall(HEAD)) as server, gateway(server.url) as opened:
        head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {opened.token}\r\nContent-Length: 9\r\n\r\n{{"
        with socket.create_connection(("127.0.0.1", opened.ports[0]), 30) as talk:
            talk.sendall(head.encode())
            assert talk.recv(100).startswith(b"HTTP/1.1 408")
        assert not server.requests
