"""The gateway between a client and a model's server: all four APIs, tokens and keys, streams, and broken answers."""

from __future__ import annotations

import errno
import gzip
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from http.client import HTTPConnection, IncompleteRead

import pytest
from gateway_helpers import CALLS, KEY, RawServer, ask, call, calls, exchanges, gateway
from scripted_model import ScriptedModel
from wire_formats import CACHED, INPUT, OUTPUT, REASONING, WRITTEN

from evopolicygym.errors import UserError
from evopolicygym.gateway import server
from evopolicygym.gateway.call_limits import CallAdmission, CallLimits
from evopolicygym.gateway.connections import AnsweredClient
from evopolicygym.gateway.metering import ModelMeter
from evopolicygym.gateway.server import Gateway
from evopolicygym.gateway.upstream import ModelServer
from process_helpers import wait_until

pytestmark = pytest.mark.timeout(60)
FRESH = INPUT - CACHED
CHAT_USAGE = (FRESH, CACHED, None, OUTPUT, REASONING)
USAGE = {
    "anthropic-messages": (FRESH, CACHED, WRITTEN, OUTPUT, None),
    "openai-responses": CHAT_USAGE,
    "openai-chat": CHAT_USAGE,
    "gemini": (FRESH, CACHED, None, OUTPUT + REASONING, REASONING),
}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
EVENT = b'data: {"model":"m","choices":[{"delta":{"content":"x"}}]}\n\n'
LAST = b'data: {"model":"m","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}\n\n'
ASKING = '{"stream": true, "stream_options": {"include_usage": true}}'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", CALLS)
def test_a_call_passes_with_the_key_and_is_metered(api, stream):
    with ScriptedModel() as model, gateway(model.url) as opened:
        status, body = call(opened, api, stream)
        assert status == 200 and b"A title" in body
        (seen,) = model.seen
        assert seen["key"] == KEY
        (row,) = calls(opened, 1)
    usage = row.usage
    assert (usage.fresh_input, usage.cache_read, usage.cache_write, usage.output, usage.reasoning) == USAGE[api]
    assert (row.api, row.status, row.is_complete, usage.source) == (api, 200, True, "gateway")
    assert row.model in ("claude-scripted", "gpt-scripted", "gemini-scripted", "scripted")
    (kept,) = exchanges(opened)
    assert kept.response_body == body and kept.usage == usage and not {KEY, opened.token} & set(_words(kept))


def _words(exchange) -> set[str]:
    texts = [*exchange.request_headers.values(), *exchange.response_headers.values(), exchange.target]
    return {word for text in texts for word in text.replace("=", " ").split()}


def test_lists_of_models_are_free_and_token_counts_are_requests():
    with ScriptedModel() as model, gateway(model.url) as opened:
        assert json.load(ask(opened, "GET", "/v1/models"))["object"] == "list"
        counted = ask(opened, "POST", "/v1/messages/count_tokens?beta=true", "{}", {"x-api-key": opened.token})
        assert json.load(counted)["input_tokens"] == INPUT
        assert ask(opened, "HEAD", "/").status == 200
        assert [row.api for row in calls(opened, 3)] == ["other", "token-counts", "other"]
        (counted_row,) = opened.meter.turn(0).counted
        assert counted_row.api == "token-counts" and not counted_row.is_unmetered


@pytest.mark.parametrize("api", CALLS)
def test_a_call_without_the_token_is_refused_in_the_words_of_its_api(api):
    with ScriptedModel() as model, gateway(model.url) as opened:
        status, body = call(opened, api, token="sk-guessed")
        assert status == 401 and "not the one" in json.loads(body)["error"]["message"] and not model.seen


