"""Canonical facts and mechanisms of a run's checkpoints, read in limited child processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from evopolicygym.analysis.edits.versions_child import CPU_S, MAX_LINE, MAX_STATEMENTS
from evopolicygym.analysis.work_limit import WorkLimit
from evopolicygym.files import is_folder
from evopolicygym.sandbox.limited_process import run_limited

MODULE: Final = "evopolicygym.analysis.edits.versions_child"
MAX_FAILURES: Final = 4  # of the reader: after that the rest of a run is unknown
MAX_VERSIONS: Final = 2_000  # of a run: their names are arguments of one command
Digest = Annotated[str, Field(max_length=64)]


class CanonicalFacts(BaseModel):
    """A checkpoint without names, order, unused code and looks. ``program``: hash of its code and data. ``shape``: the
    same without constants. ``code_shape``: that of the code alone. ``statements``: hashes of its statements."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    program: Digest
    shape: Digest
    code_shape: Digest
    statements: Annotated[list[Digest], Field(max_length=MAX_STATEMENTS)]


class Mechanism(BaseModel):
    """A mechanism of a policy with the line that shows it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Annotated[str, Field(max_length=40)]
    file: Annotated[str, Field(max_length=4096)]
    line: Annotated[int, Field(ge=1)]
    text: Annotated[str, Field(max_length=MAX_LINE)]


@dataclass(frozen=True)
class VersionFacts:
    """Canonical facts by checkpoint, of those that could be read; mechanisms of the selected one, None if unknown."""

    canonical: Mapping[str, CanonicalFacts]
    mechanisms: tuple[Mechanism, ...] | None


def version_facts(checkpoints: Path, names: Sequence[str], selected: str | None, work: WorkLimit) -> VersionFacts:
    """Read the checkpoints of a run that are stored and can be read within the limits."""
    if len(names) > MAX_VERSIONS:
        work.note(f"more than {MAX_VERSIONS} checkpoints; the canonical form of the others was not read")
    waiting = [name for name in names[:MAX_VERSIONS] if is_folder(checkpoints, name)]
    read_selected = os.path.abspath(checkpoints / selected) if selected in waiting else ""
    facts: dict[str, CanonicalFacts] = {}
    mechanisms: tuple[Mechanism, ...] | None = None
    for _ in range(MAX_FAILURES):
        if not waiting:
            break
        folders = [os.path.abspath(checkpoints / name) for name in waiting]
        lines = run_limited(MODULE, read_selected, *folders, cpu_s=CPU_S).output.splitlines()
        answered = _valid(lines[: len(waiting)])
        facts |= zip(waiting, answered, strict=False)
        if len(answered) == len(waiting):
            mechanisms = _mechanisms(lines[len(waiting) :])
        waiting = waiting[len(answered) + 1 :]  # without the one that the reader failed at
    return VersionFacts(facts, mechanisms)


def _valid(lines: Iterable[bytes]) -> list[CanonicalFacts]:
    """Return the facts in the lines of an answer, up to the first line that makes no sense."""
    facts: list[CanonicalFacts] = []
    for line in lines:
        try:
            facts.append(CanonicalFacts.model_validate_json(line))
        except ValueError:
            break
    return facts


def _mechanisms(lines: Sequence[bytes]) -> tuple[Mechanism, ...] | None:
    try:
        return tuple(TypeAdapter(list[Mechanism]).validate_json(lines[0])) if lines else None
    except ValueError:
        return None
