"""Phases: maximal stretches of one kind of edit. What is neither shape nor numbers starts none and breaks none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from evopolicygym.analysis.edits.kinds import Kind
from evopolicygym.analysis.edits.timeline import Event

STRETCHING: Final = (Kind.SYNTHESIS, Kind.PARAMETRIC)


@dataclass(frozen=True)
class Phase:
    """From its first edit to its last, by the numbers of their submissions."""

    kind: Kind
    first: int
    last: int
    edits: int
    hits: int


def phases(events: Iterable[Event]) -> tuple[Phase, ...]:
    """A rollback is a phase of its own, and so is the next."""
    found: list[Phase] = []
    for event in events:
        if event.kind not in (*STRETCHING, Kind.ROLLBACK):
            continue
        if found and found[-1].kind is event.kind and event.kind in STRETCHING:
            last = found.pop()
            found.append(replace(last, last=event.submission, edits=last.edits + 1, hits=last.hits + event.hit))
        else:
            found.append(Phase(event.kind, event.submission, event.submission, 1, int(event.hit)))
    return tuple(found)
