"""Which calls the gateway carries: the paths of model APIs below the base URL, each matched as a whole.

With a key one can do more at a provider (delete files, start trainings, order batches that are paid later), so no other
path passes. A path is decoded once, matched, and sent as it was matched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from evopolicygym.gateway.exchange import ModelApi

# A character that a server may take for another one, or for the end of the path: a fragment, a parameter, a separator.
UNSAFE: Final = re.compile(r"[^\x21-\x7e]|[#\\]|^[^?]*;|^[^?]*%(?:2[ef35]|5c|3b)", re.IGNORECASE)
OVERRIDES: Final = re.compile(r"[?&](?:\$|%24)")  # Google's parameters that change the method or the headers of a call
VERSION: Final = r"(?:/v\d+(?:(?:alpha|beta)\d*)?)?"
NAME: Final = r"(?!\.+(?:/|:|$))[\w.@~-]+"
MODEL: Final = rf"/(?:models|tunedModels)/{NAME}"


def _path(path: str) -> re.Pattern[str]:
    return re.compile(f"{VERSION}(?:{path})", re.ASCII)


POSTED: Final = (
    (_path("/messages"), ModelApi.ANTHROPIC_MESSAGES),
    (_path("/responses(?:/compact)?"), ModelApi.OPENAI_RESPONSES),
    (_path("/chat/completions"), ModelApi.OPENAI_CHAT),
    (_path(rf"{MODEL}:(?:generateContent|streamGenerateContent)"), ModelApi.GEMINI),
    (_path("/completions"), ModelApi.OPENAI_COMPLETIONS),
    (_path("/embeddings"), ModelApi.OPENAI_EMBEDDINGS),
    (_path(rf"{MODEL}:(?:embedContent|batchEmbedContents)"), ModelApi.GEMINI_EMBEDDINGS),
    (_path(rf"/messages/count_tokens|/responses/input_tokens|/tokenize|{MODEL}:countTokens"), ModelApi.TOKEN_COUNTS),
)
LOOKED_UP: Final = _path(rf"/?|/models(?:/(?:{NAME}(?::{NAME})?/){{0,2}}{NAME}(?::{NAME})?)?/?|/model/info|/health")


@dataclass(frozen=True)
class Endpoint:
    """Request of a call. ``target``: path and query below the base URL, as they are sent."""

    api: ModelApi
    target: str


def find_endpoint(method: str, target: str) -> Endpoint | None:
    """Return the endpoint of a call, None for a call that is not carried.

    >>> find_endpoint("POST", "/v1/%63hat/completions").target
    '/v1/chat/completions'
    >>> find_endpoint("POST", "/v1/batches#/chat/completions") is None
    True
    """
    if UNSAFE.search(target) or OVERRIDES.search(target):
        return None
    path, mark, query = target.partition("?")
    path = unquote(path)
    api: ModelApi | None = None
    if method in ("GET", "HEAD"):
        api = ModelApi.OTHER if LOOKED_UP.fullmatch(path) else None
    elif method == "POST":
        api = next((api for pattern, api in POSTED if pattern.fullmatch(path)), None)
    return Endpoint(api, path + mark + query) if api else None
