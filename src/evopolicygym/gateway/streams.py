"""Joins streamed answers: server-sent events of any API become the one JSON object that is sent without streaming.

A stream may be cut anywhere and its server may be broken: whatever is there is joined, and what has another shape than
the API says is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from evopolicygym.gateway.exchange import ModelApi


def joined_answer(api: ModelApi, body: bytes) -> dict[str, Any]:
    """Return an answer as one object, streamed or not; empty if there is nothing to read."""
    value = parse_json(body)
    if isinstance(value, dict):
        return value
    events = [event for event in (value if isinstance(value, list) else sse_events(body)) if isinstance(event, dict)]
    join = {
        ModelApi.ANTHROPIC_MESSAGES: _join_messages,
        ModelApi.OPENAI_RESPONSES: _join_responses,
        ModelApi.OPENAI_CHAT: _join_chat,
        ModelApi.GEMINI: _join_gemini,
    }.get(api)
    return join(events) if join and events else {}


def parse_json(data: bytes | str) -> Any:
    """Return the value; None if it is no JSON, or nested too deep."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None


def sse_events(body: bytes) -> Iterator[Any]:
    """Yield the JSON values of server-sent events."""
    data: list[bytes] = []
    for line in (*body.splitlines(), b""):
        if line.startswith(b"data:"):
            data.append(line[5:].strip())
        elif not line.strip() and data:
            if (value := parse_json(b"\n".join(data))) is not None:
                yield value
            data = []


def table(value: Any) -> dict[str, Any]:
    """Return a value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def tables(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _join_messages(events: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {}
    usage: dict[str, Any] = {}  # grows in place: events may be as many as its entries
    blocks: dict[Any, dict[str, Any]] = {}
    pieces: dict[tuple[int, str], list[str]] = {}
    for event in events:
        kind, index = event.get("type"), event.get("index")
        position = index if isinstance(index, int) else 0
        if kind == "message_start":
            message = dict(table(event.get("message")))
            usage = dict(table(message.get("usage")))
        elif kind == "content_block_start":
            blocks[position] = dict(table(event.get("content_block")))
        elif kind == "content_block_delta":
            for name, field in (("text", "text"), ("thinking", "thinking"), ("partial_json", "input")):
                if piece := text(table(event.get("delta")).get(name)):
                    pieces.setdefault((position, field), []).append(piece)
        elif kind == "message_delta":
            message |= table(event.get("delta"))
            usage |= table(event.get("usage"))
            message["usage"] = usage
        elif kind == "error":
            message["error"] = event.get("error")
    for (position, field), parts in pieces.items():
        joined = "".join(parts)
        whole = parse_json(joined) if field == "input" else None
        block = blocks.setdefault(position, {"type": "text"})
        block[field] = text(block.get(field)) + joined if field != "input" else joined if whole is None else whole
    return message | {"content": [blocks[position] for position in sorted(blocks)]}


def _join_responses(events: list[dict[str, Any]]) -> dict[str, Any]:
    response: dict[str, Any] = {}
    error: dict[str, Any] = {}
    items: dict[int, dict[str, Any]] = {}
    pieces: dict[tuple[int, str], list[str]] = {}
    done: set[int] = set()
    for event in events:
        kind, index = text(event.get("type")), event.get("output_index")
        position = index if isinstance(index, int) else 0
        if isinstance(event.get("response"), dict):
            response, error = event["response"], {}
        elif kind.startswith("response.output_item."):
            items[position] = dict(table(event.get("item")))
            done |= {position} if kind.endswith("done") else set()
        elif kind.endswith(".delta"):
            pieces.setdefault((position, kind), []).append(text(event.get("delta")))
        elif kind == "error":
            error = {"error": {"message": event.get("message"), "code": event.get("code")}}
    for (position, kind), parts in pieces.items():
        if position not in done:
            item = items.setdefault(position, {"type": "message", "role": "assistant"})
            _put_pieces(item, kind, "".join(parts))
    return (
        response
        | error
        | ({} if response.get("output") else {"output": [items[position] for position in sorted(items)]})
    )


def _put_pieces(item: dict[str, Any], kind: str, joined: str) -> None:
    """Put the text of an item that was cut where it would stand in a whole one."""
    if "arguments" in kind:
        item["arguments"] = joined
    elif "reasoning" in kind:
        item["summary"] = [{"type": "summary_text", "text": joined}]
    elif "custom_tool_call_input" in kind:
        item["input"] = joined
    else:
        item["content"] = [{"type": "output_text", "text": joined}]


def _join_chat(events: list[dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    texts: dict[str, list[str]] = {}
    calls: dict[int, dict[str, Any]] = {}
    arguments: dict[int, list[str]] = {}
    finish = None
    for event in events:
        answer |= {name: event[name] for name in ("id", "model", "usage", "error") if event.get(name)}
        for choice in tables(event.get("choices"))[:1]:
            delta = table(choice.get("delta"))
            finish = choice.get("finish_reason") or finish
            for name in ("content", "reasoning_content", "reasoning", "refusal"):
                if piece := text(delta.get(name)):
                    texts.setdefault(name, []).append(piece)
            for call in tables(delta.get("tool_calls")):
                index = call.get("index")
                position = index if isinstance(index, int) else len(calls)
                function = table(call.get("function"))
                collected = calls.setdefault(position, {"id": "", "name": ""})
                collected["id"], collected["name"] = (
                    collected["id"] or call.get("id"),
                    collected["name"] or function.get("name"),
                )
                arguments.setdefault(position, []).append(text(function.get("arguments")))
    message: dict[str, Any] = {"role": "assistant", "content": None}
    message |= {name: "".join(pieces) for name, pieces in texts.items()}
    if calls:
        message["tool_calls"] = [
            {"id": call["id"], "function": {"name": call["name"], "arguments": "".join(arguments[position])}}
            for position, call in sorted(calls.items())
        ]
    return answer | {"choices": [{"message": message, "finish_reason": finish}]}


def _join_gemini(events: list[dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    parts: list[dict[str, Any]] = []
    candidate: dict[str, Any] = {}
    for event in events:
        answer |= {name: value for name, value in event.items() if name != "candidates"}
        for candidate in tables(event.get("candidates"))[:1]:
            parts += tables(table(candidate.get("content")).get("parts"))
    content = {"role": "model", "parts": list(_merged(parts))}
    return answer | {"candidates": [candidate | {"content": content}]}


def _merged(parts: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Join consecutive texts of one kind."""
    pieces: list[str] = []
    kind: Any = None
    for part in parts:
        if isinstance(part.get("text"), str):
            if pieces and kind != part.get("thought"):
                yield _text_part(pieces, kind)
                pieces = []
            pieces.append(part["text"])
            kind = part.get("thought")
            continue
        if pieces:
            yield _text_part(pieces, kind)
            pieces = []
        yield part
    if pieces:
        yield _text_part(pieces, kind)


def _text_part(pieces: list[str], thought: Any) -> dict[str, Any]:
    return {"text": "".join(pieces)} | ({"thought": True} if thought else {})