def test_the_key_in_the_query_of_gemini():
    body = json.dumps(CALLS["gemini"][2])
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    with RawServer(lambda talk: talk.sendall(reply)) as server, gateway(server.url) as opened:
        path = f"/v1beta/models/x:generateContent?key={opened.token}&alt=json"
        assert ask(opened, "POST", path, body, {"Accept": "*/*"}).status == 200
        assert exchanges(opened)[0].target == "/v1beta/models/x:generateContent?key=[key]&alt=json"
    assert server.requests[0].startswith(f"POST /v1beta/models/x:generateContent?key={KEY}&alt=json HTTP/1.1".encode())


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "http://example.com/v1/models"),
        ("GET", "/v1/files"),
        ("GET", "/v2/models"),
        ("GET", "/v1beta/models"),
        ("GET", "/v1/../admin/models"),
        ("GET", "/v1/%2e%2e/admin/models"),
        ("GET", "//example.com/v1/models"),
        ("DELETE", "/v1/models/mine"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/fine_tuning/jobs"),
        ("POST", "/v1/batches#/embeddings"),
        ("POST", "/v1/batches%23/embeddings"),
        ("POST", "/v1/chat/completions?a#b"),
        ("POST", "/v1/chat/completions;a"),
        ("POST", "/v1/chat%2fcompletions"),
        ("POST", "/v1/chat/completions%00"),
        ("POST", "/v1/chat/completions?$httpMethod=DELETE"),
        ("POST", "/v1/threads/7/messages"),
        ("GET", "/v1/files#/models"),
        ("GET", "/v1/files/models"),
        ("GET", "/v1/models/..%5cfiles"),
        ("GET", "/v1/models/%252e%252e/files"),
        ("GET", "/v1/models/..;/files"),
        ("GET", "/v1/models/\\files"),
        ("CONNECT", "example.com:443"),
    ],
)
def test_the_gateway_carries_nothing_else_and_nowhere_else(method, target):
    with ScriptedModel() as model, gateway(f"{model.url}/v1") as opened:
        talk = socket.create_connection(("127.0.0.1", opened.ports[0]))
        with talk:
            head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {opened.token}\r\n"
            talk.sendall(f"{head}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
            answer = talk.makefile("rb").read()
        assert answer.split()[1] in (b"400", b"404", b"405") and not opened.meter.turn(0).calls


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v1/%63hat/completions", "openai-chat"),
        ("/v1/completions", "openai-completions"),
        ("/v1/embeddings", "openai-embeddings"),
    ],
)
def test_every_path_to_an_answer_is_metered_and_limited(path, api):
    reply = b'{"model":"m","usage":{"prompt_tokens":5}}'
    reply = reply if "embeddings" in path else reply.replace(b"5}", b'5,"completion_tokens":0}')
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    with (
        RawServer(lambda talk: talk.sendall(head + reply)) as server,
        gateway(server.url, limits=CallLimits(requests=1)) as opened,
    ):
        assert [ask(opened, "POST", path, "{}").status for _ in range(2)] == [200, 429]
        (row,) = calls(opened, 1)
    assert (row.api, row.usage.fresh_input, row.usage.output) == (api, 5, 0)
    assert server.requests[0].startswith(b"POST " + path.replace("%63", "c").encode() + b" HTTP/1.1")


def test_hop_by_hop_headers_and_cookies_stay_behind():
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\nX-Request-Id: 7\r\n"
    reply = head + b"Connection: X-Odd\r\nX-Odd: 1\r\n\r\n{}"
    with RawServer(lambda talk: talk.sendall(reply)) as server, gateway(server.url) as opened:
        headers = {"Authorization": f"Bearer {opened.token}", "anthropic-beta": "cache", "Cookie": "c=d", "TE": "x",
                   "Accept-Encoding": "br, gzip;q=0.5"}  # fmt: skip
        response = ask(opened, "GET", "/v1/models", headers=headers)
    assert response.headers["X-Request-Id"] == "7" and not {"Set-Cookie", "X-Odd"} & set(response.headers)
    (request,) = server.requests
    lines = {line.partition(b":")[0].lower(): line for line in request.split(b"\r\n")[1:]}
    assert lines[b"anthropic-beta"] == b"anthropic-beta: cache" and lines[b"accept-encoding"].endswith(b": identity")
    assert not {b"cookie", b"te"} & lines.keys() and lines[b"host"].endswith(server.url.partition("//")[2].encode())


def test_redirects_are_not_followed():
    with ScriptedModel() as elsewhere:
        reply = f"HTTP/1.1 307 Moved\r\nLocation: {elsewhere.url}/v1/messages\r\nContent-Length: 0\r\n\r\n".encode()
        with RawServer(lambda talk: talk.sendall(reply)) as server, gateway(server.url) as opened:
            assert call(opened, "anthropic-messages")[0] == 307 and not elsewhere.seen


def test_the_first_token_passes_while_the_answer_goes_on():
    more = threading.Event()

    def answer(talk):
        talk.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(EVENT))
        more.wait(30)
        talk.sendall(chunk(LAST) + b"0\r\n\r\n")

    with RawServer(answer) as server, gateway(server.url) as opened:
        response = ask(opened, "POST", "/v1/chat/completions", ASKING)
        assert response.readline() == EVENT[:-1]  # before the server goes on
        more.set()
        assert response.read().endswith(LAST)
        assert opened.meter.turn(0).usage.fresh_input == 5


