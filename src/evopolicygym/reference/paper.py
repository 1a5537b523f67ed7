"""The numbers that the paper printed, from paper.toml."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from evopolicygym.config import parse_toml
from evopolicygym.errors import UserError
from evopolicygym.files import read_text_file
from evopolicygym.record_types import Count, RecordModel

RANDOM: Final = "random"
BUDGET: Final = 128
VALIDATION_CASES: Final = 16
HELDOUT_CASES: Final = 32
REMEDY: Final = "`evopolicygym reproduce --json` prints a file of the right shape as `input`."

Table = dict[str, dict[str, float]]


class Edits(RecordModel):
    """Number of edits, and of those that raised the best validation mean so far."""

    edits: Count
    hits: Count


class Document(RecordModel):
    """The paper's tables. Table 1: task, entrant, held-out mean. Table 2: entrant, family. Table 3: agent, demand,
    measure of the code. Table 4: agent, demand, kind of edit. Table 8: task, agent; its means: demand, agent."""

    families: dict[str, list[str]]
    demands: dict[str, list[str]]
    table1: Table
    table2: Table
    table3: dict[str, Table]
    table4: dict[str, dict[str, dict[str, Edits]]]
    table8: Table
    table8_means: Table


@cache
def _stored() -> dict[str, Any]:
    return parse_toml((resources.files("evopolicygym.reference") / "paper.toml").read_text())


@cache
def document() -> Document:
    return Document.model_validate(_stored())


def load(path: Path) -> Document:
    """Read a file of the same shape, TOML or JSON. Tables that it lacks are the paper's.

    Raises:
        UserError: The file cannot be read, or has another shape.
    """
    try:
        text = read_text_file(path)
        given = json.loads(text) if path.suffix == ".json" else parse_toml(text)
        return Document.model_validate({**_stored(), **given})
    except (OSError, ValueError, TypeError, RecursionError) as error:  # invalid TOML, JSON or values
        raise UserError(f"{path}: {_first_line(error)}", REMEDY) from error


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return str(error)


def published() -> Table:
    """Return Table 1: held-out means by task id and entrant."""
    return document().table1


def best_agent(task: str) -> str:
    """Return the agent with the highest mean in Table 1, without the random policy."""
    row = published()[task]
    return max((name for name in row if name != RANDOM), key=row.__getitem__)


def families() -> dict[str, tuple[str, ...]]:
    return {name: tuple(tasks) for name, tasks in document().families.items()}


def demands() -> dict[str, tuple[str, ...]]:
    return {name: tuple(tasks) for name, tasks in document().demands.items()}


def core16() -> tuple[str, ...]:
    return tuple(published())
