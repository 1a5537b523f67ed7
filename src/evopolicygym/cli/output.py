"""How commands speak: data on stdout, talk on stderr, JSON when asked for."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

talk = Console(stderr=True, highlight=False, soft_wrap=True)
data = Console(highlight=False, soft_wrap=True)


def tame(text: str) -> str:
    """Text of a policy, safe for a terminal: its control characters are shown, not obeyed."""
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, allow_nan=False))
