"""Recordings that are damaged, or made by somebody who means harm: reading never fails, and never invents a call."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
import tracemalloc
import zlib
from pathlib import Path

import pytest
from model_chats import APIS, ModelChat
from scripted_model import ScriptedModel

from evopolicygym.errors import UserError
from evopolicygym.gateway.atif import to_atif
from evopolicygym.gateway.conversation import read_conversation
from evopolicygym.gateway.exchange import Exchange, GatewayRequest, ModelApi
from evopolicygym.gateway.frames import HEAD, MARK, frame
from evopolicygym.gateway.recording import reader as reader_module
from evopolicygym.gateway.recording import replay as replay_module
from evopolicygym.gateway.recording import rewriting as rewriting_module
from evopolicygym.gateway.recording.matching import difference
from evopolicygym.gateway.recording.reader import ModelRecording
from evopolicygym.gateway.recording.replay import ReplayUpstream
from evopolicygym.gateway.recording.rewriting import rewrite_answer
from evopolicygym.gateway.recording.store import ExchangeStore
from evopolicygym.gateway.streams import joined_answer
from evopolicygym.run_paths import RECORDING

ROUNDS = 400


def script(history):
    return "Done." if sum(past.kind == "result" for past in history) == 4 else "$ ls"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A recording with calls of all APIs, its bytes, and the calls as they read when nothing is damaged."""
    root = tmp_path_factory.mktemp("recorded")
    store = ExchangeStore(root, {})
    with ScriptedModel(script) as model:
        for api in APIS:
            chat = ModelChat(model, api)
            chat.prompt("Begin.")
            for exchange in chat.exchanges:
                store.append(exchange)
    store.close()
    return (root / RECORDING).read_bytes(), list(ModelRecording(root))


def read(folder: Path, data: bytes) -> list[Exchange]:
    """Read damaged data in every way there is; return its calls."""
    path = folder / RECORDING
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    recording = ModelRecording(folder)
    calls = list(recording)
    conversation = read_conversation(calls)
    json.dumps(to_atif(conversation, {}, "run"))
    assert all(isinstance(note, str) for note in recording.notes) and len(recording.notes) <= 50
    return calls


def parts(data: bytes) -> list[bytes]:
    """Return the frames of undamaged data."""
    frames, position = [], 0
    while position < len(data):
        size = HEAD.size + HEAD.unpack_from(data, position)[1]
        frames.append(data[position : position + size])
        position += size
    return frames


def damaged(data: bytes, chance: random.Random) -> bytes:
    frames = parts(data)
    kind = chance.randrange(6)
    if kind == 0:
        return data[: chance.randrange(len(data))]
    if kind == 1:
        bytes_ = bytearray(data)
        for _ in range(chance.choice((1, 5, 100))):
            bytes_[chance.randrange(len(bytes_))] = chance.randrange(256)
        return bytes(bytes_)
    if kind == 2:
        at = chance.randrange(len(data))
        return data[:at] + chance.choice((os.urandom(50), MARK * 20, b"\0" * 5000)) + data[at:]
    if kind == 3:
        del frames[chance.randrange(len(frames))]
    elif kind == 4:
        chance.shuffle(frames)
    else:
        frames.insert(chance.randrange(len(frames)), chance.choice(frames))
    return b"".join(frames)


def test_random_damage_loses_calls_but_invents_none(recorded, tmp_path):
    data, calls = recorded
    chance = random.Random(7)
    bodies = {call.response_body for call in calls} | {b""}
    asked = {call.request_body for call in calls} | {b""}
    for _ in range(ROUNDS):
        for call in read(tmp_path, damaged(data, chance)):
            assert call.response_body in bodies and call.request_body in asked


VALUES = [
    None,
    -1,
    0,
    1,
    10**30,
    1e308,
    "",
    "x" * 1000,
    [],
    [0],
    [-5, 3],
    [0, 10**15],
    [1, 1] * 100,
    {},
    {"a": 1},
    True,
    "nan",
]


def test_frames_that_are_whole_but_make_no_sense(recorded, tmp_path):
    """Checksums are right, and what they protect is not: every field gets every kind of value."""
    data, _ = recorded
    frames = parts(data)
    head, _, chunks = zlib.decompress(frames[2][HEAD.size :]).partition(b"\n")
    fields = json.loads(head)
    for name in fields:
        forged = [frame(json.dumps(fields | {name: value}).encode() + b"\n" + chunks) for value in VALUES]
        read(tmp_path, b"".join([frames[0], *forged, *frames[1:]]))


def test_frames_of_nonsense(tmp_path):
    deep = b"[" * 100_000 + b"]" * 100_000
    nonsense = (
        b"",
        b"\n",
        b"{}\n",
        b"null\n",
        deep + b"\n",
        b'{"kind": "other"}\n',
        b"\xff\xfe\n",
        b'{"kind": "exchange"',
    )
    assert read(tmp_path, b"".join(map(frame, nonsense))) == []
    assert read(tmp_path, b"") == [] and read(tmp_path, MARK * 100_000) == []