def test_a_chat_stream_is_metered_though_its_client_did_not_ask_for_usage():
    """The client does not get the usage that it did not ask for."""
    answer = HEAD + b"Connection: close\r\n\r\n" + EVENT + LAST + b"data: [DONE]\n\n"
    with RawServer(lambda talk: talk.sendall(answer)) as server, gateway(server.url) as opened:
        assert ask(opened, "POST", "/v1/chat/completions", '{"stream":true}').read() == EVENT + b"data: [DONE]\n\n"
        assert opened.meter.turn(0).usage.output == 3
        assert ask(opened, "POST", "/v1/chat/completions", ASKING).read() == EVENT + LAST + b"data: [DONE]\n\n"
    assert server.requests[0].endswith(b'"stream_options":{"include_usage": true}}')


def test_a_server_that_does_not_know_the_question_for_usage():
    def answer(talk):
        is_asked = b"include_usage" in server.requests[-1]
        refusal = b"HTTP/1.1 400 Bad\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        talk.sendall(refusal if is_asked else HEAD + b"\r\n" + EVENT)

    with RawServer(answer) as server, gateway(server.url) as opened:
        for _ in range(2):
            assert ask(opened, "POST", "/v1/chat/completions", '{"stream":true}').read() == EVENT
        assert [row.is_unmetered for row in calls(opened, 2)] == [True, True] and len(server.requests) == 3


def test_64_streams_at_once():
    gate = threading.Barrier(64, timeout=30)

    def answer(talk):
        talk.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(EVENT))
        gate.wait()  # all 64 are under way
        talk.sendall(chunk(LAST) + b"0\r\n\r\n")

    with RawServer(answer) as server, gateway(server.url) as opened, ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(lambda _: call(opened, "openai-chat", stream=True), range(64)))
        assert answers == [(200, EVENT + LAST)] * 64
        assert opened.meter.turn(0).usage.fresh_input == 64 * 5 and len(exchanges(opened, 64)) == 64


def test_a_thousand_requests_are_all_answered_and_counted_once():
    """The server closes each connection after its answer without saying so: calls that meet this are sent again."""
    reply = b'{"model":"m","usage":{"prompt_tokens":5,"completion_tokens":3}}'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(reply)
    with RawServer(lambda talk: talk.sendall(head + reply)) as server, gateway(server.url, patience_s=60) as opened:
        with ThreadPoolExecutor(100) as pool:
            answers = list(pool.map(lambda _: call(opened, "openai-chat"), range(1000)))
        assert answers == [(200, reply)] * 1000
        assert opened.meter.turn(0).usage.output == 3000 and len(server.requests) == 1000


def test_an_answer_is_counted_before_its_last_byte_is_passed_on(monkeypatch):
    """Its length tells the client that it is over: the next call must find it counted."""
    seen = []
    write = AnsweredClient.write

    async def look(client, data):
        seen.append((data, opened.meter.turn(0).usage is not None))
        await write(client, data)

    monkeypatch.setattr(AnsweredClient, "write", look)
    reply = b'{"model":"m","usage":{"prompt_tokens":5,"completion_tokens":3}}'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(reply)
    with RawServer(lambda talk: talk.sendall(head + reply)) as server, gateway(server.url) as opened:
        assert call(opened, "openai-chat") == (200, reply)
    assert [counted for data, counted in seen if data.endswith(b"}}")] == [True]


def test_a_chat_stream_of_known_length_is_passed_on_without_usage():
    events = EVENT + LAST + b"data: [DONE]\n\n"
    answer = HEAD + b"Content-Length: %d\r\n\r\n" % len(events) + events
    with RawServer(lambda talk: talk.sendall(answer)) as server, gateway(server.url) as opened:
        assert ask(opened, "POST", "/v1/chat/completions", '{"stream":true}').read() == EVENT + b"data: [DONE]\n\n"
        assert opened.meter.turn(0).usage.output == 3


def test_a_cut_stream_is_cut_for_the_client_after_all_that_came():
    def answer(talk):
        talk.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(EVENT))

    with RawServer(answer) as server, gateway(server.url) as opened:
        response = ask(opened, "POST", "/v1/chat/completions", '{"stream":true}')
        with pytest.raises(IncompleteRead) as cut:
            response.read()
        assert cut.value.partial == EVENT
        (row,) = calls(opened, 1)
        assert not row.is_complete and row.usage is None and row.status == 200


