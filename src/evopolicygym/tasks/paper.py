"""Whether a score was measured on the cases of the paper's rows, so that the two may share a line."""

from __future__ import annotations

from evopolicygym.reference.paper import HELDOUT_CASES
from evopolicygym.tasks.splits import Split


def same_cases(splits_id: str, split: Split, indices: tuple[int, ...]) -> bool:
    return is_from_its_list(splits_id, split, indices) and indices == tuple(range(HELDOUT_CASES))


def is_from_its_list(splits_id: str, split: Split, indices: tuple[int, ...]) -> bool:
    """Whether all cases are among those of the paper's rows."""
    return splits_id == "paper" and split is Split.HELDOUT and set(indices) <= set(range(HELDOUT_CASES))
