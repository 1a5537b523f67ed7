"""Tables for people: plain aligned text, as wide as it needs to be, safe for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from evopolicygym.cli.output import tame


def show_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first column is words; columns that hold numbers are aligned to the right."""
    lines = [header, *rows]
    widths = [max(len(tame(line[column])) for line in lines) for column in range(len(header))]
    right = [_is_numeric([row[column] for row in rows]) for column in range(len(header))]
    print(title)
    for line in lines:
        cells = zip((tame(cell) for cell in line), widths, right, strict=True)
        print("  ".join(cell.rjust(width) if number else cell.ljust(width) for cell, width, number in cells).rstrip())
    print()


def _is_numeric(cells: Sequence[str]) -> bool:
    return all(cell == "-" or cell.strip("+-").replace(".", "").replace("e", "")[:1].isdigit() for cell in cells)
