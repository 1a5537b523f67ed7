"""Output of the commands: data on stdout, messages on stderr, JSON when asked for, and tables that fit the terminal."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from evopolicygym.printable import escape_unprintable, one_line
from evopolicygym.tasks.splits import PaperSplits

if TYPE_CHECKING:
    from evopolicygym.analysis.loading import Skipped

BROKEN_PIPE: Final = 141
GAP: Final = 2  # characters between columns
MIN_TEXT: Final = 20  # a wrapped text keeps this width, or that of its longest word
COMMAND: Final = re.compile("`[^`]*`")
NO_BREAK: Final = "\u00a0"  # a space that no text is wrapped at
NUMBER: Final = re.compile(r"|-|[<>$]? ?[+-]?\d[\d,.]*(e[+-]?\d+)? ?%?|-?inf|nan")  # or no value


class _Console(Console):
    """Escapes control characters in everything that it prints: most of it contains texts by agents or from records of
    others."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print each text in one line, so that no value can fake the next line; leading newlines are the caller's."""
        super().print(*(_in_one_line(value) if isinstance(value, str) else value for value in objects), **options)

    def block(self, text: str) -> None:
        """Print a text of several lines."""
        super().print(text)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Escape what is rendered. Rich's own sequences are control segments, or styles."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else escape_unprintable(text), style, control)

    @property
    def file(self) -> IO[str]:
        """The stream itself. A live text puts a proxy of its own around ours: through it, rich's sequences would be
        escaped, too."""
        file = self._file or (sys.stderr if self.stderr else sys.stdout)
        while (inner := getattr(file, "rich_proxied_file", None)) is not None:
            file = inner
        return file

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def on_broken_pipe(self) -> None:
        """Exit quietly when the reader of a pipe has left early (`| head`)."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)


# No markup: folders, policies and packages may have brackets in their texts.
stderr = _Console(stderr=True, highlight=False, soft_wrap=True, emoji=False, markup=False)
stdout = _Console(highlight=False, soft_wrap=True, emoji=False, markup=False)


class EscapingStream:
    """Standard output or error for everything that no console prints: error messages, JSON, warnings, logs, tracebacks.
    Rich's consoles find the stream itself under ``rich_proxied_file``."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(escape_unprintable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def _in_one_line(text: str) -> str:
    body = text.lstrip("\n")
    return text[: len(text) - len(body)] + one_line(body)


def print_skipped(skipped: tuple[Skipped, ...]) -> None:
    """Name the run folders that were left out, because they are unfinished or broken."""
    for folder in skipped:
        stderr.print(f"skipped {folder.path}: {folder.why}")


def name_task(task: str, env: str) -> str:
    """Return the id of a task, with that of its environment where it is another."""
    return task if task == env else f"{task} ({env})"


def describe_cases(splits_id: str, split: str = "") -> str:
    """Name the cases of a splits id, of all splits or of one."""
    cases = f"{split} cases".strip()
    return f"the paper's {cases}" if splits_id == PaperSplits.id else f"{cases} of {splits_id[:23]}"


def print_json(value: Any) -> None:
    """Print JSON in ASCII; DEL is the only control character that `json` does not escape."""
    print(json.dumps(value, indent=1, allow_nan=False).replace("\x7f", "\\u007f"))


def is_live() -> bool:
    """Whether stderr is a terminal that a text can be redrawn on, and that a person is likely to look at."""
    return stderr.is_terminal and not stderr.is_dumb_terminal and os.environ.get("CI", "").lower() not in ("1", "true")


def live_width() -> int:
    """Return the columns for a live text: the terminal echoes Ctrl-C behind it, and a line that wraps would stay."""
    return stderr.width - len("^C")


