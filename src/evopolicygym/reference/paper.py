"""What the paper printed. One copy, in paper.toml."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from evopolicygym.errors import UserError
from evopolicygym.run_record import RecordModel

RANDOM: Final = "random"
BUDGET: Final = 128
VALIDATION_CASES: Final = 16
HELDOUT_CASES: Final = 32
REMEDY: Final = "`evopolicygym reproduce --json` prints a file of the right shape as `input`."

Table = dict[str, dict[str, float]]


class Edits(RecordModel):
    """How many edits there were, and how many of them raised the best validation mean so far."""

    edits: int
    hits: int


class Document(RecordModel):
    """Table 1 is task to entrant to held-out mean; Table 2 is entrant to family; Table 4 is agent to demand to kind of
    edit; Table 8 is task to agent, its means demand to agent."""

    families: dict[str, list[str]]
    demands: dict[str, list[str]]
    table1: Table
    table2: Table
    table4: dict[str, dict[str, dict[str, Edits]]]
    table8: Table
    table8_means: Table


@cache
def _stored() -> dict[str, Any]:
    return tomllib.loads((resources.files("evopolicygym.reference") / "paper.toml").read_text())


@cache
def document() -> Document:
    return Document.model_validate(_stored())


def load(path: Path) -> Document:
    """A file of the same shape, TOML or JSON. Tables that it lacks are the paper's."""
    try:
        text = path.read_text()
        given = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        return Document.model_validate({**_stored(), **given})
    except (OSError, ValueError, TypeError) as error:  # ValidationError and both decoders' errors are ValueErrors
        raise UserError(f"{path}: {_first_line(error)}", REMEDY) from error


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return str(error)


def published() -> Table:
    """Table 1: task id to entrant to held-out mean."""
    return document().table1


def best_agent(task: str) -> str:
    """Who is highest in Table 1. The random policy is no agent."""
    row = published()[task]
    return max((name for name in row if name != RANDOM), key=row.__getitem__)


def families() -> dict[str, tuple[str, ...]]:
    return {name: tuple(tasks) for name, tasks in document().families.items()}


def demands() -> dict[str, tuple[str, ...]]:
    return {name: tuple(tasks) for name, tasks in document().demands.items()}


def core16() -> tuple[str, ...]:
    return tuple(published())