def test_a_cut_answer_of_known_length():
    def answer(talk):
        talk.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"model"')

    with RawServer(answer) as server, gateway(server.url) as opened:
        with pytest.raises(IncompleteRead) as cut:
            ask(opened, "POST", "/v1/chat/completions", "{}").read()
        assert cut.value.partial == b'{"model"'


def test_answers_that_are_compressed_unasked_pass_decompressed_and_are_metered():
    """Piece by piece; secrets in them are masked."""
    packed = gzip.compress(EVENT.replace(b"x", KEY.encode()) + EVENT + LAST)

    def answer(talk):
        talk.sendall(HEAD + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n")
        for byte in packed:
            talk.sendall(chunk(bytes([byte])))
        talk.sendall(b"0\r\n\r\n")

    with RawServer(answer) as server, gateway(server.url) as opened:
        response = ask(opened, "POST", "/v1/chat/completions", ASKING)
        body = response.read()
        assert body.endswith(EVENT + LAST) and b"[key]" in body and KEY.encode() not in body
        assert "Content-Encoding" not in response.headers
        assert opened.meter.turn(0).usage.output == 3 and exchanges(opened)[0].response_body == body


def test_a_gzip_bomb_is_carried_but_not_kept():
    packed = gzip.compress(bytes(80 << 20))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    with RawServer(lambda talk: talk.sendall(head + packed)) as server, gateway(server.url) as opened:
        status, body = call(opened, "openai-chat")
        assert status == 200 and len(body) == 80 << 20
        (kept,) = exchanges(opened)
        assert len(kept.response_body) == 64 << 20 and not kept.is_complete


@pytest.mark.parametrize(("encoding", "status", "is_complete"), [(b"gzip", 200, False), (b"odd", 200, True)])
def test_a_compression_that_cannot_be_read_is_trouble_of_the_provider(encoding, status, is_complete):
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: 8\r\n\r\nnonsense" % encoding
    with RawServer(lambda talk: talk.sendall(head)) as server, gateway(server.url) as opened:
        response = ask(opened, "POST", "/v1/chat/completions", "{}")
        with nullcontext() if is_complete else pytest.raises(IncompleteRead):
            assert response.read() == b"nonsense"
        (row,) = calls(opened, 1)
    assert (row.status, row.is_complete, row.is_troubled) == (status, is_complete, True)


def test_an_http_1_0_server_and_an_http_1_0_client():
    reply = b'{"model":"m","usage":{"prompt_tokens":5,"completion_tokens":3}}'
    old = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + reply
    with RawServer(lambda talk: talk.sendall(old)) as server, gateway(server.url) as opened:
        assert call(opened, "openai-chat") == (200, reply)
        with socket.create_connection(("127.0.0.1", opened.ports[0])) as talk:
            head = f"POST /v1/chat/completions HTTP/1.0\r\nAuthorization: Bearer {opened.token}\r\n"
            talk.sendall(f"{head}Content-Length: 2\r\n\r\n{{}}".encode())
            answer = talk.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.0 200") and answer.endswith(b"\r\n\r\n" + reply)
        assert opened.meter.turn(0).usage.output == 6


@pytest.mark.parametrize("reply", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + bytes(70_000), b""])
def test_a_server_that_does_not_speak_http(reply):
    with RawServer(lambda talk: talk.sendall(reply)) as server, gateway(server.url) as opened:
        status, body = call(opened, "anthropic-messages")
        assert status == 502 and json.loads(body)["error"]["type"] == "api_error"
        assert [row.status for row in calls(opened, 1)] == [0]


def test_an_endless_answer_ends_with_its_client():
    ended = threading.Event()

    def answer(talk):
        try:
            talk.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            while True:
                talk.sendall(chunk(EVENT * 1000))
        except OSError:
            ended.set()

    with RawServer(answer) as server, gateway(server.url) as opened:
        connection = HTTPConnection("127.0.0.1", opened.ports[0], timeout=30)
        connection.request(
            "POST", "/v1/chat/completions", '{"stream":true}', {"Authorization": f"Bearer {opened.token}"}
        )
        response = connection.getresponse()
        assert response.read(1 << 20).startswith(EVENT)
        response.close()
        connection.close()
        assert ended.wait(30)


