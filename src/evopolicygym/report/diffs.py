"""What changed between two checkpoints, as a unified diff of bounded length, made in bounded time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path
from typing import Final

from evopolicygym.analysis.source import read_plain
from evopolicygym.report.text import short

MAX_LINES: Final = 160
MAX_CHARACTERS: Final = 200
MAX_BYTES: Final = 256 << 10
MAX_FILES: Final = 64
MATCHED_LINES: Final = 400  # difflib is quadratic and worse; longer changes are shown as one
CONTEXT: Final = 3

Tree = Mapping[str, bytes | None]
Opcode = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Line:
    """``kind``: add, delete, same, or head for the lines that say where."""

    kind: str
    text: str


@dataclass(frozen=True)
class Diff:
    lines: tuple[Line, ...]
    cut: bool


def read_tree(folder: Path) -> Tree | None:
    """Plain files by path; None for one that is too large or cannot be read. None when there is no folder."""
    if not folder.is_dir():
        return None
    return {path: _bytes(folder / path) for path in sorted(islice(_files(folder), MAX_FILES))}


def diff(before: Tree, after: Tree) -> Diff:
    lines = list(islice(_all_lines(before, after), MAX_LINES + 1))
    shown = (Line(line.kind, short(line.text, MAX_CHARACTERS)) for line in lines[:MAX_LINES])
    return Diff(tuple(shown), len(lines) > MAX_LINES)


def _files(folder: Path) -> Iterator[str]:
    for place, below, names in os.walk(folder):
        below.sort()
        yield from (os.path.relpath(os.path.join(place, name), folder) for name in sorted(names))


def _bytes(path: Path) -> bytes | None:
    try:
        return read_plain(path, MAX_BYTES)
    except OSError:
        return None


def _all_lines(before: Tree, after: Tree) -> Iterator[Line]:
    for path in sorted(before.keys() | after.keys()):
        if path not in before or path not in after or before[path] is None or before[path] != after[path]:
            yield from _file(path, before, after)


def _file(path: str, before: Tree, after: Tree) -> Iterator[Line]:
    yield Line("head", f"--- {path if path in before else 'nothing'}")
    yield Line("head", f"+++ {path if path in after else 'nothing'}")
    texts = [_lines(tree.get(path, b"")) for tree in (before, after)]
    if texts[0] is None or texts[1] is None:
        yield Line("head", "(binary, or too large to show)")
    elif texts[0] == texts[1]:
        yield Line("head", "(only how the last line ends)")
    else:
        yield from _hunks(texts[0], texts[1])


def _lines(data: bytes | None) -> list[str] | None:
    if data is None or b"\0" in data:
        return None
    return data.decode(errors="replace").removesuffix("\n").split("\n") if data else []


def _hunks(before: list[str], after: list[str]) -> Iterator[Line]:
    for hunk in _grouped(_opcodes(before, after)):
        (_, i1, _, j1, _), (_, _, i2, _, j2) = hunk[0], hunk[-1]
        yield Line("head", f"@@ -{i1 + (i2 > i1)},{i2 - i1} +{j1 + (j2 > j1)},{j2 - j1} @@")
        for tag, a, b, c, d in hunk:
            if tag == "equal":
                yield from (Line("same", f" {text}") for text in before[a:b])
            else:
                yield from (Line("delete", f"-{text}") for text in before[a:b])
                yield from (Line("add", f"+{text}") for text in after[c:d])


def _opcodes(before: list[str], after: list[str]) -> list[Opcode]:
    """What both begin and end with is taken off first: only the middle needs to be matched."""
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    i, j = len(before) - end, len(after) - end
    codes: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    codes += [
        (tag, start + a, start + b, start + c, start + d)
        for tag, a, b, c, d in _middle(before[start:i], after[start:j])
    ]
    return codes + ([("equal", i, len(before), j, len(after))] if end else [])


def _middle(before: list[str], after: list[str]) -> Sequence[Opcode]:
    if max(len(before), len(after)) > MATCHED_LINES:
        return [("replace", 0, len(before), 0, len(after))]
    return SequenceMatcher(None, before, after).get_opcodes()


def _common(before: Sequence[str], after: Sequence[str]) -> int:
    pairs = enumerate(zip(before, after, strict=False))
    return next((i for i, (one, other) in pairs if one != other), min(len(before), len(after)))


def _grouped(codes: list[Opcode]) -> Iterator[list[Opcode]]:
    """Stretches of change with a few lines about them, as difflib groups them."""
    matcher: SequenceMatcher[str] = SequenceMatcher(None, [], [])
    matcher.opcodes = codes  # type: ignore[attr-defined]
    yield from matcher.get_grouped_opcodes(CONTEXT) if any(code[0] != "equal" for code in codes) else ()
