"""Mask secrets in the answers of a server: an echo of a call must not give its key to the agent.

A mask is as long as the secret, so that lengths stay true. An end of a stream that may begin a secret is held back.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Final

from evopolicygym.gateway.redaction import SHORTEST_SECRET, secret_forms

NOT_IN_HEADERS: Final = re.compile(r"[^\t\x20-\x7e]")


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