@contextmanager
def episode_progress() -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal, nothing elsewhere. Yield the function that sets finished and total."""
    columns = (TextColumn("episodes"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr, transient=True, disable=not is_live()) as bar:
        line = bar.add_task("episodes", total=None)
        yield lambda done, total: bar.update(line, completed=done, total=total)


def print_text(text: str = "") -> None:
    """Print a line to stdout, wrapped between words to the width of the terminal."""
    body = text.lstrip("\n")
    stdout.block(text[: len(text) - len(body)] + _wrapped(one_line(body), _width(stdout)))


def print_fields(fields: Iterable[tuple[str, str]], name_width: int = 12, at_most: int = sys.maxsize) -> None:
    """Print names and values to stdout, one pair a line."""
    for name, value in fields:
        print_marked(Text(f"{name:{name_width}} "), value, at_most)


def print_marked(mark: Text, text: str, at_most: int = sys.maxsize) -> None:
    """Print a text to stdout behind a short mark, wrapped to the terminal and to lines of ``at_most`` characters. What
    does not fit continues below its first word."""
    width, indent = min(_width(stdout), at_most), " " * len(mark)
    stdout.print(mark + Text(_fill(one_line(text), width, indent, indent)[len(mark) :]))


def print_hint(text: str) -> None:
    """Print a message to stderr, such as what to do next, wrapped between words."""
    stderr.block(_wrapped(one_line(text), _width(stderr)))


def wrap_message(text: str) -> str:
    """Return a message of several lines, each wrapped between words to the terminal that shows stderr."""
    return "\n".join(_wrapped(line, _width(stderr)) for line in text.split("\n"))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    indent: str = "  ",
    *,
    optional: Sequence[str] = (),
    remarks: str | None = None,
) -> None:
    """Print aligned columns of plain text: numbers to the right, all else to the left.

    In a pipe or a file nothing is wrapped and nothing left out. On a terminal that is too narrow, headings take two
    lines, long texts are wrapped within their columns, and then columns are left out and named: first those without
    any value, then those in ``optional``, in that order, then the last ones. Sentences of the column named ``remarks``
    become footnotes.
    """
    cells = [[one_line(cell).replace("\t", " ") for cell in row] for row in rows]
    footnotes = _take_footnotes(cells, columns.index(remarks)) if remarks else {}
    table = [_Column(one_line(name), tuple(row[i] for row in cells)) for i, name in enumerate(columns)]
    room = _width(stdout) - len(indent)
    shown, left_out = _choose(table, room, optional, {remarks, columns[0]})
    layout = list(zip(_widths(shown, room), (column.justify for column in shown), strict=True))
    _print_row([column.name for column in shown], layout, indent, is_heading=True)
    for number in range(len(cells)):
        _print_row([column.cells[number] for column in shown], layout, indent)
    for sentence, number in footnotes.items():
        print_text(f"{indent}{number}: {sentence}")
    if left_out:
        print_text(f"{indent}left out: {'; '.join(left_out)} (a wider terminal or --json has all)")


def print_titled_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], optional: Sequence[str] = ()
) -> None:
    """Print a table below its title, and an empty line."""
    print_text(title)
    print_table(columns, rows, optional=optional)
    print_text()


def _take_footnotes(cells: Sequence[list[str]], index: int) -> dict[str, int]:
    """Replace the sentences of a column, which "; " parts, by the numbers of footnotes, and return these."""
    footnotes: dict[str, int] = {}
    for row in cells:
        sentences = [sentence for sentence in row[index].split("; ") if sentence]
        row[index] = " ".join(map(str, sorted(footnotes.setdefault(text, len(footnotes) + 1) for text in sentences)))
    return footnotes


@dataclass(frozen=True)
class _Column:
    name: str
    cells: tuple[str, ...]

    @property
    def justify(self) -> JustifyMethod:
        return "right" if any(self.cells) and all(map(NUMBER.fullmatch, self.cells)) else "left"

    @property
    def is_empty(self) -> bool:
        return all(cell in ("", "-") for cell in self.cells)

    @property
    def natural(self) -> int:
        return max(map(cell_len, (self.name, *self.cells)))

    @property
    def compact(self) -> int:
        """The width with the heading in two lines."""
        words = self.name.split(" ")
        halves = [max(cell_len(" ".join(words[:i])), cell_len(" ".join(words[i:]))) for i in range(len(words))]
        return max(min(halves), *map(cell_len, self.cells), 0)

    @property
    def minimum(self) -> int:
        """The smallest width that the column can have: texts can be wrapped, numbers cannot."""
        if not any(cell[:1].isalpha() for cell in self.cells):
            return self.compact
        words = (word for text in (self.name, *self.cells) for word in text.split(" "))
        return min(self.compact, max(MIN_TEXT, *map(cell_len, words)))


def _choose(
    table: Sequence[_Column], room: int, optional: Sequence[str], kept_to_the_end: Set[str | None]
) -> tuple[list[_Column], list[str]]:
    """Return the columns to show, and the names of those left out."""
    shown = list(table)
    others = [column.name for column in reversed(shown) if column.name not in {*optional, *kept_to_the_end}]
    empty = [column.name for column in shown if column.is_empty and column.name not in kept_to_the_end]
    for name in (*empty, *optional, *others):
        if _total([column.minimum for column in shown]) <= room:
            break
        shown = [column for column in shown if column.name != name]
    kept = {column.name for column in shown}
    return shown, [column.name for column in table if column.name not in kept]


def _widths(shown: Sequence[_Column], room: int) -> list[int]:
    """Return natural widths; if they do not fit, narrow the widest texts. A single column is cut to the room."""
    widths, minimums = [column.natural for column in shown], [column.minimum for column in shown]
    if _total(widths) > room:
        widths = [column.compact for column in shown]
    while _total(widths) > room:
        wrappable = [i for i, width in enumerate(widths) if width > minimums[i]]
        if not wrappable:
            return [max(room, 1), *widths[1:]]
        widths[max(wrappable, key=widths.__getitem__)] -= 1
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _print_row(
    cells: Sequence[str], layout: Sequence[tuple[int, JustifyMethod]], indent: str, is_heading: bool = False
) -> None:
    """Lay out one row with rich, and print its lines without trailing spaces."""
    row: list[Text] = []
    grid = Table.grid(padding=0)
    for cell, (width, justify) in zip(cells, layout, strict=True):
        if row:
            grid.add_column(width=GAP)
            row.append(Text())
        grid.add_column(width=width, justify=justify, overflow="fold", vertical="bottom" if is_heading else "top")
        row.append(Text(cell))
    grid.add_row(*row)
    options = stdout.options.update(width=_total([width for width, _ in layout]))
    for line in stdout.render_lines(grid, options, pad=False):
        stdout.print((indent + "".join(segment.text for segment in line)).rstrip())


def _wrapped(line: str, width: int) -> str:
    return _fill(line, width, "", " " * (len(line) - len(line.lstrip()) + 2))


def _fill(line: str, width: int, indent: str, hanging: str) -> str:
    """Wrap between words, never within a path or a `command`: they are there to be copied."""
    if len(indent) + len(line) <= width:
        return indent + line
    wrapper = textwrap.TextWrapper(width, indent, hanging, break_on_hyphens=False, break_long_words=False)
    joined = COMMAND.sub(lambda command: command[0].replace(" ", NO_BREAK), line)
    return wrapper.fill(joined).replace(NO_BREAK, " ")


def _width(console: Console) -> int:
    """Return the columns of a terminal; unlimited for a pipe, a file and a terminal that does not report its width."""
    stream = console.file
    columns = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    return columns or sys.maxsize
