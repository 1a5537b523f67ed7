"""What the paper published for a task, to stand beside a score measured on the same cases."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Final

from evopolicygym.tasks.splits import Split

HELDOUT_CASES: Final = tuple(range(32))


@cache
def published() -> dict[str, dict[str, float]]:
    """Task id to entrant to held-out mean."""
    text = (resources.files("evopolicygym.tasks") / "core16" / "paper.toml").read_text()
    return tomllib.loads(text)


def same_cases(splits_id: str, split: Split, indices: tuple[int, ...]) -> bool:
    """Whether a score was measured on the cases of the published rows, so that the two may share a line."""
    return splits_id == "paper" and split is Split.HELDOUT and indices == HELDOUT_CASES
