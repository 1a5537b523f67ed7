"""What an edit is: one word for what changed between two consecutive score-bearing submissions."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from evopolicygym.run_record import Code


class Kind(StrEnum):
    """Of an event in a run. The first seven are edits, in the order in which they are tried."""

    RETEST = "retest"
    DATA = "data"
    UNKNOWN = "unknown"
    COSMETIC = "cosmetic"
    PARAMETRIC = "parametric"
    ROLLBACK = "rollback"
    SYNTHESIS = "synthesis"
    FIRST = "first"
    FAILED = "failed"
    UNSCORED = "unscored"
    REFUNDED = "refunded"


EDITS: Final = (
    Kind.SYNTHESIS,
    Kind.PARAMETRIC,
    Kind.ROLLBACK,
    Kind.COSMETIC,
    Kind.DATA,
    Kind.RETEST,
    Kind.UNKNOWN,
)
# The paper's Table 4 knows these two; what it calls rollback and retest it counts apart, the rest it does not know.
PAPER_EDITS: Final = (Kind.SYNTHESIS, Kind.PARAMETRIC)


@dataclass(frozen=True)
class Version:
    """A checkpoint and what its source looks like."""

    checkpoint: str
    code: Code


def classify(before: Version, after: Version, seen: Set[str]) -> Kind:
    """``seen``: topologies of all score-bearing submissions so far. ``unknown`` when a source could not be read."""
    if after.checkpoint == before.checkpoint:
        return Kind.RETEST
    if after.code.bundle_hash == before.code.bundle_hash:
        return Kind.DATA
    if after.code.topology is None or before.code.topology is None:
        return Kind.UNKNOWN
    if after.code.tree == before.code.tree:
        return Kind.COSMETIC
    if after.code.topology == before.code.topology:
        return Kind.PARAMETRIC
    return Kind.ROLLBACK if after.code.topology in seen else Kind.SYNTHESIS
