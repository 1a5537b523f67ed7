"""Messages of a call and of its answer, in one form for all APIs.

A call is a list of parts: texts, reasoning, tool calls and their results, images as placeholders. The four APIs nest
them differently; a flat list can be compared from one call to the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from evopolicygym.gateway.exchange import Exchange, ModelApi
from evopolicygym.gateway.streams import joined_answer, parse_json, table, tables, text


class MessageRole(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class PartKind(StrEnum):
    """Kind of a message part. The text of IMAGE and FILE describes what was there; OTHER is JSON of an unknown form."""

    TEXT = "text"
    REASONING = "reasoning"
    CALL = "call"
    RESULT = "result"
    IMAGE = "image"
    FILE = "file"
    OTHER = "other"


@dataclass(frozen=True)
class MessagePart:
    """A piece of a conversation. A CALL has the tool's ``name``, an ``id`` and its arguments as ``text``; a RESULT has
    the id of its call."""

    role: MessageRole
    kind: PartKind
    text: str
    name: str = ""
    id: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """A key that is equal for parts with the same meaning, however a client writes them."""
        squeezed = canonical(self.text) if self.kind is PartKind.CALL else self.text.strip()
        return self.role, self.kind, self.name, squeezed


@dataclass(frozen=True)
class ModelRequest:
    """Request of a call. ``previous``: the answer that it continues, if the server keeps the history."""

    model: str
    parts: tuple[MessagePart, ...]
    tools: tuple[str, ...]
    previous: str = ""

    @property
    def system(self) -> str:
        return "\n\n".join(part.text for part in self.parts if part.role is MessageRole.SYSTEM)


@dataclass(frozen=True)
class ModelAnswer:
    """Answer to a call. ``error``: the provider's words if it is a failure."""

    parts: tuple[MessagePart, ...]
    id: str = ""
    error: str = ""


def read_request(exchange: Exchange) -> ModelRequest:
    """Return the messages of a call. What has another shape than its API says is left out."""
    body = table(parse_json(exchange.request_body))
    read = {
        ModelApi.ANTHROPIC_MESSAGES: _anthropic_request,
        ModelApi.OPENAI_RESPONSES: _responses_request,
        ModelApi.OPENAI_CHAT: _chat_request,
        ModelApi.GEMINI: _gemini_request,
    }.get(exchange.api)
    parts = tuple(read(body)) if read else ()
    model = text(body.get("model")) or exchange.model or ""
    return ModelRequest(model, parts, tuple(_tool_names(body)), text(body.get("previous_response_id")))


def read_answer(exchange: Exchange) -> ModelAnswer:
    """Return the messages of an answer, joined if it was streamed."""
    body = joined_answer(exchange.api, exchange.response_body)
    read = {
        ModelApi.ANTHROPIC_MESSAGES: lambda: _anthropic_parts(MessageRole.ASSISTANT, body.get("content")),
        ModelApi.OPENAI_RESPONSES: lambda: _responses_parts(tables(body.get("output"))),
        ModelApi.OPENAI_CHAT: lambda: _chat_answer(body),
        ModelApi.GEMINI: lambda: _gemini_answer(body),
    }.get(exchange.api)
    parts = tuple(read()) if read else ()
    error = body.get("error")
    words = text(table(error).get("message")) or text(error)
    if not words and exchange.status >= 400:
        words = exchange.response_body[:500].decode(errors="replace")
    return ModelAnswer(parts, text(body.get("id")) or text(body.get("responseId")), words)


def canonical(arguments: str) -> str:
    """Return JSON in one spelling; other text as it is."""
    value = parse_json(arguments)
    try:
        return arguments.strip() if value is None else json.dumps(value, sort_keys=True)
    except (ValueError, RecursionError):  # as deep as can be parsed, or an integer of thousands of digits
        return arguments.strip()


def _tool_names(body: dict[str, Any]) -> Iterator[str]:
    for tool in tables(body.get("tools")):
        inner = tables(tool.get("functionDeclarations")) or [table(tool.get("function")) or tool]
        for function in inner:
            yield text(function.get("name")) or text(function.get("type"))


