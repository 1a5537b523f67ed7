"""Recordings that are damaged, or made by somebody who means harm: reading never fails, and never invents a call."""

from __future__ import annotations

import json
import os
import random
import zlib
from pathlib import Path

import pytest
from model_chats import APIS, ModelChat
from scripted_model import ScriptedModel

from evopolicygym.gateway.atif import to_atif
from evopolicygym.gateway.conversation import read_conversation
from evopolicygym.gateway.exchange import Exchange
from evopolicygym.gateway.frames import HEAD, MARK, frame
from evopolicygym.gateway.recording import FILE, ModelRecording
from evopolicygym.gateway.store import ExchangeStore

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
    return (root / FILE).read_bytes(), list(ModelRecording(root))


def read(folder: Path, data: bytes) -> list[Exchange]:
    """Read damaged data in every way there is; return its calls."""
    path = folder / FILE
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
    known = {call.response_body for call in calls} | {b""}
    asked = {call.request_body for call in calls} | {b""}
    for _ in range(ROUNDS):
        for call in read(tmp_path, damaged(data, chance)):
            assert call.response_body in known and call.request_body in asked


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
