"""Tables on stdout: aligned columns of plain text, so that they can be read, piped and cut.

On a terminal that is too narrow for a table, one rule holds for all of them: headings take two lines, long texts are
broken within their columns, remarks go below their rows, and then columns are left out, the least important first, and
named. In a pipe or a file nothing is broken and nothing left out.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from rich.console import Console

from evopolicygym.cli.output import data, one_line, talk

GAP: Final = "  "
BELOW: Final = " " * 6
TEXT: Final = 20  # a broken text keeps this width, or that of its longest word
REMARK: Final = 40  # narrower than this, remarks read better below their rows


def show(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    indent: str = "  ",
    *,
    leaves: Sequence[str] = (),
    remarks: str | None = None,
) -> None:
    """`leaves` are the columns to go first where room is scarce, `remarks` the one that can go below its rows.
    Cells are one line each, and as wide as they are shown: names come from agents' records and users' files."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    table = [_Column(one_line(name), tuple(row[i] for row in cells), name == remarks) for i, name in enumerate(columns)]
    room = _room(data) - len(indent)
    shown, below, left = _choose(table, room, leaves)
    heading, *body = _grid(shown, room)
    _print(heading, indent)
    for number_, row in enumerate(body):
        _print(row, indent)
        for remark in (column for column in below if column.cells[number_]):
            say(f"{indent}{BELOW}{remark.name}: {remark.cells[number_]}")
    if left:
        say(f"{indent}left out: {'; '.join(left)} (a wider terminal or --json has all)")


def say(text: str = "") -> None:
    body = text.lstrip("\n")
    data.block(text[: len(text) - len(body)] + _folded(one_line(body), _room(data)))


def hint(text: str) -> None:
    """What to do next, beside the data."""
    talk.block(_folded(one_line(text), _room(talk)))


@dataclass(frozen=True)
class _Column:
    name: str
    cells: tuple[str, ...]
    is_remarks: bool

    @property
    def wide(self) -> int:
        return max(map(len, (self.name, *self.cells)))

    @property
    def compact(self) -> int:
        """The heading in two lines."""
        words = self.name.split(" ")
        halves = [max(len(" ".join(words[:i])), len(" ".join(words[i:]))) for i in range(len(words))]
        return max(min(halves), *map(len, self.cells), 0)

    @property
    def least(self) -> int:
        """Texts can be broken into lines, numbers cannot."""
        if not any(cell[:1].isalpha() for cell in self.cells):
            return self.compact
        words = (word for text in (self.name, *self.cells) for word in text.split(" "))
        return min(self.compact, max(REMARK if self.is_remarks else TEXT, *map(len, words)))


def _choose(
    table: Sequence[_Column], room: int, leaves: Sequence[str]
) -> tuple[list[_Column], list[_Column], list[str]]:
    """The columns that are shown, those that go below their rows, and the names of those left out. After the columns
    that were named to leave, the last ones go; the first stays."""
    shown, below = list(table), list[_Column]()
    if _sum([column.least for column in shown]) > room:
        below = [column for column in shown if column.is_remarks]
        shown = [column for column in shown if not column.is_remarks]
    others = [column.name for column in reversed(shown[1:]) if column.name not in leaves]
    for name in (*leaves, *others):
        if _sum([column.least for column in shown]) <= room:
            break
        shown = [column for column in shown if column.name != name]
    kept = {column.name for column in (*shown, *below)}
    return shown, below, [column.name for column in table if column.name not in kept]


def _grid(shown: Sequence[_Column], room: int) -> list[list[list[str]]]:
    """Rows of cells of lines, the heading first, all lines of a column equally wide."""
    widths = _widths(shown, room)
    rows = [[column.name for column in shown], *zip(*(column.cells for column in shown), strict=True)]
    grid = [[_lines(cell, width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    high = max(map(len, grid[0]))
    grid[0] = [[""] * (high - len(lines)) + lines for lines in grid[0]]
    used = [max(len(line) for row in grid for line in row[i]) for i in range(len(shown))]
    return [[[line.ljust(width) for line in cell] for cell, width in zip(row, used, strict=True)] for row in grid]


def _widths(shown: Sequence[_Column], room: int) -> list[int]:
    """What is needed; where that is too much, the widest texts are broken, and alone a column is cut to the room."""
    widths, least = [column.wide for column in shown], [column.least for column in shown]
    if _sum(widths) > room:
        widths = [column.compact for column in shown]
    while _sum(widths) > room:
        broad = [i for i, width in enumerate(widths) if width > least[i]]
        if not broad:
            return [max(room, 1), *widths[1:]]
        widths[max(broad, key=widths.__getitem__)] -= 1
    return widths


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _print(row: Sequence[Sequence[str]], indent: str) -> None:
    for parts in zip_longest(*row):
        whole = (" " * len(cell[0]) if part is None else part for part, cell in zip(parts, row, strict=True))
        data.print((indent + GAP.join(whole)).rstrip())


def _lines(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_on_hyphens=False, replace_whitespace=False) or [""]


def _folded(line: str, room: int) -> str:
    """Broken between words, never within one: paths are there to be copied."""
    if len(line) <= room:
        return line
    hanging = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.fill(line, room, subsequent_indent=hanging, break_on_hyphens=False, break_long_words=False)


def _room(console: Console) -> int:
    """The columns of a terminal. A pipe, a file and a terminal that does not tell have all the room there is."""
    stream = console.file
    told = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    return told or sys.maxsize
