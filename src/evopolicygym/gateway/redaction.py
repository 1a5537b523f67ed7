"""Keeps keys and credentials out of recordings, and out of the answers that an agent gets.

Before an exchange is recorded, known secrets are replaced by their names wherever they stand, also in the forms in
which they travel (base64 of basic authentication, hexadecimal, percent-encoded, escaped in JSON or HTML) and in the
pieces of a stream. Headers and query parameters that carry credentials lose their values whatever these are. In
answers, a mask as long as the secret replaces it, so that lengths stay true: an echo of a call must not give its key to
the agent.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import quote, quote_plus

from evopolicygym.gateway.exchange import Exchange
from evopolicygym.gateway.recording.rewriting import rewrite_answer

SHORTEST_SECRET: Final = 8  # shorter values are placeholders for servers without keys, and would match everywhere
REMOVED: Final = "[redacted]"
SECRET_HEADER: Final = re.compile(
    r"authorization|cookie|(?:^|-)(?:api-?key|key|token|secret|signature|credential)$|organization|openai-project",
    re.IGNORECASE,
)
SECRET_PARAMETER: Final = re.compile(
    r"([?&](?:[\w.-]*(?:key|token|secret|signature|credential|password)|sig|auth)=)[^&#]*", re.IGNORECASE
)
CREDENTIALS_IN_URL: Final = re.compile(rb"(https?://)[^\s/:@\"'\\<>]{1,256}:[^\s/@\"'\\<>]{1,256}@")
KEY_SHOWN: Final = re.compile(rb"\b(?:sk|key|AIza|gsk|xai)[-_]?[\w*.-]{12,}")  # refusals quote the key they refuse
REFUSALS: Final = frozenset({401, 403})
NOT_IN_HEADERS: Final = re.compile(r"[^\t\x20-\x7e]")


class ExchangeRedactor:
    """Replaces secrets in exchanges. ``secrets``: values by the name that stands in their place."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._names = {value: f"[{name}]" for name, value in secrets.items() if len(value) >= SHORTEST_SECRET}
        forms = {
            form: f"[{name}]".encode()
            for name, value in secrets.items()
            if len(value) >= SHORTEST_SECRET
            for form in secret_forms(value)
        }
        self._forms = sorted(forms.items(), key=lambda item: len(item[0]), reverse=True)

    def exchange(self, exchange: Exchange) -> Exchange:
        """Return the exchange as it may be written to disk."""
        # A streamed answer may have a secret in pieces, one in each event: it would be whole where they are joined.
        answer = self.data(rewrite_answer(exchange.api, exchange.response_body, self._names))
        if exchange.status in REFUSALS:
            answer = KEY_SHOWN.sub(REMOVED.encode(), answer)
        return replace(
            exchange,
            target=self.target(exchange.target),
            request_headers=self.headers(exchange.request_headers),
            request_body=self.data(exchange.request_body),
            response_headers=self.headers(exchange.response_headers),
            response_body=answer,
        )

    def data(self, data: bytes) -> bytes:
        for form, name in self._forms:
            if form in data:
                data = data.replace(form, name)
        return CREDENTIALS_IN_URL.sub(rb"\1%s@" % REMOVED.encode(), data)

    def target(self, target: str) -> str:
        return SECRET_PARAMETER.sub(rf"\g<1>{REMOVED}", self._text(target))

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {name: REMOVED if SECRET_HEADER.search(name) else self.target(value) for name, value in headers.items()}

    def _text(self, text: str) -> str:
        return self.data(text.encode(errors="surrogateescape")).decode(errors="surrogateescape")


class SecretMask:
    """Replaces secrets in answers. ``secrets``: values by the name that replaces them. Short values are placeholders
    and stay as they are."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        masks = {
            form: f"[{name}]".encode().ljust(len(form), b"*")[: len(form)]
            for name, value in secrets.items()
            if len(value) >= SHORTEST_SECRET
            for form in secret_forms(value)
        }
        self._masks = sorted(masks.items(), key=lambda item: len(item[0]), reverse=True)

    def data(self, data: bytes) -> bytes:
        for form, mask in self._masks:
            if form in data:
                data = data.replace(form, mask)
        return data

    def header(self, value: str) -> str:
        """Return a header's value with characters that may be sent on."""
        return self.data(NOT_IN_HEADERS.sub("?", value).encode()).decode()

    async def stream(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield a body piece by piece; an end that may be the beginning of a secret is held back."""
        held = b""
        try:
            async for piece in body:
                data = self.data(held + piece)
                end = len(data) - self._open_end(data)
                held = data[end:]
                if end:
                    yield data[:end]
        except OSError:
            if held:
                yield held
            raise
        finally:
            if isinstance(body, AsyncGenerator):
                await body.aclose()
        if held:
            yield held

    def _open_end(self, data: bytes) -> int:
        """Return how many bytes at the end may be the beginning of a secret."""
        longest = 0
        for form, _ in self._masks:
            start = data.find(form[:1], max(0, len(data) - len(form) + 1))
            while start >= 0 and not form.startswith(data[start:]):
                start = data.find(form[:1], start + 1)
            longest = max(longest, len(data) - start if start >= 0 else 0)
        return longest


def secret_forms(value: str) -> Iterator[bytes]:
    """Yield how a secret is written in bodies, headers and URLs."""
    plain = value.encode(errors="surrogateescape")
    quoted = quote(value, safe="", errors="surrogateescape")
    escaped = json.dumps(value)[1:-1]
    texts = {value, quoted, quote_plus(value, errors="surrogateescape"), quote(quoted, safe=""), escaped}
    texts |= {escaped.replace("/", r"\/"), plain.hex(), plain.hex().upper(), html.escape(value)}
    texts |= {"".join(f"\\u{ord(character):04x}" for character in value), "".join(f"%{byte:02X}" for byte in plain)}
    for text in texts | {re.sub("%..", lambda match: match[0].lower(), text) for text in texts if "%" in text}:
        yield text.encode(errors="surrogateescape")
    for prefix in (b"", b"x", b"xx"):  # behind a user name, base64 depends on the length of what stands before
        begin = -(-4 * len(prefix) // 3)
        for code in (base64.b64encode, base64.urlsafe_b64encode):
            coded = code(prefix + plain).rstrip(b"=")
            yield coded[begin : len(coded) - 1]