def test_marks_everywhere_end_the_search(tmp_path):
    """Each mark claims a frame of 60 MB: the search for a good one gives up after some of them."""
    claim = HEAD.pack(MARK, 60 << 20, 0)
    assert read(tmp_path, claim * 200_000) == []
    recording = ModelRecording(tmp_path)
    assert list(recording) == [] and "more than 32 places" in recording.notes[-1]


CALL = {
    "kind": "exchange", "turn": 1, "api": "openai-chat", "method": "POST", "target": "/chat/completions",
    "request_headers": [], "request_body": [], "status": 200, "response_headers": [], "response_body": [],
    "is_complete": True, "started_at": 1, "first_byte_s": 0, "duration_s": 0, "first": 0, "sizes": [],
}  # fmt: skip
ASKED = b'{"model":"m","messages":[{"role":"user","content":"Begin."}]}'


def forged(folder: Path, *calls: dict, chunks: tuple[bytes, ...] = (ASKED,), root: str = "/recorded/run") -> Path:
    """Write a recording by hand. The first call brings the chunks."""
    first = CALL | {"number": 1, "sizes": [len(chunk) for chunk in chunks]}
    heads = [first | calls[0], *(CALL | {"number": number} | call for number, call in enumerate(calls[1:], 2))]
    data = [json.dumps({"kind": "recording", "root": root}), *map(json.dumps, heads)]
    path = folder / RECORDING
    path.parent.mkdir(parents=True)
    tails = [b"", b"".join(chunks), *[b""] * len(calls)]
    path.write_bytes(b"".join(frame(head.encode() + b"\n" + tail) for head, tail in zip(data, tails, strict=False)))
    return folder


def replayed(folder: Path, body: bytes = ASKED) -> tuple[int, dict[str, str], bytes]:
    replay = ReplayUpstream(folder, folder / "a-new-run", {}, float("inf"))

    async def ask() -> tuple[int, dict[str, str], bytes]:
        answer = await replay.send(GatewayRequest(ModelApi.OPENAI_CHAT, "POST", "/chat/completions", {}, body))
        return answer.status, dict(answer.headers), b"".join([piece async for piece in answer.body])

    return asyncio.run(ask())


def test_chunks_without_content_do_not_make_endless_work(tmp_path):
    bodies = {"request_body": [0, 600_000], "request_headers": [0, 600_000]}
    folder = forged(tmp_path, *[bodies] * 3, chunks=(b"",) * 600_000)
    recording = ModelRecording(folder)
    assert [call.request_body for call in recording] == [b""] * 3
    assert recording.notes[0] == "call 1: its request headers is lost" and len(recording.notes) == 6


