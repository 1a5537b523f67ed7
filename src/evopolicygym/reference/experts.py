"""Experts: one known-good score for each task, on the paper's held-out cases.

The file is written by `python benchmarks/experts.py` from measurements through the jail. The policies do not ship: an
agent must not find them."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final, Literal

from evopolicygym.config import parse_toml, to_toml
from evopolicygym.record_types import Count, Hash, RecordModel

FILE: Final = "experts.toml"
COMMENT: Final = "Written by `python benchmarks/experts.py`; do not edit."


class Expert(RecordModel):
    """The best policy that was measured. ``source``: a hand-written policy (`oracle`) or a trained one (`curve`).
    ``policy``: hash of its folder. ``command`` repeats the measurement, or the training. ``optimum``: the best possible
    score with knowledge of everything hidden, where it was computed."""

    source: Literal["oracle", "curve"]
    score: float
    policy: Hash
    cases: Count
    failed: Count
    isolation: str
    comparable_id: str
    evopolicygym: str
    command: str
    optimum: float | None = None


def dump_experts(experts: dict[str, Expert]) -> str:
    """Return the file, in the order of the given tasks."""
    return to_toml({"tasks": {task: expert.model_dump(exclude_none=True) for task, expert in experts.items()}}, COMMENT)


@cache
def stored_experts() -> dict[str, Expert]:
    """Return the experts that ship with the package, by task."""
    document = parse_toml((resources.files("evopolicygym.reference") / FILE).read_text())
    return {task: Expert.model_validate(row) for task, row in document["tasks"].items()}
