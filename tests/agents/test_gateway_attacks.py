"""Calls that try to escape their metering, or to fill the judge's memory."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time

import pytest
from gateway_helpers import KEY, Kept, RawServer, ask, calls, exchanges, gateway

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
        (gzip.compress(STREAM.encode()), {"Content-Encoding": "gzip"}),
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
