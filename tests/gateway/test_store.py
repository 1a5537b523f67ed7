"""The recording of model calls: everything comes back, each message is stored once, no secret reaches the disk, and
kills, damage and full disks lose little."""

from __future__ import annotations

import base64
import json
import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from model_chats import APIS, KEY, ModelChat
from scripted_model import ScriptedModel

from evopolicygym.gateway import frames as frames_module
from evopolicygym.gateway.exchange import Exchange, ModelApi
from evopolicygym.gateway.frames import MARK, frame
from evopolicygym.gateway.recording import reader as recording_module
from evopolicygym.gateway.recording.chunks import cut, from_ranges, to_ranges
from evopolicygym.gateway.recording.reader import ModelRecording
from evopolicygym.gateway.recording.store import ExchangeStore
from evopolicygym.gateway.streams import joined_answer
from evopolicygym.run_paths import RECORDING


def many_commands(count):
    """Return a script of so many tool calls, then a text."""

    def script(history):
        done = sum(past.kind == "result" for past in history)
        return f"$ echo {done}" if done < count else "Done."

    return script


def chat_of(api: ModelApi, turns: int = 3, streams: bool = True, **how) -> list[Exchange]:
    with ScriptedModel(many_commands(turns)) as model:
        chat = ModelChat(model, api, streams)
        chat.prompt("Begin.", **how)
    return chat.exchanges


def exchange(number: int = 1, request: bytes = b"{}", response: bytes = b"{}", **more) -> Exchange:
    values = {"turn": 1, "api": ModelApi.OPENAI_CHAT, "method": "POST", "target": "/v1/chat/completions",
              "request_headers": {}, "status": 200, "response_headers": {}, "is_complete": True, "started_at": 1.0,
              "first_byte_s": 0.5, "duration_s": 1.0} | more  # fmt: skip
    return Exchange(number=number, request_body=request, response_body=response, **values)


def record(folder: Path, exchanges, secrets=None) -> ExchangeStore:
    store = ExchangeStore(folder, secrets or {})
    for exchange in exchanges:
        store.append(exchange)
    store.close()
    return store


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("api", APIS)
def test_everything_comes_back(api, streams, tmp_path):
    exchanges = chat_of(api, streams=streams)
    record(tmp_path, exchanges)
    read = ModelRecording(tmp_path)
    redacted = [replace(exchange, request_headers=dict(exchange.request_headers) | {"Authorization": "[redacted]"})
                for exchange in exchanges]  # fmt: skip
    assert list(read) == redacted and not read.notes
    assert read.facts.root == str(tmp_path)


@pytest.mark.parametrize("api", APIS)
def test_a_long_conversation_is_stored_once(api, tmp_path):
    """Each request repeats all before it: separately, 60 of them take thirty times what the last one takes."""
    exchanges = chat_of(api, 60, result=lambda command: f"{command}: " + os.urandom(500).hex())
    record(tmp_path, exchanges)
    separately = sum(len(exchange.request_body) for exchange in exchanges)
    stored = (tmp_path / RECORDING).stat().st_size
    assert stored < 2 * len(exchanges[-1].request_body) < separately / 10


def test_chunks_join_to_the_body():
    bodies = [
        b"",
        b"{}",
        b'[{"a":1},{"b":2} , {"c":3}]',
        json.dumps({"text": "a\n\nb" * 5000}).encode(),
        os.urandom(9999),
    ]
    assert [b"".join(cut(body)) for body in bodies] == bodies
    assert len(cut(bodies[2])) == 3 and len(cut(bodies[3])) > 1000
    assert cut(b'["{\\"a\\": 1}, {\\"b\\": 2}"]') == [b'["{\\"a\\": 1}, {\\"b\\": 2}"]']  # within a string


def test_ranges_are_numbers():
    for numbers in ([], [0], [5, 6, 7, 2, 3, 9], [3, 3, 3]):
        assert list(from_ranges(to_ranges(numbers), 10)) == numbers
    for bad in ([0, 11], [0, -1], [0], [0, 10**12]):
        with pytest.raises(ValueError, match=r"chunks|range"):
            list(from_ranges(bad, 10))


SECRETS = {"OPENAI_API_KEY": KEY, "token": 'tok"en/+0123456789'}


