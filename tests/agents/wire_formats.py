"""The wire formats of four model providers: parse requests, and write answers.

``history`` returns what the assistant has done and what came of it, oldest first. ``plain`` is the whole answer as one
JSON object, ``streamed`` the same answer as server-sent events. Usage is the same for every answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

INPUT, CACHED, WRITTEN, OUTPUT, REASONING = 1000, 100, 11, 50, 7
"""Of the 1000 tokens of input 100 come from a cache; of the 50 of output 7 are reasoning; 11 go to a cache."""


@dataclass(frozen=True)
class Past:
    kind: Literal["call", "text", "result"]
    text: str


@dataclass(frozen=True)
class Answer:
    """A tool call, or text. Ids are unique across restarts: clients drop what they have seen. ``others``: arguments of
    further calls of the same tool (Chat Completions only)."""

    text: str = ""
    tool: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    others: tuple[dict[str, Any], ...] = ()
    id: str = field(default_factory=lambda: uuid4().hex[:20])


Schema = dict[str, Any]
Event = tuple[str | None, Any]


def text_of(content: Any) -> str:
    """Return the text of content that may be nested."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text_of(part) for part in content)
    return text_of(content.get("text") or content.get("content") or json.dumps(content)) if content else ""


class Responses:
    """OpenAI Responses."""

    def tools(self, body: Any) -> dict[str, Schema]:
        flat = [inner for tool in body.get("tools") or [] for inner in tool.get("tools") or [tool]]
        return {tool.get("name") or tool["type"]: tool.get("parameters") or {} for tool in flat}

    def history(self, body: Any) -> Iterator[Past]:
        for item in body["input"] if isinstance(body.get("input"), list) else []:
            kind = item.get("type", "message")
            if kind.endswith("_call"):
                yield Past("call", str(item.get("arguments") or item.get("action")))
            elif kind.endswith("_call_output"):
                yield Past("result", text_of(item.get("output")))
            elif kind == "message" and item.get("role") == "assistant":
                yield Past("text", text_of(item.get("content")))

    def item(self, answer: Answer) -> Any:
        if answer.tool:
            arguments = json.dumps(answer.arguments)
            return {"type": "function_call", "id": f"fc_{answer.id}", "call_id": f"call_{answer.id}",
                    "name": answer.tool, "arguments": arguments, "status": "completed"}  # fmt: skip
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        return {"type": "message", "id": f"msg_{answer.id}", "role": "assistant", "status": "completed",
                "content": content}  # fmt: skip

    def plain(self, model: str, answer: Answer) -> Any:
        usage = {"input_tokens": INPUT, "input_tokens_details": {"cached_tokens": CACHED}, "output_tokens": OUTPUT,
                 "output_tokens_details": {"reasoning_tokens": REASONING}, "total_tokens": INPUT + OUTPUT}  # fmt: skip
        return {"id": f"resp_{answer.id}", "object": "response", "created_at": 0, "model": model,
                "status": "completed", "output": [self.item(answer)], "usage": usage}  # fmt: skip

    def streamed(self, model: str, answer: Answer) -> Iterator[Event]:
        whole, item = self.plain(model, answer), self.item(answer)
        begun = {key: value for key, value in whole.items() if key != "usage"} | {"status": "in_progress", "output": []}
        empty = {"arguments": ""} if answer.tool else {"content": []}
        at = {"item_id": item["id"], "output_index": 0}
        yield self._event("response.created", response=begun)
        yield self._event("response.output_item.added", output_index=0, item=item | {"status": "in_progress"} | empty)
        if answer.tool:
            yield self._event("response.function_call_arguments.delta", **at, delta=item["arguments"])
            yield self._event("response.function_call_arguments.done", **at, arguments=item["arguments"])
        else:
            part = {"type": "output_text", "text": "", "annotations": []}
            yield self._event("response.content_part.added", **at, content_index=0, part=part)
            yield self._event("response.output_text.delta", **at, content_index=0, delta=answer.text)
            yield self._event("response.output_text.done", **at, content_index=0, text=answer.text)
        yield self._event("response.output_item.done", output_index=0, item=item)
        yield self._event("response.completed", response=whole)

    def _event(self, kind: str, **data: Any) -> Event:
        return kind, {"type": kind, **data}


class Messages:
    """Anthropic Messages."""

    def tools(self, body: Any) -> dict[str, Schema]:
        return {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or []}

    def history(self, body: Any) -> Iterator[Past]:
        for message in body.get("messages") or []:
            content = message["content"]
            for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
                if block["type"] == "tool_use":
                    yield Past("call", json.dumps(block["input"]))
                elif block["type"] == "tool_result":
                    yield Past("result", text_of(block.get("content")))
                elif block["type"] == "text" and message["role"] == "assistant":
                    yield Past("text", block["text"])

    def plain(self, model: str, answer: Answer) -> Any:
        block: Any = {"type": "text", "text": answer.text}
        if answer.tool:
            block = {"type": "tool_use", "id": f"toolu_{answer.id}", "name": answer.tool, "input": answer.arguments}
        usage = {"input_tokens": INPUT - CACHED, "cache_creation_input_tokens": WRITTEN,
                 "cache_read_input_tokens": CACHED, "output_tokens": OUTPUT}  # fmt: skip
        return {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "model": model, "content": [block],
                "stop_reason": "tool_use" if answer.tool else "end_turn", "stop_sequence": None,
                "usage": usage}  # fmt: skip

    def streamed(self, model: str, answer: Answer) -> Iterator[Event]:
        whole = self.plain(model, answer)
        (block,) = whole["content"]
        begun = whole | {"content": [], "stop_reason": None, "usage": whole["usage"] | {"output_tokens": 1}}
        yield self._event("message_start", message=begun)
        if answer.tool:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
            yield self._event("content_block_start", index=0, content_block=block | {"input": {}})
        else:
            delta = {"type": "text_delta", "text": answer.text}
            yield self._event("content_block_start", index=0, content_block=block | {"text": ""})
        yield self._event("content_block_delta", index=0, delta=delta)
        yield self._event("content_block_stop", index=0)
        stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield self._event("message_delta", delta=stop, usage=whole["usage"])
        yield self._event("message_stop")

    def _event(self, kind: str, **data: Any) -> Event:
        return kind, {"type": kind, **data}


