"""Kinds and sizes of edits. An edit is what changed between two consecutive score-bearing submissions.

The size of an edit is the share of lines of the bundle that were added or deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from evopolicygym.analysis.edits.bundle import MAX_CHECKPOINT_BYTES, MAX_SOURCE_BYTES, source_lines
from evopolicygym.analysis.edits.versions import CanonicalFacts
from evopolicygym.analysis.work_limit import WorkLimit
from evopolicygym.files import read_file
from evopolicygym.run_record import Code

Lines = list[bytes]
MAX_SHARED_LINES: Final = 20_000  # of a comparison, whose time is quadratic
MAX_FILES: Final = 4_000  # of a checkpoint
STATEMENT_COST: Final = 40  # pairs of lines that comparing a statement with all of another version takes as long as


class EditKind(StrEnum):
    """Kind of an event in a run. The first seven are edits, in the order in which `classify` tries them."""

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
    EditKind.SYNTHESIS,
    EditKind.PARAMETRIC,
    EditKind.ROLLBACK,
    EditKind.COSMETIC,
    EditKind.DATA,
    EditKind.RETEST,
    EditKind.UNKNOWN,
)
# The paper's Table 4 has these two. It counts rollbacks and retests elsewhere, and does not have the others.
PAPER_EDITS: Final = (EditKind.SYNTHESIS, EditKind.PARAMETRIC)


@dataclass(frozen=True)
class Version:
    """A checkpoint with the facts about its source."""

    checkpoint: str
    code: Code


def classify(before: Version, after: Version, seen: Set[str]) -> EditKind:
    """Return the kind of an edit. ``seen``: topologies of all score-bearing submissions so far."""
    if after.checkpoint == before.checkpoint:
        return EditKind.RETEST
    if after.code.bundle_hash == before.code.bundle_hash:
        return EditKind.DATA
    if after.code.topology is None or before.code.topology is None:
        return EditKind.UNKNOWN
    if after.code.tree == before.code.tree:
        return EditKind.COSMETIC
    if after.code.topology == before.code.topology:
        return EditKind.PARAMETRIC
    return EditKind.ROLLBACK if after.code.topology in seen else EditKind.SYNTHESIS


class CanonicalKind(StrEnum):
    """Kind of an edit by what it changes of the program itself, in the order in which `EarlierVersions` tries them.
    Names, order of definitions, unused code and formatting are no part of it, and numbers in data files are constants.

    ``exact``: the program of an earlier submission again. ``revisited``: the structure of an earlier submission, or
    nearly so, with other constants. ``data``: other structure of the data that the same code reads.
    """

    RETEST = "retest"
    UNKNOWN = "unknown"
    COSMETIC = "cosmetic"
    EXACT = "exact"
    PARAMETRIC = "parametric"
    REVISITED = "revisited"
    DATA = "data"
    SYNTHESIS = "synthesis"


CANONICAL_EDITS: Final = (
    CanonicalKind.SYNTHESIS,
    CanonicalKind.PARAMETRIC,
    CanonicalKind.EXACT,
    CanonicalKind.REVISITED,
    CanonicalKind.COSMETIC,
    CanonicalKind.DATA,
    CanonicalKind.RETEST,
    CanonicalKind.UNKNOWN,
)


CANONICAL_RATES: Final = (CanonicalKind.SYNTHESIS, CanonicalKind.PARAMETRIC)


@dataclass(frozen=True)
class CanonicalVersion:
    """A checkpoint with its canonical facts; None where they could not be read."""

    checkpoint: str
    facts: CanonicalFacts | None


@dataclass
class EarlierVersions:
    """The score-bearing versions before an edit. Each distinct program is kept once: a run may have very many
    submissions of a few checkpoints."""

    work: WorkLimit
    last: CanonicalVersion | None = None
    programs: dict[str, Counter[str]] = field(default_factory=dict)  # statements of each
    shapes: set[str] = field(default_factory=set)

    def add(self, version: CanonicalVersion) -> None:
        self.last = version
        if version.facts and version.facts.program not in self.programs:
            self.programs[version.facts.program] = Counter(version.facts.statements)
            self.shapes.add(version.facts.shape)

    def kind(self, after: CanonicalVersion) -> CanonicalKind | None:
        """Return the kind of the edit that leads to ``after``, by the canonical form; None for the first version."""
        if self.last is None:
            return None
        if after.checkpoint == self.last.checkpoint:
            return CanonicalKind.RETEST
        old, new = self.last.facts, after.facts
        if new is None or old is None:
            return CanonicalKind.UNKNOWN
        if new.program == old.program:
            return CanonicalKind.COSMETIC
        if new.program in self.programs:
            return CanonicalKind.EXACT
        if new.shape == old.shape:
            return CanonicalKind.PARAMETRIC
        if new.shape in self.shapes:
            return CanonicalKind.REVISITED
        if new.code_shape == old.code_shape:
            return CanonicalKind.DATA
        return self._kind_by_statements(Counter(new.statements), self.programs[old.program])

    def _kind_by_statements(self, new: Counter[str], old: Counter[str]) -> CanonicalKind:
        """Tell an edit that is small seen from an earlier version, and more than small from the one before, from a
        synthesis."""
        if _distance(new, old) <= SMALL:
            return CanonicalKind.SYNTHESIS
        if not self.work.compare(STATEMENT_COST * (len(new) + 1) * len(self.programs)):
            return CanonicalKind.UNKNOWN
        is_close = any(0 < _distance(new, other) <= SMALL for other in self.programs.values())
        return CanonicalKind.REVISITED if is_close else CanonicalKind.SYNTHESIS


def _distance(ours: Counter[str], theirs: Counter[str]) -> float:
    """Return the share of statements that only one of two versions has."""
    number = ours.total() + theirs.total()
    return 1 - 2 * (ours & theirs).total() / number if number else 1.0


class SizeClass(StrEnum):
    """Class of edit sizes, from unchanged to rewritten; ``BOUNDS`` has the limits."""

    SAME = "same"
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"
    REWRITE = "rewrite"


SMALL: Final = 0.05
BOUNDS: Final = ((SizeClass.SAME, 0.0), (SizeClass.SMALL, SMALL), (SizeClass.MEDIUM, 0.20), (SizeClass.LARGE, 0.50))


def size_class(size: float) -> SizeClass:
    """Return the class of an edit size. A bound belongs to the smaller class."""
    return next((name for name, bound in BOUNDS if size <= bound), SizeClass.REWRITE)


def edit_size(before: Mapping[str, Lines], after: Mapping[str, Lines], work: WorkLimit | None = None) -> float | None:
    """Return (added + deleted) / (before + after) over all files; None when files are too large to compare."""
    total = sum(map(len, (*before.values(), *after.values())))
    kept = [common_lines(before[path], after[path], work) for path in before.keys() & after.keys()]
    if None in kept:
        return None
    return (total - 2 * sum(number or 0 for number in kept)) / total if total else 0.0


def read_lines(folder: Path, paths: list[str], work: WorkLimit) -> dict[str, Lines] | None:
    """Read the lines of a bundle's files; None when one of them is missing, or they are too large together. A forged
    record may name any files, and each many times."""
    lines: dict[str, Lines] = {}
    remaining = MAX_CHECKPOINT_BYTES
    if len(paths) > MAX_FILES or not work.read(0):
        return None
    try:
        for path in dict.fromkeys(paths):
            data = read_file(folder, path, min(MAX_SOURCE_BYTES, remaining))
            lines[path], remaining = source_lines(data), remaining - len(data)
            if not work.read(len(data)):
                return None
    except OSError:
        return None
    return lines


def common_lines(before: Lines, after: Lines, work: WorkLimit | None = None) -> int | None:
    """Return the length of the longest common subsequence of lines; None when there are too many lines."""
    start = _common_start(before, after)
    before, after = before[start:], after[start:]
    end = _common_start(before[::-1], after[::-1])
    before, after = before[: len(before) - end], after[: len(after) - end]
    both = set(before) & set(after)
    before, after = [line for line in before if line in both], [line for line in after if line in both]
    if max(len(before), len(after)) > MAX_SHARED_LINES:
        return None
    if work and not work.compare(len(before) * len(after)):
        return None
    return start + end + _longest_common_subsequence(before, after)


def _common_start(before: Lines, after: Lines) -> int:
    pairs = enumerate(zip(before, after, strict=False))
    return next((number for number, (old, new) in pairs if old != new), min(len(before), len(after)))


def _longest_common_subsequence(before: Lines, after: Lines) -> int:
    """Use Crochemore's bit-parallel algorithm: a column of the table is one integer, so it costs a few additions."""
    positions: dict[bytes, int] = {}
    for number, line in enumerate(before):
        positions[line] = positions.get(line, 0) | 1 << number
    full = (1 << len(before)) - 1
    column = full
    for line in after:
        matches = column & positions[line]
        column = ((column + matches) | (column - matches)) & full
    return len(before) - column.bit_count()