def test_no_secret_reaches_the_disk(tmp_path):
    token = SECRETS["token"]
    body = json.dumps({"env": f"OPENAI_API_KEY={KEY}", "token": token, "url": "https://me:secret-password@host/x"})
    answer = json.dumps({"error": f"Incorrect API key provided: sk-proj-abcd********wxyz. {KEY}"}).encode()
    basic = base64.b64encode(f"user:{KEY}".encode()).decode()
    headers = {"Authorization": f"Bearer {KEY}", "x-api-key": "k1", "X-Goog-Api-Key": "k2", "Cookie": "c=1",
               "api-key": "k3", "Proxy-Authorization": "k4", "x-note": f"Basic {basic}",
               "x-count-tokens": "7"}  # fmt: skip
    target = "/v1beta/models/m:generateContent?key=AIza-secret&alt=sse&access_token=t%20t"
    record(tmp_path, [exchange(request=body.encode(), response=answer, status=401, target=target,
                               request_headers=headers, response_headers={"Set-Cookie": "sid=4", "date": "now"})],
           SECRETS)  # fmt: skip
    (read,) = ModelRecording(tmp_path)
    stored = repr(read) + read.request_body.decode() + read.response_body.decode()
    for secret in (KEY, json.dumps(token)[1:-1], token, "secret-password", "wxyz", "AIza", "t%20t", "sid=4", basic[8:]):
        assert secret not in stored, secret
    assert read.target == "/v1beta/models/m:generateContent?key=[redacted]&alt=sse&access_token=[redacted]"
    assert read.request_headers["x-count-tokens"] == "7" and read.response_headers["date"] == "now"
    kept = {name for name, value in read.request_headers.items() if value != "[redacted]"}
    assert kept == {"x-note", "x-count-tokens"}
    assert b"OPENAI_API_KEY=[OPENAI_API_KEY]" in read.request_body and b'"token": "[token]"' in read.request_body


WRITTEN = {
    "base64": lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
    "base64 of URLs": lambda key: base64.urlsafe_b64encode(f"{key}:".encode()).decode(),
    "hexadecimal": lambda key: key.encode().hex(),
    "percent": lambda key: "".join(f"%{byte:02x}" for byte in key.encode()),
    "percent where it must be": lambda key: quote(key, safe=""),
    "percent twice": lambda key: quote(quote(key, safe=""), safe=""),
    "escaped": lambda key: "".join(f"\\u{ord(letter):04x}" for letter in key),
    "slashes escaped": lambda key: key.replace("/", r"\/"),
}


@pytest.mark.parametrize("form", WRITTEN)
def test_no_spelling_of_a_secret_reaches_the_disk(form, tmp_path):
    key = "sk/proj+??>>~abc/DEF-0123456789_and_more=="
    written = WRITTEN[form](key)
    text = f'{{"echo": "begin {written} end"}}'.encode()
    record(tmp_path, [exchange(request=text, response=text, response_headers={"x-echo": written})], {"key": key})
    (read,) = ModelRecording(tmp_path)
    stored = repr(read) + read.request_body.decode() + read.response_body.decode()
    assert written not in stored and "[key]" in read.request_body.decode()


PIECES = {
    ModelApi.OPENAI_CHAT: lambda text: {"choices": [{"index": 0, "delta": {"content": text}}]},
    ModelApi.ANTHROPIC_MESSAGES: lambda text: {
        "type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}
    },
    ModelApi.GEMINI: lambda text: {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]},
}  # fmt: skip


@pytest.mark.parametrize("api", PIECES)
def test_a_secret_in_the_pieces_of_a_stream_does_not_reach_the_disk(api, tmp_path):
    """Each event has a few letters of it: none of them is the secret, but a reader joins them."""
    text = f"The key is {KEY}, as you know."
    events = [PIECES[api](text[start : start + 5]) for start in range(0, len(text), 5)]
    begin = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    opening = [{"type": "message_start", "message": {"role": "assistant", "content": []}}, begin]
    sent = [*(opening if api is ModelApi.ANTHROPIC_MESSAGES else []), *events]
    body = b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in sent)
    assert KEY.encode() not in body and KEY in json.dumps(joined_answer(api, body))
    record(tmp_path, [exchange(response=body, api=api)], {"key": KEY})
    (read,) = ModelRecording(tmp_path)
    joined = json.dumps(joined_answer(api, read.response_body))
    assert KEY not in joined and "[key], as you know" in joined


def test_a_second_store_continues_the_first(tmp_path):
    exchanges = chat_of(ModelApi.OPENAI_CHAT, 20)
    record(tmp_path, exchanges[:10])
    before = (tmp_path / RECORDING).stat().st_size
    record(tmp_path, exchanges[10:])
    assert [exchange.number for exchange in ModelRecording(tmp_path)] == list(range(1, 22))
    record(tmp_path / "at_once", exchanges)
    assert (tmp_path / RECORDING).stat().st_size < (tmp_path / "at_once" / RECORDING).stat().st_size + before / 4


KILLED = """
import os, signal, sys
from pathlib import Path
from evopolicygym.gateway.recording.store import ExchangeStore
from evopolicygym.gateway.exchange import Exchange, ModelApi
store = ExchangeStore(Path(sys.argv[1]), {})
for number in range(1, 10**6):
    body = os.urandom(100_000).hex().encode()
    store.append(Exchange(number, 1, ModelApi.OPENAI_CHAT, "POST", "/", {}, body, 200, {}, b"", True, 1.0, 0.0, 0.0))
    print(number, flush=True)
"""