class Chat:
    """OpenAI Chat Completions."""

    def tools(self, body: Any) -> dict[str, Schema]:
        functions = [tool["function"] for tool in body.get("tools") or [] if "function" in tool]
        return {function["name"]: function.get("parameters") or {} for function in functions}

    def history(self, body: Any) -> Iterator[Past]:
        for message in body.get("messages") or []:
            if message["role"] == "tool":
                yield Past("result", text_of(message.get("content")))
            elif message["role"] == "assistant" and message.get("tool_calls"):
                yield from (Past("call", call["function"]["arguments"]) for call in message["tool_calls"])
            elif message["role"] == "assistant":
                yield Past("text", text_of(message.get("content")))

    def calls(self, answer: Answer) -> list[Any]:
        functions = [
            {"name": answer.tool, "arguments": json.dumps(arguments)}
            for arguments in (answer.arguments, *answer.others)
        ]
        return [
            {"id": f"call_{answer.id}{number or ''}", "type": "function", "function": function}
            for number, function in enumerate(functions)
        ]

    def usage(self) -> Any:
        return {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT,
                "prompt_tokens_details": {"cached_tokens": CACHED},
                "completion_tokens_details": {"reasoning_tokens": REASONING}}  # fmt: skip

    def plain(self, model: str, answer: Answer) -> Any:
        message: Any = {"role": "assistant", "content": None if answer.tool else answer.text}
        if answer.tool:
            message["tool_calls"] = self.calls(answer)
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if answer.tool else "stop"}
        return {"id": f"chatcmpl-{answer.id}", "object": "chat.completion", "created": 0, "model": model,
                "choices": [choice], "usage": self.usage()}  # fmt: skip

    def streamed(self, model: str, answer: Answer) -> Iterator[Event]:
        def chunk(choices: list[Any], **more: Any) -> Event:
            return None, {"id": f"chatcmpl-{answer.id}", "object": "chat.completion.chunk", "created": 0,
                          "model": model, "choices": choices, **more}  # fmt: skip

        calls = [{"index": number, **call} for number, call in enumerate(self.calls(answer))]
        content = {"tool_calls": calls} if answer.tool else {"content": answer.text}
        for delta in ({"role": "assistant", "content": ""}, content):
            yield chunk([{"index": 0, "delta": delta, "finish_reason": None}])
        yield chunk([{"index": 0, "delta": {}, "finish_reason": "tool_calls" if answer.tool else "stop"}])
        yield chunk([], usage=self.usage())
        yield None, "[DONE]"


class Gemini:
    """Gemini generateContent."""

    def tools(self, body: Any) -> dict[str, Schema]:
        functions = [function for tool in body.get("tools") or [] for function in tool.get("functionDeclarations", [])]
        return {
            function["name"]: function.get("parametersJsonSchema") or function.get("parameters") or {}
            for function in functions
        }

    def history(self, body: Any) -> Iterator[Past]:
        for content in body.get("contents") or []:
            for part in content.get("parts") or []:
                if "functionCall" in part:
                    yield Past("call", json.dumps(part["functionCall"].get("args")))
                elif "functionResponse" in part:
                    yield Past("result", text_of(part["functionResponse"]["response"].get("output")))
                elif content.get("role") == "model" and part.get("text") and not part.get("thought"):
                    yield Past("text", part["text"])

    def plain(self, model: str, answer: Answer) -> Any:
        part: Any = {"text": answer.text}
        if answer.tool:
            part = {"functionCall": {"id": f"fc{answer.id}", "name": answer.tool, "args": answer.arguments}}
        usage = {"promptTokenCount": INPUT, "candidatesTokenCount": OUTPUT, "cachedContentTokenCount": CACHED,
                 "thoughtsTokenCount": REASONING, "totalTokenCount": INPUT + OUTPUT + REASONING}  # fmt: skip
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": answer.id}

    def streamed(self, model: str, answer: Answer) -> Iterator[Event]:
        yield None, self.plain(model, answer)


Format = Responses | Messages | Chat | Gemini


def format_of(path: str) -> Format | None:
    if re.fullmatch(r"/v1(beta)?/models/[^/]+enerateContent", path):
        return Gemini()
    ends: dict[str, Format] = {"/responses": Responses(), "/chat/completions": Chat(), "/v1/messages": Messages()}
    return next((wire for end, wire in ends.items() if path.endswith(end) and "/v1/v1/" not in path), None)