def test_an_error_that_quotes_the_key_passes_without_it():
    text = gzip.compress(json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode())
    head = (
        b"HTTP/1.1 401 No\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nX-Key: %s\r\n" % KEY.encode()
    )
    reply = head + b"Content-Length: %d\r\n\r\n" % len(text) + text
    with RawServer(lambda talk: talk.sendall(reply)) as server, gateway(server.url) as opened:
        response = ask(opened, "POST", "/v1/chat/completions", "{}")
        body = response.read()
    assert response.status == 401 and json.loads(body)["error"]["message"] == "Incorrect API key provided: [key]"
    assert KEY not in str(response.headers)


def test_huge_heads_and_bodies_are_refused():
    with ScriptedModel() as model, gateway(model.url) as opened:
        with socket.create_connection(("127.0.0.1", opened.ports[0])) as talk:
            talk.sendall(b"GET /v1/models HTTP/1.1\r\nX: " + b"a" * (1 << 17) + b"\r\n\r\n")
            assert talk.makefile("rb").readline().split()[1] == b"400"
        answer = ask(opened, "POST", "/v1/chat/completions", "a" * ((64 << 20) + 1))
        assert answer.status == 413 and not model.seen


class Together:
    """Runs in this process that share their waits, and one call at a time."""

    is_shared, limits_calls = True, True

    def __init__(self) -> None:
        self.until, self.lock, self.most, self.under_way = 0.0, threading.Lock(), 0, 0

    def wait_s(self, seconds: float) -> float:
        self.until = max(self.until, time.monotonic() + seconds)
        return max(0.0, self.until - time.monotonic())

    def begin_call(self, used) -> CallAdmission:
        with self.lock:
            if self.under_way:
                return CallAdmission(0.01)
            self.under_way += 1
            return CallAdmission()

    def end_call(self, used) -> None:
        with self.lock:
            self.under_way -= 1


@pytest.mark.parametrize("api", ["openai-chat", "anthropic-messages"])
def test_a_server_that_closes_a_connection_after_its_answer(api):
    """Without a word of it, as llama.cpp does after a stream. The next call is answered, and no trouble is noted; that
    it was sent twice is."""
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

    def answer_one_call_and_close_at_the_next(talk):
        talk.sendall(reply)
        talk.recv(1 << 16)

    with RawServer(answer_one_call_and_close_at_the_next) as server, gateway(server.url) as opened:
        assert [call(opened, api) for _ in range(3)] == [(200, b"{}")] * 3
        made = calls(opened, 3)
    assert [counted.attempts for counted in made] == [1, 2, 2]
    assert not any(counted.is_troubled or counted.waited_s for counted in made)
    assert len(server.requests) == 3 and opened.meter.turn(0).calls == made


def test_runs_with_the_same_provider_wait_together():
    limited = b"HTTP/1.1 429 No\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    group = Together()

    def answer(talk):
        talk.sendall(limited if len(server.requests) == 1 else b"HTTP/1.0 200 OK\r\n\r\n{}")

    with (
        RawServer(answer) as server,
        gateway(server.url, patience_s=60, group=group) as gateway_a,
        gateway(server.url, patience_s=60, group=group) as gateway_b,
        ThreadPoolExecutor(2) as pool,
    ):
        first = pool.submit(call, gateway_a, "openai-chat")
        wait_until(lambda: len(server.requests) == 1 and group.wait_s(0.0) > 0)
        second = pool.submit(call, gateway_b, "openai-chat")
        assert (first.result(), second.result()) == ((200, b"{}"),) * 2
        (mine,), (theirs,) = calls(gateway_a, 1), calls(gateway_b, 1)
    assert (mine.attempts, theirs.attempts) == (2, 1) and mine.waited_s > 1.9 and theirs.waited_s > 0
    assert gateway_a.patience.waited_s > 1.9 and group.under_way == 0


def test_an_empty_account_is_not_waited_out():
    body = b'{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}'
    reply = b"HTTP/1.1 429 No\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body
    with RawServer(lambda talk: talk.sendall(reply)) as server, gateway(server.url, patience_s=60) as opened:
        assert call(opened, "openai-chat") == (429, body) and len(server.requests) == 1