def _written(value: Any) -> str:
    try:
        return value if isinstance(value, str) else json.dumps(value)
    except (ValueError, RecursionError):
        return ""


def _flat_text(content: Any, depth: int = 4) -> str:
    """Return the text of a tool's result, which may be nested."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and depth:
        return "\n".join(filter(None, (_flat_text(entry, depth - 1) for entry in content)))
    entry = table(content)
    if image := _placeholder(entry):
        return f"[{image[1]}]"
    for name in ("text", "content", "output"):
        if name in entry and depth:
            return _flat_text(entry[name], depth - 1)
    return _written(content) if content not in (None, {}, []) else ""


ROLES: Final = {
    "assistant": MessageRole.ASSISTANT,
    "system": MessageRole.SYSTEM,
    "developer": MessageRole.SYSTEM,
}


def _role(message: dict[str, Any]) -> MessageRole:
    return ROLES.get(text(message.get("role")), MessageRole.USER)


IMAGES: Final = ("image", "input_image", "image_url", "computer_screenshot")
FILES: Final = ("document", "file", "input_file", "input_audio")


def _placeholder(block: dict[str, Any]) -> tuple[PartKind, str] | None:
    """Return what stands for an image or a file in the conversation."""
    kind = text(block.get("type"))
    inline = table(block.get("inlineData") or block.get("fileData"))
    if not inline and kind not in IMAGES + FILES:
        return None
    source = table(block.get("source"))
    media = text(inline.get("mimeType")) or text(source.get("media_type"))
    url = block.get("image_url")
    data = text(inline.get("data")) or text(source.get("data")) or text(table(url).get("url")) or text(url)
    if data.startswith("data:"):
        media, _, data = data[5:].partition(";base64,")
    is_image = kind in IMAGES or media.startswith("image/")
    size = f", {len(data) * 3 // 4} bytes" if data and not data.startswith("http") else ""
    return PartKind.IMAGE if is_image else PartKind.FILE, f"{media or ('image' if is_image else 'file')}{size}"


def _content(role: MessageRole, content: Any) -> Iterator[MessagePart]:
    """Yield the parts of content in the common form: a text, or a list of typed blocks."""
    if isinstance(content, str):
        yield MessagePart(role, PartKind.TEXT, content)
    for block in tables(content):
        if placeholder := _placeholder(block):
            yield MessagePart(role, *placeholder)
        elif isinstance(block.get("text") or block.get("refusal"), str):
            yield MessagePart(role, PartKind.TEXT, text(block.get("text")) or text(block.get("refusal")))
        else:
            yield MessagePart(role, PartKind.OTHER, _written(block), text(block.get("type")))


def _anthropic_request(body: dict[str, Any]) -> Iterator[MessagePart]:
    yield from _content(MessageRole.SYSTEM, body.get("system"))
    for message in tables(body.get("messages")):
        yield from _anthropic_parts(_role(message), message.get("content"))


def _anthropic_parts(role: MessageRole, content: Any) -> Iterator[MessagePart]:
    if isinstance(content, str):
        yield MessagePart(role, PartKind.TEXT, content)
    for block in tables(content):
        kind = text(block.get("type"))
        if kind in ("thinking", "redacted_thinking"):
            yield MessagePart(role, PartKind.REASONING, text(block.get("thinking")))
        elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            name, identity = text(block.get("name")), text(block.get("id"))
            yield MessagePart(MessageRole.ASSISTANT, PartKind.CALL, _written(block.get("input")), name, identity)
        elif kind.endswith("tool_result"):
            identity = text(block.get("tool_use_id"))
            yield MessagePart(MessageRole.TOOL, PartKind.RESULT, _flat_text(block.get("content")), id=identity)
        else:
            yield from _content(role, [block])


def _responses_request(body: dict[str, Any]) -> Iterator[MessagePart]:
    if instructions := text(body.get("instructions")):
        yield MessagePart(MessageRole.SYSTEM, PartKind.TEXT, instructions)
    if isinstance(body.get("input"), str):
        yield MessagePart(MessageRole.USER, PartKind.TEXT, body["input"])
    yield from _responses_parts(tables(body.get("input")))


def _responses_parts(items: list[dict[str, Any]]) -> Iterator[MessagePart]:
    for item in items:
        kind, identity = text(item.get("type")) or "message", text(item.get("call_id")) or text(item.get("id"))
        if kind == "message":
            yield from _content(_role(item), item.get("content"))
        elif kind == "reasoning":
            words = _flat_text(item.get("summary")) or _flat_text(item.get("content"))
            yield MessagePart(MessageRole.ASSISTANT, PartKind.REASONING, words)
        elif kind.endswith("_output"):
            yield MessagePart(MessageRole.TOOL, PartKind.RESULT, _flat_text(item.get("output")), id=identity)
        elif kind.endswith("_call"):
            arguments = next((item[name] for name in ("arguments", "input", "action") if name in item), "")
            name = text(item.get("name")) or kind.removesuffix("_call")
            yield MessagePart(MessageRole.ASSISTANT, PartKind.CALL, _written(arguments), name, identity)
        else:
            yield MessagePart(MessageRole.ASSISTANT, PartKind.OTHER, _written(item), kind)


def _chat_request(body: dict[str, Any]) -> Iterator[MessagePart]:
    for message in tables(body.get("messages")):
        yield from _chat_message(message)


def _chat_answer(body: dict[str, Any]) -> Iterator[MessagePart]:
    for choice in tables(body.get("choices"))[:1]:
        yield from _chat_message(table(choice.get("message")) | {"role": "assistant"})


def _chat_message(message: dict[str, Any]) -> Iterator[MessagePart]:
    role = text(message.get("role"))
    if role in ("tool", "function"):
        identity = text(message.get("tool_call_id"))
        yield MessagePart(MessageRole.TOOL, PartKind.RESULT, _flat_text(message.get("content")), id=identity)
        return
    author = _role(message)
    if reasoning := text(message.get("reasoning_content")) or text(message.get("reasoning")):
        yield MessagePart(author, PartKind.REASONING, reasoning)
    yield from (part for part in _content(author, message.get("content")) if part.text)
    yield from _content(author, message.get("refusal"))
    for call in tables(message.get("tool_calls")):
        function = table(call.get("function"))
        arguments = _written(function.get("arguments"))
        yield MessagePart(author, PartKind.CALL, arguments, text(function.get("name")), text(call.get("id")))


def _gemini_request(body: dict[str, Any]) -> Iterator[MessagePart]:
    system = table(body.get("systemInstruction") or body.get("system_instruction"))
    yield from _gemini_parts(MessageRole.SYSTEM, tables(system.get("parts")))
    for content in tables(body.get("contents")):
        role = MessageRole.ASSISTANT if content.get("role") == "model" else MessageRole.USER
        yield from _gemini_parts(role, tables(content.get("parts")))


def _gemini_answer(body: dict[str, Any]) -> Iterator[MessagePart]:
    for candidate in tables(body.get("candidates"))[:1]:
        yield from _gemini_parts(MessageRole.ASSISTANT, tables(table(candidate.get("content")).get("parts")))


def _gemini_parts(role: MessageRole, parts: list[dict[str, Any]]) -> Iterator[MessagePart]:
    for part in parts:
        call, response = part.get("functionCall"), part.get("functionResponse")
        if isinstance(call, dict):
            name, identity = text(call.get("name")), text(call.get("id"))
            yield MessagePart(role, PartKind.CALL, _written(call.get("args")), name, identity)
        elif isinstance(response, dict):
            words = _flat_text(response.get("response"))
            yield MessagePart(
                MessageRole.TOOL, PartKind.RESULT, words, text(response.get("name")), text(response.get("id"))
            )
        elif part.get("thought") and isinstance(part.get("text"), str):
            yield MessagePart(role, PartKind.REASONING, part["text"])
        else:
            yield from _content(role, [part])
