"""Replay of recorded calls: the same answers, errors and cuts; what may change does; a clear end at a difference."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from model_chats import APIS, KEY, ModelChat
from scripted_model import ScriptedModel

from evopolicygym.errors import UserError
from evopolicygym.gateway.exchange import Exchange, GatewayRequest, ModelApi
from evopolicygym.gateway.recording.matching import CallMatcher
from evopolicygym.gateway.recording.replay import ReplayDiverged, ReplayUpstream
from evopolicygym.gateway.recording.rewriting import rewrite_answer
from evopolicygym.gateway.recording.store import ExchangeStore
from evopolicygym.gateway.streams import joined_answer

FAST = float("inf")


def script(history):
    done = sum(past.kind == "result" for past in history)
    return ("$ cat /recorded/run/workspace/AGENTS.md", "$ python3 submit.py 0-3", "All is done.")[min(done, 2)]


def record(root: Path, exchanges: list[Exchange]) -> None:
    root.mkdir(parents=True, exist_ok=True)
    store = ExchangeStore(root, {"token": "throwaway-token-1"})
    for number, exchange in enumerate(exchanges, 1):
        store.append(replace(exchange, number=number))
    store.close()


def chat(api: ModelApi, streams: bool = True, **how) -> list[Exchange]:
    with ScriptedModel(script) as model:
        talk = ModelChat(model, api, streams)
        talk.prompt("Begin.", **how)
    return talk.exchanges


def request(exchange: Exchange, body: bytes | None = None) -> GatewayRequest:
    sent = exchange.request_body if body is None else body
    return GatewayRequest(exchange.api, exchange.method, exchange.target, {"authorization": "Bearer [key]"}, sent)


async def answer(replay: ReplayUpstream, call: GatewayRequest) -> tuple[int, bytes]:
    head = await replay.send(call)
    return head.status, b"".join([piece async for piece in head.body])


def ask(replay: ReplayUpstream, call: GatewayRequest) -> tuple[int, bytes]:
    return asyncio.run(answer(replay, call))


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("api", APIS)
def test_the_same_calls_get_the_same_answers(api, streams, tmp_path):
    exchanges = chat(api, streams)
    record(tmp_path / "recorded", exchanges)
    replay = ReplayUpstream(tmp_path / "recorded", tmp_path / "recorded", {}, FAST)
    assert [ask(replay, request(exchange)) for exchange in exchanges] == [
        (200, exchange.response_body) for exchange in exchanges
    ]
    assert replay.answered == replay.total == 3
    replay.check()


def test_what_changes_from_run_to_run_does_not_matter(tmp_path):
    """Ids, times, ports, tokens and the folder of the run differ; the recorded answer names the new folder."""
    old, new = tmp_path / "recorded", tmp_path / "again" / "run"

    def result(root, number):
        def run(command):
            return "\n".join((
                f"{root}/workspace at http://127.0.0.1:4{number}000/aBcDeFgHiJkLmNoPqRsTu",
                f"2026-11-0{number}T10:1{number}:00Z, Mon, 0{number} Nov 2026 10:00:0{number} GMT",
                f'took 1.{number} s, "wall_s": 0.{number}5, Chunk ID: f{number}e1, token throwaway-token-{number},',
                f"-rw-r--r-- 1 Nov 1{number} 11:2{number} x, 6ba7b81{number}-9dad-11d1-80b4-00c04fd430c8: ok",
            ))  # fmt: skip

        return run

    exchanges = chat(ModelApi.OPENAI_CHAT, result=result(old, 1))
    before, after = b"/recorded/run", str(old).encode()
    record(
        old, [replace(exchange, response_body=exchange.response_body.replace(before, after)) for exchange in exchanges]
    )
    replay = ReplayUpstream(old, new, {"token": "throwaway-token-2"}, FAST)
    bodies = [exchange.request_body for exchange in exchanges]
    other = [body.replace(json.dumps(result(old, 1)(""))[1:-1].encode(), json.dumps(result(new, 2)(""))[1:-1].encode())
             for body in bodies]  # fmt: skip
    assert other[1] != bodies[1]
    answers = [ask(replay, request(exchange, body)) for exchange, body in zip(exchanges, other, strict=True)]
    replay.check()
    assert [status for status, _ in answers] == [200, 200, 200]
    assert str(new).encode() in answers[0][1] and str(old).encode() not in answers[0][1]


def test_a_difference_ends_the_replay_with_a_diff(tmp_path):
    exchanges = chat(ModelApi.ANTHROPIC_MESSAGES)
    record(tmp_path, exchanges)
    stopped = []
    replay = ReplayUpstream(tmp_path, tmp_path, {}, FAST, lambda: stopped.append(True))
    assert ask(replay, request(exchanges[0]))[0] == 200
    changed = exchanges[1].request_body.replace(b"ran cat", b"cannot run cat")
    status, body = ask(replay, request(exchanges[1], changed))
    assert status == 400 and json.loads(body)["error"]["type"] == "invalid_request_error" and stopped == [True]
    with pytest.raises(ReplayDiverged) as raised:
        replay.check()
    assert raised.value.exit_code == 6
    text = str(raised.value)
    assert "ends after 1 of 3 recorded calls: this client asks something else than recorded call 2" in text
    assert "-tool result: ran cat /recorded" in text and "+tool result: cannot run cat /recorded" in text
    assert len(text.splitlines()) < 10
    assert ask(replay, request(exchanges[1]))[0] == 400 and stopped == [True]  # it stays ended


def test_more_calls_than_recorded_end_it_as_well(tmp_path):
    exchanges = chat(ModelApi.OPENAI_RESPONSES)
    record(tmp_path, exchanges)
    replay = ReplayUpstream(tmp_path, tmp_path, {}, FAST)
    for exchange in exchanges:
        ask(replay, request(exchange))
    ask(replay, request(exchanges[-1]))
    with pytest.raises(ReplayDiverged, match="repeats a call more often"):
        replay.check()


def test_equal_calls_get_their_answers_in_order(tmp_path):
    """A model may answer the same question in different words: a search asks for many answers to one prompt."""
    (call, *_) = chat(ModelApi.OPENAI_CHAT)
    record(tmp_path, [replace(call, response_body=b'{"choices": [], "id": "%d"}' % number) for number in range(3)])
    replay = ReplayUpstream(tmp_path, tmp_path, {}, FAST)
    assert [json.loads(ask(replay, request(call))[1])["id"] for _ in range(3)] == ["0", "1", "2"]


def test_lists_of_models_may_be_asked_at_any_time(tmp_path):
    (call, *_) = chat(ModelApi.OPENAI_CHAT)
    models = replace(call, api=ModelApi.OTHER, method="GET", target="/v1/models?limit=1", request_body=b"",
                     response_body=b'{"data": []}')  # fmt: skip
    record(tmp_path, [models, call])
    replay = ReplayUpstream(tmp_path, tmp_path, {}, FAST)
    assert [ask(replay, request(models)) for _ in range(3)] == [(200, b'{"data": []}')] * 3
    assert ask(replay, request(replace(models, target="/v1/other")))[0] == 404
    assert ask(replay, request(call))[0] == 200
    replay.check()


def test_errors_and_cuts_are_replayed(tmp_path):
    with ScriptedModel(script) as model:
        talk = ModelChat(model, ModelApi.ANTHROPIC_MESSAGES)
        talk.history.append({"role": "user", "content": "Begin."})
        for model.fault in ("429", "cut", None):
            talk.ask()
    lost = replace(talk.exchanges[0], status=0, response_body=b"", is_complete=False)
    record(tmp_path, [*talk.exchanges, lost])
    replay = ReplayUpstream(tmp_path, tmp_path, {}, FAST)
    call = request(talk.exchanges[0])
    assert ask(replay, call)[0] == 429
    with pytest.raises(ConnectionResetError, match="cut here"):
        ask(replay, call)
    assert ask(replay, call) == (200, talk.exchanges[2].response_body)
    with pytest.raises(ConnectionResetError, match="got no answer"):
        ask(replay, call)


def test_latency_is_replayed(tmp_path, monkeypatch):
    (call, *_) = chat(ModelApi.OPENAI_CHAT)
    record(tmp_path, [replace(call, first_byte_s=30.0, waited_s=10.0, duration_s=62.0)] * 2)
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("evopolicygym.gateway.recording.replay.asyncio.sleep", sleep)
    ask(ReplayUpstream(tmp_path, tmp_path, {}, 2.0), request(call))
    assert slept[0] == 10.0 and sum(slept) == pytest.approx(10.0 + 16.0)
    slept.clear()
    ask(ReplayUpstream(tmp_path, tmp_path, {}, FAST), request(call))
    assert slept == []


def test_a_run_without_recorded_calls_cannot_be_replayed(tmp_path):
    with pytest.raises(UserError, match="no recorded calls"):
        ReplayUpstream(tmp_path, tmp_path, {})


def test_a_name_in_pieces_is_replaced():
    pieces = {
        ModelApi.ANTHROPIC_MESSAGES: [
            {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "name": "b"}},
            *({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": part}}
              for part in ('{"c": "cat /o', "ld/r", 'un/x"}'))],
        ModelApi.OPENAI_CHAT: [
            {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "b", "arguments": part}}]}}]}
            for part in ('{"c": "cat /o', "ld/r", 'un/x"}')],
        ModelApi.OPENAI_RESPONSES: [
            {"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call", "name": "b"}},
            *({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": part}
              for part in ('{"c": "cat /o', "ld/r", 'un/x"}'))],
        ModelApi.GEMINI: [
            {"candidates": [{"content": {"parts": [{"text": part}]}}]} for part in ("cat /o", "ld/r", "un/x")],
    }  # fmt: skip
    for api, events in pieces.items():
        body = b"".join(b"event: x\r\ndata: " + json.dumps(event).encode() + b"\r\n\r\n" for event in events)
        after = rewrite_answer(api, body, {"/old/run": "/new/place"})
        joined = json.dumps(joined_answer(api, after))
        assert "cat /new/place/x" in joined and "/old" not in joined, api
        assert after.count(b"event: x\r\n") == len(events)
        assert rewrite_answer(api, body, {"/other": "/new"}) == body


def test_prompts_that_differ_are_not_the_same():
    """The placeholders hide no content: numbers, words and commands count."""
    matcher = CallMatcher(["/a/run"])

    def lines(text):
        body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
        return matcher.lines(Exchange(1, 1, ModelApi.OPENAI_CHAT, "POST", "/", {}, body, 200, {}, b"", True, 0, 0, 0))

    same = [("mean return -12.5", "mean return -12.6"), ("cases 0-3", "cases 0-4"), ("budget 8", "budget 4"),
            ("/a/run/workspace/x", "/a/run/workspace/y"), ("submit_001", "submit_002")]  # fmt: skip
    assert all(lines(first) != lines(second) for first, second in same)
    assert lines(f"key {KEY}") == lines(f"key {KEY}")