@pytest.mark.parametrize(
    ("api", "status", "words"),
    [
        ("anthropic-messages", 400, "credit balance is too low"),
        ("openai-responses", 429, "exceeded your current quota"),
        ("openai-chat", 429, "exceeded your current quota"),
        ("gemini", 429, "exceeded your current quota"),
    ],
)
def test_a_used_up_limit_is_the_providers_own_quota_error(api, status, words):
    with ScriptedModel() as model, gateway(model.url, limits=CallLimits(requests=1)) as opened:
        assert call(opened, api)[0] == 200 and opened.meter.hit is None
        answered, body = call(opened, api)
        assert answered == status and words in json.loads(body)["error"]["message"]
        assert opened.meter.hit == "requests" and len(model.seen) == 1


def test_calls_at_the_same_time_do_not_pass_a_limit_together():
    with ScriptedModel() as model, gateway(model.url, limits=CallLimits(requests=5)) as opened:
        with ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(lambda _: call(opened, "openai-chat")[0], range(32)))
        assert answers.count(200) == 5 == len(model.seen) and answers.count(429) == 27


class UnreadableTable(dict):
    def get(self, *_):
        raise OSError(errno.EMFILE, "prices are read from files")


def test_a_call_without_a_price_counts_with_its_tokens():
    meter = ModelMeter(CallLimits(tokens=INPUT), UnreadableTable())
    with ScriptedModel() as model:
        opened = Gateway([ModelServer(model.url, KEY)], meter)
        answers = [call(opened, "openai-chat")[0] for _ in range(2)]
        opened.close()
    assert answers == [200, 429], "it is answered, and the limit holds"
    assert meter.used.tokens == INPUT + OUTPUT and meter.turn(0).usage.cost_usd is None


def test_a_run_makes_no_more_calls_than_a_resumed_one_can_read(monkeypatch):
    """Lists of models cost nothing and reach no other limit."""
    monkeypatch.setattr(server, "MAX_CALLS", 2)
    with ScriptedModel() as model, gateway(model.url) as opened:
        statuses = [ask(opened, "GET", "/v1/models").status for _ in range(3)]
        assert statuses[:2] != [429, 429] and statuses[2] == 429
        assert call(opened, "openai-chat")[0] == 429 and opened.meter.last_number == 2


def test_a_meter_continues_where_a_killed_process_ended(tmp_path):
    path = tmp_path / "calls.jsonl"
    with ScriptedModel() as model:
        opened = Gateway([ModelServer(model.url, KEY)], ModelMeter(CallLimits(), {}, path))
        opened.begin_turn(3)
        assert call(opened, "openai-chat")[0] == 200
        opened.close()
    with path.open("a") as file:
        file.write('{"number": 2, "turn"')  # it was killed here
    again = ModelMeter(CallLimits(requests=1), {}, path)
    (first,) = again.turn(3).calls
    assert again.last_number == 1 and again.turn(3).usage == opened.meter.turn(3).usage and again.admit() == "requests"
    again.add(replace(first, number=2), was_admitted=False)
    assert ModelMeter(CallLimits(), {}, path).last_number == 2, "what comes after the torn line is not lost with it"


def test_calls_that_another_person_wrote_are_no_errors(tmp_path, caplog):
    """The file is part of a run folder, which may come from anywhere."""
    path = tmp_path / "calls.jsonl"
    whole = {"number": 1, "turn": 1, "api": "openai-chat", "status": 200, "is_complete": True, "model": None}
    whole |= {"usage": {"output": 7}, "first_byte_s": 0.1, "duration_s": 0.2}
    forged: list[dict[str, object]] = [{"status": "200"}, {"number": 1e400}, {"usage": {"output": -1}}, {"usage": [1]}]
    forged += [{"number": 10**16}, {"usage": {"output": int("9" * 400)}}, {"turn": None}, {"duration_s": [[]]}]
    lines = [json.dumps(whole | change) for change in forged]
    lines += ["[" * 5000, "", '"', json.dumps(whole).replace("200", "9" * 5000)]
    path.write_text("\n".join([*lines, json.dumps(whole)]) + "\n" * 100_000)
    meter = ModelMeter(CallLimits(), {}, path)
    assert meter.used.tokens == 7 and meter.last_number == 1, "control: the whole one counts"
    assert len(caplog.text) < 500
    odd = json.dumps(whole | {"model": "m\ud800"})  # as json writes what an agent may ask for
    path.write_text(f"{odd}\n")
    assert ModelMeter(CallLimits(), {}, path).used.tokens == 7
    path.write_text("\n" * 201_001)
    with pytest.raises(UserError, match="more than 201,000 lines"):
        ModelMeter(CallLimits(), {}, path)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(UserError, match="cannot read"):
        ModelMeter(CallLimits(), {}, tmp_path / "link")
