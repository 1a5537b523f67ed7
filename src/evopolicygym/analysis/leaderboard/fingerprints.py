"""What two scores have in common before they share a table, and what they differ in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Fingerprint = Mapping[str, Any]
OF_THE_TASK: Final = frozenset(
    {
        "task",
        "env",
        "task_version",
        "horizon",
        "failure_return",
        "limits",
        "packages",
        "pygame",
        "env_options",
        "sources",
    }
)
OF_THE_MACHINE: Final = "on"
ABSENT: Final = "nothing"


def conditions(fingerprint: Fingerprint) -> dict[str, Any]:
    """What is the same for all tasks of one table: protocol, splits, budget and the like."""
    left_out = OF_THE_TASK | {OF_THE_MACHINE}
    return {name: value for name, value in fingerprint.items() if name not in left_out}


def differences(this: Fingerprint, other: Fingerprint) -> list[str]:
    """``budget: 64, not 128``, for whatever can move a score. The machine moves only last bits."""
    mine, theirs = (dict(_flat(facts)) for facts in (this, other))
    names = [name for name in {**mine, **theirs} if name.split(".")[0] != OF_THE_MACHINE]
    pairs = [(name, mine.get(name, ABSENT), theirs.get(name, ABSENT)) for name in names]
    return [f"{name}: {here}, not {there}" for name, here, there in pairs if here != there]


def _flat(facts: Fingerprint, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
