"""Unified diff of two checkpoints, of bounded length and made in bounded time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path
from typing import Final

from evopolicygym.analysis.edits.bundle import MAX_CHECKPOINT_BYTES, POLICY
from evopolicygym.analysis.work_limit import WorkLimit
from evopolicygym.files import file_digests, list_files, read_file
from evopolicygym.report.text import short

MAX_LINES: Final = 160
MAX_CHARACTERS: Final = 200
MAX_BYTES: Final = 256 << 10
MAX_FILES: Final = 4_000  # of a checkpoint
MAX_DEPTH: Final = 16
MATCHED_LINES: Final = 400  # difflib is at least quadratic; longer changes are not matched
MATCH_COST: Final = 200  # comparisons of an edit size that matching a pair of lines takes as long as
CONTEXT: Final = 3

Opcode = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class CheckpointFile:
    """A file of a checkpoint. Equal digests mean equal contents; a file that cannot be read has none."""

    folder: Path
    path: str
    digest: str | None

    def lines(self, work: WorkLimit) -> list[str] | None:
        """Return the lines; None when the file is too large to show, or not text."""
        try:
            data = read_file(self.folder, self.path, min(MAX_BYTES, work.bytes_left))
        except OSError:
            data = b"\0"
        if not work.read(len(data)):
            return None
        return None if b"\0" in data else data.decode(errors="replace").removesuffix("\n").split("\n")


Tree = Mapping[str, CheckpointFile]


@dataclass(frozen=True)
class DiffLine:
    """One line. ``kind``: add, delete, same, or head for file names and positions."""

    kind: str
    text: str


@dataclass(frozen=True)
class Diff:
    """Lines of a diff; ``cut`` if there were more."""

    lines: tuple[DiffLine, ...]
    cut: bool


def read_tree(folder: Path, work: WorkLimit | None = None) -> Tree | None:
    """Return the files of a checkpoint by path; None when the folder is missing, cannot be a checkpoint, or is beyond
    the limit of the run."""
    work = work or WorkLimit()
    try:
        names = list_files(folder.parent, folder.name, MAX_FILES, MAX_DEPTH)
    except OSError:
        return None
    if not work.read(_size(folder, names), len(names)):
        return None
    digests = file_digests(folder, names, MAX_CHECKPOINT_BYTES)
    return {name: CheckpointFile(folder, name, digest) for name, digest in digests.items()}


def _size(folder: Path, names: Sequence[str]) -> int:
    """Return how many bytes of a checkpoint are read at most."""
    total = 0
    for name in names:
        with suppress(OSError):
            total += os.lstat(folder / name).st_size
    return min(total, MAX_CHECKPOINT_BYTES)


def diff(before: Tree, after: Tree, work: WorkLimit | None = None) -> Diff:
    """Return the differences between two checkpoints, policy.py first."""
    lines = list(islice(_all_lines(before, after, work or WorkLimit()), MAX_LINES + 1))
    shown = (DiffLine(line.kind, short(line.text, MAX_CHARACTERS)) for line in lines[:MAX_LINES])
    return Diff(tuple(shown), len(lines) > MAX_LINES)


def _all_lines(before: Tree, after: Tree, work: WorkLimit) -> Iterator[DiffLine]:
    """Yield all lines; policy.py comes first."""
    for path in sorted(before.keys() | after.keys(), key=lambda name: (name != POLICY, name)):
        old, new = before.get(path), after.get(path)
        if old is None or new is None or old.digest is None or old.digest != new.digest:
            yield DiffLine("head", f"--- {path if old else 'nothing'}")
            yield DiffLine("head", f"+++ {path if new else 'nothing'}")
            yield from _changes(old.lines(work) if old else [], new.lines(work) if new else [], work)


def _changes(before: list[str] | None, after: list[str] | None, work: WorkLimit) -> Iterator[DiffLine]:
    if before is None or after is None:
        yield DiffLine("head", "(binary, or too large to show)")
    elif before == after:
        yield DiffLine("head", "(no line differs)")
    else:
        yield from _hunks(before, after, work)


def _hunks(before: list[str], after: list[str], work: WorkLimit) -> Iterator[DiffLine]:
    for hunk in _grouped(_opcodes(before, after, work)):
        (_, i1, _, j1, _), (_, _, i2, _, j2) = hunk[0], hunk[-1]
        yield DiffLine("head", f"@@ -{i1 + (i2 > i1)},{i2 - i1} +{j1 + (j2 > j1)},{j2 - j1} @@")
        for tag, a, b, c, d in hunk:
            if tag == "equal":
                yield from (DiffLine("same", f" {text}") for text in before[a:b])
            else:
                yield from (DiffLine("delete", f"-{text}") for text in before[a:b])
                yield from (DiffLine("add", f"+{text}") for text in after[c:d])


def _opcodes(before: list[str], after: list[str], work: WorkLimit) -> list[Opcode]:
    """Match lines. The common start and end are cut off first, so that only the middle is matched."""
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    i, j = len(before) - end, len(after) - end
    codes: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    codes += [
        (tag, start + a, start + b, start + c, start + d)
        for tag, a, b, c, d in _middle(before[start:i], after[start:j], work)
    ]
    return codes + ([("equal", i, len(before), j, len(after))] if end else [])


def _middle(before: list[str], after: list[str], work: WorkLimit) -> Sequence[Opcode]:
    is_long = max(len(before), len(after)) > MATCHED_LINES
    if is_long or not work.compare(MATCH_COST * len(before) * len(after)):
        return [("replace", 0, len(before), 0, len(after))]
    return SequenceMatcher(None, before, after).get_opcodes()


def _common(before: Sequence[str], after: Sequence[str]) -> int:
    pairs = enumerate(zip(before, after, strict=False))
    return next((i for i, (old, new) in pairs if old != new), min(len(before), len(after)))


def _grouped(codes: list[Opcode]) -> Iterator[list[Opcode]]:
    """Group changes with a few lines of context, as difflib does."""
    matcher: SequenceMatcher[str] = SequenceMatcher(None, [], [])
    matcher.opcodes = codes  # type: ignore[attr-defined]
    yield from matcher.get_grouped_opcodes(CONTEXT) if any(code[0] != "equal" for code in codes) else ()
