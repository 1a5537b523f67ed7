"""Measures recordings of model calls: bytes on disk and CPU time, for a conversation of each API.

    python benchmarks/recording.py [TURNS] [RESULT_BYTES]

The conversation is held with a scripted model: TURNS tool calls (default 200), each with a result of RESULT_BYTES of
text (default 2000) like that of a compiler or a log, a system prompt of 12 kB and 20 tools. Stored separately means one
compressed body for each call.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from evopolicygym.agents.usage import Usage
from evopolicygym.gateway.conversation import read_conversation
from evopolicygym.gateway.exchange import Exchange, ModelApi
from evopolicygym.gateway.recording.reader import ModelRecording
from evopolicygym.gateway.recording.store import ExchangeStore
from evopolicygym.run_paths import RECORDING

TURNS, RESULT = 200, 2000
WORDS = [f"{a}{b}" for a in ("state", "error", "value", "joint", "reward", "line") for b in range(300)]
chance = random.Random(0)


def text(size: int) -> str:
    words = []
    while size > 0:
        words.append(chance.choice(WORDS))
        size -= len(words[-1]) + 1
    return " ".join(words)


def identity() -> str:
    return f"{chance.getrandbits(96):024x}"


SYSTEM = text(12_000)
TOOLS = [(f"tool{number}", text(400)) for number in range(20)]
SCHEMA = {"type": "object", "properties": {"command": {"type": "string", "description": text(80)}}}


def request(api: ModelApi, history: list[Any]) -> bytes:
    if api is ModelApi.ANTHROPIC_MESSAGES:
        marked = [
            *history[:-1],
            {**history[-1], "cache_control": {"type": "ephemeral"}},
        ]  # it moves
        tools: list[Any] = [{"name": name, "description": about, "input_schema": SCHEMA} for name, about in TOOLS]
        body: Any = {"model": "m", "max_tokens": 8000, "messages": marked, "system": SYSTEM, "tools": tools}
    elif api is ModelApi.OPENAI_RESPONSES:
        tools = [
            {"type": "function", "name": name, "description": about, "parameters": SCHEMA} for name, about in TOOLS
        ]
        body = {"model": "m", "instructions": SYSTEM, "input": history, "tools": tools, "stream": True}
    elif api is ModelApi.OPENAI_CHAT:
        tools = [{"type": "function", "function": {"name": name, "description": about}} for name, about in TOOLS]
        body = {"model": "m", "messages": [{"role": "system", "content": SYSTEM}, *history], "tools": tools}
    else:
        tools = [{"functionDeclarations": [{"name": name, "description": about} for name, about in TOOLS]}]
        body = {"contents": history, "systemInstruction": {"parts": [{"text": SYSTEM}]}, "tools": tools}
    return json.dumps(body).encode()


def turn(api: ModelApi, call: str, text: str, result: str) -> list[Any]:
    """Return the items of one tool call and its result in the history."""
    command = {"command": text}
    if api is ModelApi.ANTHROPIC_MESSAGES:
        use = {"type": "tool_use", "id": f"toolu_{call}", "name": "tool0", "input": command}
        content = [{"type": "tool_result", "tool_use_id": f"toolu_{call}", "content": result}]
        return [{"role": "assistant", "content": [use]}, {"role": "user", "content": content}]
    if api is ModelApi.OPENAI_RESPONSES:
        use = {"type": "function_call", "call_id": f"call_{call}", "name": "tool0", "arguments": json.dumps(command)}
        return [use, {"type": "function_call_output", "call_id": f"call_{call}", "output": result}]
    if api is ModelApi.OPENAI_CHAT:
        function = {"name": "tool0", "arguments": json.dumps(command)}
        calls = [{"id": f"call_{call}", "type": "function", "function": function}]
        return [
            {"role": "assistant", "tool_calls": calls},
            {"role": "tool", "tool_call_id": f"call_{call}", "content": result},
        ]
    response = {"name": "tool0", "response": {"output": result}}
    return [
        {"role": "model", "parts": [{"functionCall": {"name": "tool0", "args": command}}]},
        {"role": "user", "parts": [{"functionResponse": response}]},
    ]


def answer(text: str) -> bytes:
    """Return a streamed answer, a few characters in each event as providers send them."""
    pieces = [text[i : i + 6] for i in range(0, len(text), 6)]
    kind = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0}
    events = (kind | {"delta": piece} for piece in pieces)
    return b"".join(b"event: delta\ndata: " + json.dumps(event).encode() + b"\n\n" for event in events)


def conversation(api: ModelApi, turns: int, result: int) -> list[Exchange]:
    history: list[Any] = turn(api, identity(), "begin", text(500))[1:]
    exchanges = []
    for number in range(1, turns + 1):
        script = text(300)
        headers = {"content-type": "text/event-stream", "x-request-id": identity(), "date": f"Mon {number}"}
        exchanges.append(
            Exchange(number, 1, api, "POST", "/v1/x", {"user-agent": "client/1.0"}, request(api, history), 200, headers,
                     answer(script), True, float(number), 0.5, 5.0, model="m", usage=Usage(fresh_input=9, output=9))
        )  # fmt: skip
        history += turn(api, identity(), script, text(result))
    return exchanges


def measure(api: ModelApi, turns: int, result: int) -> str:
    exchanges = conversation(api, turns, result)
    raw = sum(len(exchange.request_body) + len(exchange.response_body) for exchange in exchanges)
    separate = sum(
        len(zlib.compress(exchange.request_body)) + len(zlib.compress(exchange.response_body)) for exchange in exchanges
    )
    with tempfile.TemporaryDirectory() as folder:
        store, times = ExchangeStore(Path(folder), {"key": "k" * 40, "token": "t" * 60}), list[float]()
        for exchange in exchanges:
            began = time.thread_time()
            store.append(exchange)
            times.append(1000 * (time.thread_time() - began))
        store.close()
        stored = (Path(folder) / RECORDING).stat().st_size
        began = time.process_time()
        read_conversation(ModelRecording(Path(folder)))
        reading = time.process_time() - began
    last = times[-10:]
    return (
        f"| {api} | {raw / 1e6:.1f} MB | {separate / 1e3:.0f} kB | {stored / 1e3:.0f} kB | {separate / stored:.0f} | "
        f"{sum(times) / turns:.2f} ms | {sum(last) / len(last):.2f} ms | {reading:.2f} s |"
    )


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    result = int(sys.argv[2]) if len(sys.argv) > 2 else RESULT
    print("| API | bodies | stored separately | recorded | ratio | CPU per call | CPU of the last calls | reading |")
    print("|---|---|---|---|---|---|---|---|")
    for api in (ModelApi.ANTHROPIC_MESSAGES, ModelApi.OPENAI_RESPONSES, ModelApi.OPENAI_CHAT, ModelApi.GEMINI):
        print(measure(api, turns, result), flush=True)


if __name__ == "__main__":
    main()