def test_a_replay_does_not_keep_the_bodies_of_all_calls(tmp_path):
    """The bodies have a gigabyte together, and share one chunk of a megabyte."""
    message = b'{"role":"user","content":"' + b"a" * (1 << 20) + b'"},'
    chunks = (b'{"model":"m","messages":[', message, ASKED[25:])
    body = [0, 1, *[0, 1, -1, 1] * 20, 0, 1, 0, 1]
    folder = forged(tmp_path, *[{"request_body": body}] * 50, chunks=chunks)
    tracemalloc.start()
    try:
        replay = ReplayUpstream(folder, tmp_path / "new", {}, float("inf"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert replay.total == 50 and most < 300 << 20


def test_a_recording_with_endless_different_texts_is_not_replayed(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_module, "MAX_CHARACTERS", 1)
    with pytest.raises(UserError, match="too large to be replayed"):
        replayed(forged(tmp_path, {"request_body": [0, 1]}))


def test_the_folder_that_a_recording_names_cannot_inflate_its_answers(tmp_path, monkeypatch):
    answer = json.dumps({"choices": [{"message": {"role": "assistant", "content": "/a/b" * 1000}}]}).encode()
    folder = forged(
        tmp_path / "two", {"request_body": [0, 1], "response_body": [1, 1]}, chunks=(ASKED, answer), root="/a/b"
    )
    assert b"a-new-run" in replayed(folder)[2]
    monkeypatch.setattr(rewriting_module, "MAX_ADDED", 1000)
    assert replayed(folder)[2] == answer
    for root in ("", "/", "/a", "a", "/" + "a/" * 5000):
        other = forged(
            tmp_path / str(len(root)) / root[:1].strip("/"),
            {"request_body": [0, 1], "response_body": [1, 1]},
            chunks=(ASKED, answer),
            root=root,
        )
        assert replayed(other)[2] == answer


def test_headers_and_statuses_of_a_recording_are_checked(tmp_path):
    headers = {"X-Fine": "yes", "X-Split": "a\r\nSet-Cookie: b", "Bad name": "x", "Set-Cookie": "c", "Connection": "x"}
    call = {"request_body": [0, 1], "response_headers": [1, 1]}
    folder = forged(tmp_path / "headers", call, chunks=(ASKED, json.dumps(headers).encode()))
    assert replayed(folder)[:2] == (200, {"x-fine": "yes", "x-split": "a??Set-Cookie: b"})
    for status in (1, 101, 600, 999):
        assert replayed(forged(tmp_path / str(status), {"request_body": [0, 1], "status": status}))[0] == 400


def test_nobody_waits_for_ever_for_a_recorded_answer(tmp_path, monkeypatch):
    waited = []

    async def sleep(seconds):
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    call = {"request_body": [0, 1], "response_body": [0, 1], "first_byte_s": 1e9, "duration_s": 1e9}
    replay = ReplayUpstream(forged(tmp_path, call), tmp_path / "new", {}, 1.0)
    request = GatewayRequest(ModelApi.OPENAI_CHAT, "POST", "/chat/completions", {}, ASKED)
    asyncio.run(replay.send(request))
    assert waited == [1800.0]


def test_deep_nesting_is_no_error(tmp_path):
    deep = b"[" * 5_000_000
    folder = forged(tmp_path, {"request_body": [0, 1], "response_body": [0, 1]}, chunks=(deep,))
    assert replayed(folder, deep)[0] == 200 and read_conversation(ModelRecording(folder), []).threads


@pytest.mark.parametrize("name", ["first_byte_s", "duration_s", "waited_s"])
def test_times_of_a_recording_stay_within_the_calendar(tmp_path, name):
    """The year of an answer that took so long has eight digits, which no calendar has."""
    call = {"request_body": [0, 1], "response_body": [1, 1], "started_at": 1e11}
    answer = b'{"choices":[{"message":{"role":"assistant","content":"Hello."}}]}'
    longest = ModelRecording(forged(tmp_path / "longest", call | {name: 1e9}, chunks=(ASKED, answer)))
    assert len(to_atif(read_conversation(longest), {}, "run")["steps"]) == 2, "control"
    beyond = ModelRecording(forged(tmp_path / "beyond", call | {name: 1e15}, chunks=(ASKED, answer)))
    assert list(beyond) == [] and beyond.notes[0].startswith("a call cannot be read")


def test_a_body_of_very_many_parts_is_left_out(tmp_path, monkeypatch):
    """An empty table takes three bytes of a body and 64 in memory, and so does a short line of a stream."""
    for number, body in enumerate((b'{"messages":[%s]}' % b",".join([b"{}"] * 100), b"data: 1\n" * 102)):
        call = {"request_body": [0, 1], "response_body": [1, 1]}
        recording = ModelRecording(forged(tmp_path / str(number), call, chunks=(ASKED, body)))
        monkeypatch.setattr(reader_module, "MAX_PIECES", 102)
        assert [exchange.response_body for exchange in recording] == [body] and not recording.notes, "control"
        monkeypatch.setattr(reader_module, "MAX_PIECES", 101)
        assert [exchange.response_body for exchange in recording] == [b""]
        assert recording.notes == ["call 1: its response body has too many parts, and is left out"]


def test_a_description_of_very_many_parts_is_left_out(tmp_path):
    for number, expected in ((900, 1), (1100, 0)):
        call = {"request_body": [0, 1], "usage": {"unknown": [[]] * number}}
        recording = ModelRecording(forged(tmp_path / str(number), call))
        assert len(list(recording)) == expected
        assert len(recording.notes) == (expected == 0)


@pytest.mark.parametrize(
    ("api", "first", "then"),
    [
        (ModelApi.ANTHROPIC_MESSAGES, {"type": "message_start", "message": {}}, {"type": "message_delta", "usage": {}}),
        (ModelApi.OPENAI_RESPONSES, {"type": "response.created", "response": {}}, {"type": "error"}),
    ],
)
def test_the_time_to_join_a_stream_does_not_grow_with_its_square(api, first, then):
    """One event had very many entries, and each event behind it had all of them copied."""
    number = 60_000
    many = {str(entry): 0 for entry in range(number)}
    first = {"message": {"usage": many}, "response": many} | {"type": first["type"]}
    body = b"data: %s\n\n" % json.dumps(first).encode() + b"data: %s\n\n" % json.dumps(then).encode() * number
    began = time.process_time()
    answer = joined_answer(api, body)
    assert time.process_time() - began < 4.0
    assert len(answer.get("usage", answer)) >= number


def test_a_deep_answer_that_names_the_run_is_passed_on_as_it_is():
    def nested(depth: int) -> bytes:
        return b"[" * depth + b'"/a/b"' + b"]" * depth

    for depth in (600, 5_000_000):
        assert rewrite_answer(ModelApi.OPENAI_CHAT, nested(depth), {"/a/b": "/c"}) == nested(depth)
    assert b'"/c"' in rewrite_answer(ModelApi.OPENAI_CHAT, nested(100), {"/a/b": "/c"}), "control"


def test_the_difference_of_large_calls_is_found_at_once():
    """Each line of the one was looked for among all lines of the other, again and again."""
    lines = [f"line {number % 190}" for number in range(100_000)]
    recorded, asked = "\n".join(lines), "\n".join(lines[::-1])
    began = time.process_time()
    assert difference(["model: m", recorded], ["model: m", asked])
    assert time.process_time() - began < 2.0
    same = "equal " * 1_000_000
    shown = difference(["model: m", f"{same}\nbefore"], ["model: m", f"{same}\nnow"])
    assert shown[-2:] == ["-before", "+now"], "a difference at the end of a large part is shown"
