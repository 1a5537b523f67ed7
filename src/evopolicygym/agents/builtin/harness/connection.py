"""Options, connection and events as JSON lines, which all built-in agents with a model share."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any, Final

from .providers import ChatCompletions, Messages, Provider

PROVIDERS: Final[dict[str, tuple[type[ChatCompletions] | type[Messages], str, str]]] = {
    "openai": (ChatCompletions, "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": (Messages, "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
}


def add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, help="PROVIDER/NAME: openai/... (and compatible) or anthropic/...")
    parser.add_argument("--url", help="address of the provider's API, up to and including /v1")


def connect(
    parser: argparse.ArgumentParser, options: argparse.Namespace, system: str, tools: list[dict[str, Any]]
) -> Provider:
    """Return the model that the options name. Exit with a message if there is none, or no key."""
    name, _, model = options.model.partition("/")
    if name not in PROVIDERS or not model:
        parser.error(f"--model is PROVIDER/NAME with a provider of {', '.join(PROVIDERS)}")
    make, url, variable = PROVIDERS[name]
    key = os.environ.get(variable, "")
    if not key:
        parser.error(f"no API key: the variable {variable} is not set")
    return make((options.url or url).rstrip("/"), key, model, system, tools)


def emit(kind: str, **fields: Any) -> None:
    print(json.dumps({"type": kind, **fields}), flush=True)
