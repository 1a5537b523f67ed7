"""Ask for the usage of streamed Chat Completions, and hide it from clients that did not ask.

The body that is sent is the one that was read: its fields are written anew, each once, so that no server can read
another question in it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from evopolicygym.gateway.bodies import BodyDecoder
from evopolicygym.gateway.exchange import GatewayRequest, ModelApi

APIS: Final = (ModelApi.OPENAI_CHAT, ModelApi.OPENAI_COMPLETIONS)
FIELDS: Final = ("stream", "stream_options", "model")
DECODER: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])  # a tenth of the time of parsing all of it
MAX_EVENT: Final = 1 << 20


class UnclearCall(ValueError):
    """A call whose question for a stream cannot be read. ``status`` is the answer to it."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class UsageQuestion:
    """A call as its client made it, and the same one that asks for its usage; None if it does so already, or does not
    stream. ``model`` is what it asks, as JSON."""

    as_made: GatewayRequest
    asking: GatewayRequest | None = None
    model: bytes = b""


def ask_for_usage(request: GatewayRequest) -> UsageQuestion:
    """Return a call together with the one that asks for its usage, too, if that is needed. Raises UnclearCall."""
    if request.api not in APIS:
        return UsageQuestion(request)
    headers = dict(request.headers)
    fields = _fields(_plain(request.body, headers.pop("content-encoding", "")))
    stream, options = _value(fields, "stream"), _value(fields, "stream_options")
    if not isinstance(stream, bool | None) or not isinstance(options, dict | None):
        raise UnclearCall(400, "`stream` must be true or false, and `stream_options` an object")
    model = bytes(fields.get("model", b""))
    as_made = replace(request, headers=headers, body=msgspec.json.encode(fields))
    if not stream or (options or {}).get("include_usage") is True:
        return UsageQuestion(as_made, model=model)
    fields["stream_options"] = msgspec.Raw(json.dumps({**(options or {}), "include_usage": True}).encode())
    headers = {**headers, "accept-encoding": "identity"}  # the usage is taken out of the answer again
    return UsageQuestion(as_made, replace(as_made, headers=headers, body=msgspec.json.encode(fields)), model)


def _plain(body: bytes, encoding: str) -> bytes:
    decoder = BodyDecoder(encoding)
    plain = b"".join(decoder.decode(body)) if encoding else body
    if not decoder.is_readable:
        raise UnclearCall(413, f"the call's body cannot be decompressed ({encoding[:40]}), or is too large")
    return plain


def _fields(body: bytes) -> dict[str, msgspec.Raw]:
    try:
        fields = DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        fields = _loose_fields(body)
    for name in fields:
        if name not in FIELDS and name.casefold() in FIELDS:  # some servers do not mind the case
            raise UnclearCall(400, f"the field {name!a} is not written in lower case")
    return fields


def _loose_fields(body: bytes) -> dict[str, msgspec.Raw]:
    """Read what only Python takes for JSON: other encodings than UTF-8, NaN, halves of characters."""
    try:
        parsed = json.loads(body)
        return {name: msgspec.Raw(json.dumps(value).encode()) for name, value in parsed.items()}
    except (ValueError, AttributeError, RecursionError):
        raise UnclearCall(400, "the call's body is no JSON object") from None


def _value(fields: dict[str, msgspec.Raw], name: str) -> Any:
    try:
        return json.loads(bytes(fields[name])) if name in fields else None
    except (ValueError, RecursionError):
        raise UnclearCall(400, f"`{name}` cannot be read") from None


class UsageRemover:
    """Takes the event with the usage out of a stream whose client did not ask for it. All others pass as they are."""

    def __init__(self) -> None:
        self._unread = b""

    def feed(self, data: bytes) -> bytes:
        *events, self._unread = re.split(rb"(?<=\n\n)|(?<=\n\r\n)", self._unread + data)
        if len(self._unread) > MAX_EVENT:
            events.append(self._unread)
            self._unread = b""
        return b"".join(event for event in events if not self._is_usage(event))

    def rest(self) -> bytes:
        return b"" if self._is_usage(self._unread) else self._unread

    def _is_usage(self, event: bytes) -> bool:
        if b'"usage"' not in event or not event.startswith(b"data:"):
            return False
        try:
            chunk = json.loads(event[5:])
        except (ValueError, RecursionError):
            return False
        return isinstance(chunk, dict) and chunk.get("choices") == [] and bool(chunk.get("usage"))
