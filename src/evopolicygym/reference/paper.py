"""What the paper printed. One copy, in paper.toml."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any, Final

RANDOM: Final = "random"
BUDGET: Final = 128
VALIDATION_CASES: Final = 16
HELDOUT_CASES: Final = 32


@cache
def document() -> dict[str, Any]:
    """Everything stored: families, demands and tables 1, 2, 4 and 8."""
    return tomllib.loads((resources.files("evopolicygym.reference") / "paper.toml").read_text())


def published() -> dict[str, dict[str, float]]:
    """Table 1: task id to entrant to held-out mean."""
    rows: dict[str, dict[str, float]] = document()["table1"]
    return rows


def best_agent(task: str) -> str:
    """Who is highest in Table 1. The random policy is no agent."""
    row = published()[task]
    return max((name for name in row if name != RANDOM), key=row.__getitem__)


def families() -> dict[str, tuple[str, ...]]:
    return {name: tuple(tasks) for name, tasks in document()["families"].items()}


def demands() -> dict[str, tuple[str, ...]]:
    return {name: tuple(tasks) for name, tasks in document()["demands"].items()}


def core16() -> tuple[str, ...]:
    return tuple(published())