def test_a_killed_process_loses_nothing_that_was_written(tmp_path):
    with subprocess.Popen([sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE) as process:
        assert process.stdout
        while int(process.stdout.readline()) < 20:
            pass
        process.send_signal(signal.SIGKILL)
        written = 20 + len(process.stdout.readlines())
    read = ModelRecording(tmp_path)
    numbers = [exchange.number for exchange in read]
    assert numbers[:written] == list(range(1, written + 1)) and len(numbers) <= written + 1


def test_a_torn_end_is_ignored_and_written_behind(tmp_path):
    record(tmp_path, [exchange(1), exchange(2, b'{"second": 1}')])
    path = tmp_path / RECORDING
    path.write_bytes(path.read_bytes()[:-5])
    read = ModelRecording(tmp_path)
    assert [stored.number for stored in read] == [1] and "incomplete" in read.notes[0]
    record(tmp_path, [exchange(2, b'{"second": 1}'), exchange(3)])
    assert [stored.number for stored in read] == [1, 2, 3] and "damaged" in read.notes[0]


def test_a_lost_call_takes_no_other_with_it(tmp_path):
    """Later requests repeat its messages: theirs are lost as well, and said so; answers are there."""
    exchanges = chat_of(ModelApi.OPENAI_CHAT, 5)
    record(tmp_path, exchanges)
    data = bytearray((tmp_path / RECORDING).read_bytes())
    third = [i for i in range(len(data)) if data.startswith(MARK, i)][3]
    data[third + 20] ^= 1
    (tmp_path / RECORDING).write_bytes(data)
    read = ModelRecording(tmp_path)
    recorded = list(read)
    assert [exchange.number for exchange in recorded] == [1, 2, 4, 5, 6]
    assert [bool(exchange.request_body) for exchange in recorded] == [True, True, False, False, False]
    assert all(exchange.response_body for exchange in recorded)
    assert "calls 3 to 3 are not recorded" in read.notes and "call 4: its request body is lost" in read.notes


def test_no_text_of_a_call_keeps_it_out_of_the_recording(tmp_path):
    odd = {"X-A": b"\xff".decode(errors="surrogateescape")}
    store = record(tmp_path, [exchange(request_headers=odd, response_headers=odd, model="\ud800")])
    (kept,) = ModelRecording(tmp_path)
    assert kept.request_headers == kept.response_headers == {"X-A": "\\udcff"} and not store.trouble


def test_a_call_that_is_too_large_to_record_is_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(frames_module, "MAX_DATA", 1000)
    store = record(tmp_path, [exchange(1, os.urandom(2000)), exchange(2)])
    assert [call.number for call in ModelRecording(tmp_path)] == [2] and "call 1 " in store.trouble


def test_a_full_disk_ends_the_recording_and_not_the_run(tmp_path):
    """A limit on the size of files is a disk that is full; the signal would end the process."""
    store = ExchangeStore(tmp_path, {})
    store.append(exchange(1))
    size = (tmp_path / RECORDING).stat().st_size
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))
    try:
        store.append(exchange(2, os.urandom(1000)))
        store.append(exchange(3))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "not recorded any more" in store.trouble and "call 2" in store.trouble
    read = ModelRecording(tmp_path)
    assert [stored.number for stored in read] == [1] and not read.notes
    record(tmp_path, [exchange(4)])
    assert [stored.number for stored in read] == [1, 4] and read.notes == ["calls 2 to 3 are not recorded"]


def test_a_recording_has_a_limit(tmp_path):
    store = ExchangeStore(tmp_path, {}, limit=3000)
    for number in range(1, 10):
        store.append(exchange(number, os.urandom(500)))
    assert "limit" in store.trouble
    assert 1 < len(list(ModelRecording(tmp_path))) < 9 and (tmp_path / RECORDING).stat().st_size <= 3000


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "logs").write_text("a file")
    store = record(tmp_path, [exchange()])
    assert store.trouble and not list(ModelRecording(tmp_path))


def test_links_are_not_followed(tmp_path):
    record(tmp_path / "real", [exchange()])
    (tmp_path / "fake" / "logs").mkdir(parents=True)
    (tmp_path / "fake" / "logs" / "model").symlink_to(tmp_path / "real" / "logs" / "model")
    read = ModelRecording(tmp_path / "fake")
    assert not list(read) and not read.exists and "link" in read.notes[0]


def test_bombs_do_not_explode(tmp_path, monkeypatch):
    path = tmp_path / RECORDING
    path.parent.mkdir(parents=True)
    path.write_bytes(frame(bytes(2_000_000)) + frame(b'{"kind":"recording","root":"/there"}\n'))
    monkeypatch.setattr(frames_module, "MAX_DATA", 1_000_000)
    read = ModelRecording(tmp_path)
    assert not list(read) and read.facts.root == "/there" and "damaged" in read.notes[0]
    monkeypatch.setattr(recording_module, "MAX_BODY", 10_000)
    record(tmp_path, [exchange(1, b"a" * 9000)])
    monkeypatch.setattr(recording_module, "MAX_BODIES", 25_000)
    store = ExchangeStore(tmp_path, {})
    for number in range(2, 6):
        store.append(exchange(number, b"a" * 9000))
    assert [stored.number for stored in read] == [1, 2] and "too large" in read.notes[-1]
    monkeypatch.setattr(frames_module, "MAX_ALL_DATA", 5_000)
    assert not list(read) and "too large" in read.notes[-1]
