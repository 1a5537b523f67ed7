"""Replaces names in recorded answers, such as the folder of the run: a model's commands name it.

A streamed answer may have a name in pieces. The pieces of each text are joined, the names replaced, and the text is
sent with its first piece.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from evopolicygym.gateway.exchange import ModelApi
from evopolicygym.gateway.streams import joined_answer, parse_json, table, tables

MAX_ADDED: Final = 16 << 20  # bytes that names may add to an answer: whoever made the recording chose the old ones

Replace = Callable[[str], str]


def rewrite_answer(api: ModelApi, body: bytes, names: Mapping[str, str]) -> bytes:
    """Return an answer with names replaced by others; unchanged to the byte if none is in it."""
    used = {old: new for old, new in names.items() if old and old != new}
    try:
        whole = json.dumps(joined_answer(api, body), ensure_ascii=False)
    except (ValueError, RecursionError):
        return body
    if not any(old in whole or old.encode() in body for old in used):
        return body
    if sum(whole.count(old) * len(new) for old, new in used.items()) > MAX_ADDED:
        return body

    def replaced(text: str) -> str:
        for old, new in used.items():
            text = text.replace(old, new)
        return text

    try:
        if (value := parse_json(body)) is not None:
            return json.dumps(_deep(value, replaced)).encode()
        return _rewrite_stream(api, body, replaced)
    except RecursionError:  # it takes more of the stack to replace names than to read the answer
        return body


def _rewrite_stream(api: ModelApi, body: bytes, replaced: Replace) -> bytes:
    lines = body.split(b"\n")
    events: dict[int, Any] = {}
    for number, line in enumerate(lines):
        if line.startswith(b"data:") and isinstance(value := parse_json(line[5:].strip()), dict):
            events[number] = value
    pieces: dict[tuple[Any, ...], list[tuple[dict[str, Any], str]]] = {}
    for event in events.values():
        for channel, holder, name in _pieces(api, event):
            pieces.setdefault(channel, []).append((holder, name))
    for places in pieces.values():
        before = "".join(holder[name] for holder, name in places)
        if (after := replaced(before)) != before:
            for index, (holder, name) in enumerate(places):
                holder[name] = after if index == 0 else ""
    for number, event in events.items():
        end = b"\r" if lines[number].endswith(b"\r") else b""
        lines[number] = b"data: " + json.dumps(_deep(event, replaced)).encode() + end
    return b"\n".join(lines)


def _pieces(api: ModelApi, event: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], str]]:
    """Yield the pieces of texts in an event: which text, and where the piece stands."""
    if api is ModelApi.ANTHROPIC_MESSAGES:
        delta = table(event.get("delta"))
        for name in ("text", "thinking", "partial_json"):
            if isinstance(delta.get(name), str):
                yield (str(event.get("index")), name), delta, name
    elif api is ModelApi.OPENAI_RESPONSES:
        if isinstance(event.get("delta"), str):
            places = tuple(str(event.get(name)) for name in ("type", "item_id", "output_index", "content_index"))
            yield places, event, "delta"
    elif api is ModelApi.OPENAI_CHAT:
        for choice in tables(event.get("choices")):
            yield from _chat_pieces(str(choice.get("index")), table(choice.get("delta")))
    elif api is ModelApi.GEMINI:
        for candidate in tables(event.get("candidates")):
            for part in tables(table(candidate.get("content")).get("parts")):
                if isinstance(part.get("text"), str):
                    yield ("text", bool(part.get("thought"))), part, "text"


def _chat_pieces(choice: str, delta: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], str]]:
    for name in ("content", "reasoning_content", "reasoning"):
        if isinstance(delta.get(name), str):
            yield (choice, name), delta, name
    for call in tables(delta.get("tool_calls")):
        function = table(call.get("function"))
        if isinstance(function.get("arguments"), str):
            yield (choice, "call", str(call.get("index"))), function, "arguments"


def _deep(value: Any, replaced: Replace) -> Any:
    if isinstance(value, str):
        return replaced(value)
    if isinstance(value, list):
        return [_deep(entry, replaced) for entry in value]
    if isinstance(value, dict):
        return {name: _deep(entry, replaced) for name, entry in value.items()}
    return value
