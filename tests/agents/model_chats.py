"""Small clients of the four APIs that hold a conversation with the scripted model and return its exchanges.

Each keeps its history as a real client does: it repeats all of it in every request, with the system prompt and the
tools. The command of a tool call is not run; ``result`` says what came of it.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from scripted_model import ScriptedModel

from evopolicygym.agents.usage import Usage
from evopolicygym.gateway.exchange import Exchange, ModelApi

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
SYSTEM = "You are a careful programmer. Improve system/policy.py."
APIS = (ModelApi.ANTHROPIC_MESSAGES, ModelApi.OPENAI_RESPONSES, ModelApi.OPENAI_CHAT, ModelApi.GEMINI)
KEY = "sk-real-key-0123456789abcdef"
Result = Callable[[str], str]


class ModelChat:
    """A conversation over one API. ``history`` has items in the form of that API."""

    def __init__(self, model: ScriptedModel, api: ModelApi, streams: bool = True, system: str = SYSTEM) -> None:
        self.url, self.api, self.streams, self.system = urlsplit(model.url), api, streams, system
        self.history: list[Any] = []
        self.exchanges: list[Exchange] = []
        self.has_tools = True

    def prompt(self, text: str, result: Result = lambda command: f"ran {command}") -> str:
        """Ask, run tools, and ask again until the model answers with text. Return that."""
        self.history.append(user_item(self.api, text))
        while True:
            answer = self.ask()
            items, call, reply = read_answer(self.api, answer)
            self.history += items
            if call is None:
                return reply
            identity, command = call
            self.history.append(result_item(self.api, identity, result(command)))

    def ask(self) -> Any:
        """Send the history once, record the exchange, and return the answer as one JSON object."""
        body = json.dumps(request_body(self)).encode()
        started, clock = time.time(), time.monotonic()
        connection = http.client.HTTPConnection(self.url.hostname or "", self.url.port)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
        connection.request("POST", target(self), body, headers)
        response = connection.getresponse()
        try:
            data, is_complete = response.read(), True
        except http.client.IncompleteRead as error:
            data, is_complete = error.partial, False
        took = time.monotonic() - clock
        self.exchanges.append(
            Exchange(len(self.exchanges) + 1, 1, self.api, "POST", target(self), headers, body, response.status,
                     dict(response.getheaders()), data, is_complete, started, took / 2, took, model="scripted",
                     usage=Usage(fresh_input=900, cache_read=100, output=50, reasoning=7, source="gateway"))
        )  # fmt: skip
        connection.close()
        return join(self.api, data) if response.status == 200 and is_complete else None


def target(chat: ModelChat) -> str:
    method = "streamGenerateContent?alt=sse" if chat.streams else "generateContent"
    return {
        ModelApi.ANTHROPIC_MESSAGES: "/v1/messages?beta=true",
        ModelApi.OPENAI_RESPONSES: "/v1/responses",
        ModelApi.OPENAI_CHAT: "/v1/chat/completions",
        ModelApi.GEMINI: f"/v1beta/models/gemini-2.5-pro:{method}",
    }[chat.api]


def request_body(chat: ModelChat) -> dict[str, Any]:
    tool = {"name": "bash", "description": "Run a command."}
    if chat.api is ModelApi.ANTHROPIC_MESSAGES:
        body: dict[str, Any] = {"model": "claude-scripted", "max_tokens": 1000, "messages": chat.history,
                                "system": [{"type": "text", "text": chat.system}]}  # fmt: skip
        tools: Any = [tool | {"input_schema": SCHEMA}]
    elif chat.api is ModelApi.OPENAI_RESPONSES:
        body = {"model": "gpt-scripted", "instructions": chat.system, "input": chat.history, "store": False}
        tools = [tool | {"type": "function", "parameters": SCHEMA}]
    elif chat.api is ModelApi.OPENAI_CHAT:
        body = {"model": "scripted", "messages": [{"role": "system", "content": chat.system}, *chat.history]}
        tools = [{"type": "function", "function": tool | {"parameters": SCHEMA}}]
    else:
        body = {"contents": chat.history, "systemInstruction": {"parts": [{"text": chat.system}]}}
        tools = [{"functionDeclarations": [tool | {"parametersJsonSchema": SCHEMA}]}]
    if chat.has_tools:
        body["tools"] = tools
    return body | ({} if chat.api is ModelApi.GEMINI else {"stream": chat.streams})


def user_item(api: ModelApi, text: str) -> Any:
    if api is ModelApi.OPENAI_RESPONSES:
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    if api is ModelApi.GEMINI:
        return {"role": "user", "parts": [{"text": text}]}
    return {"role": "user", "content": text}


def result_item(api: ModelApi, identity: str, text: str) -> Any:
    if api is ModelApi.ANTHROPIC_MESSAGES:
        content = [{"type": "tool_result", "tool_use_id": identity, "content": [{"type": "text", "text": text}]}]
        return {"role": "user", "content": content}
    if api is ModelApi.OPENAI_RESPONSES:
        return {"type": "function_call_output", "call_id": identity, "output": text}
    if api is ModelApi.OPENAI_CHAT:
        return {"role": "tool", "tool_call_id": identity, "content": text}
    response = {"id": identity, "name": "bash", "response": {"output": text}}
    return {"role": "user", "parts": [{"functionResponse": response}]}


def read_answer(api: ModelApi, answer: Any) -> tuple[list[Any], tuple[str, str] | None, str]:
    """Return the items for the history, the tool call (id, command) if there is one, and the text."""
    if api is ModelApi.ANTHROPIC_MESSAGES:
        (block,) = answer["content"]
        items = [{"role": "assistant", "content": [block]}]
        call = (block["id"], block["input"]["command"]) if block["type"] == "tool_use" else None
        return items, call, block.get("text", "")
    if api is ModelApi.OPENAI_RESPONSES:
        (item,) = answer["output"]
        is_call = item["type"] == "function_call"
        call = (item["call_id"], json.loads(item["arguments"])["command"]) if is_call else None
        return [item], call, "" if is_call else item["content"][0]["text"]
    if api is ModelApi.OPENAI_CHAT:
        message = answer["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        call = (calls[0]["id"], json.loads(calls[0]["function"]["arguments"])["command"]) if calls else None
        return [message], call, message.get("content") or ""
    content = answer["candidates"][0]["content"]
    (part,) = content["parts"]
    use = part.get("functionCall")
    return [content], (use["id"], use["args"]["command"]) if use else None, part.get("text", "")


def join(api: ModelApi, data: bytes) -> Any:
    """Join a streamed answer of the scripted model, which sends each text in one piece."""
    if not data.startswith((b"data:", b"event:")):
        return json.loads(data)
    lines = [line.removeprefix(b"data: ") for line in data.splitlines() if line.startswith(b"data:")]
    events = [json.loads(line) for line in lines if line != b"[DONE]"]
    if api is ModelApi.OPENAI_RESPONSES:
        return events[-1]["response"]
    if api is ModelApi.GEMINI:
        return events[0]
    if api is ModelApi.OPENAI_CHAT:
        return {"choices": [{"message": _chat_message(events)}]}
    block, delta = events[1]["content_block"], events[2]["delta"]
    if block["type"] == "text":
        return {"content": [block | {"text": delta["text"]}]}
    return {"content": [block | {"input": json.loads(delta["partial_json"])}]}


def _chat_message(events: Sequence[Any]) -> Any:
    delta = events[1]["choices"][0]["delta"]
    calls = [{name: value for name, value in call.items() if name != "index"} for call in delta.get("tool_calls", [])]
    message = {"role": "assistant", "content": delta.get("content")}
    return message | ({"tool_calls": calls} if calls else {})
