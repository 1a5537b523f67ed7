"""How commands speak: data on stdout, talk on stderr, JSON when asked for."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment

from evopolicygym.execution.records import Node
from evopolicygym.report.text import replace_unseen

if TYPE_CHECKING:
    from evopolicygym.analysis.loading import Skipped


BROKEN_PIPE: Final = 141


class _Console(Console):
    """What is printed is tamed here, whoever made it: agents and records of others have a word in most of it."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Each text in one line, so that no value can fake the next; newlines before it are the caller's."""
        super().print(*(_own_lines(one) if isinstance(one, str) else one for one in objects), **options)

    def block(self, text: str) -> None:
        """Text of many lines."""
        super().print(text)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """All that reaches the screen comes by here. Sequences of rich's own are control segments, or styles."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else tame(text), style, control)

    def on_broken_pipe(self) -> None:
        """A reader that leaves early (`| head`) is nothing that the exit codes of a command should speak of."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)


# What is printed is printed as it is: folders, policies and packages may well have brackets in what they say.
talk = _Console(stderr=True, highlight=False, soft_wrap=True, emoji=False, markup=False)
data = _Console(highlight=False, soft_wrap=True, emoji=False, markup=False)


class TamedStream:
    """Standard output or error for everything that is not printed by a console: complaints, JSON, warnings, logs,
    tracebacks. Consoles find the stream itself under the name that rich has for it."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(tame(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def tame(text: str) -> str:
    """Text as it is safe for a terminal: what does not show as itself is shown by its number, not obeyed."""
    return replace_unseen(text, lambda char: char.encode("unicode_escape").decode())


def one_line(text: str) -> str:
    """For a cell of a table."""
    return tame(text).replace("\n", "\\n")


def _own_lines(text: str) -> str:
    body = text.lstrip("\n")
    return text[: len(text) - len(body)] + one_line(body)


def tell_notice(notice: str) -> None:
    if notice:
        talk.print(notice)


def tell_refused(nodes: tuple[Node, ...]) -> None:
    for node in nodes:
        if node.refused:
            talk.print(f"node {node.id} ({node.host}) gets no work: {node.refused}")


def print_json(value: Any) -> None:
    """In ASCII, of which JSON alone lets the last character, delete, pass."""
    print(json.dumps(value, indent=1, allow_nan=False).replace("\x7f", "\\u007f"))


@contextmanager
def progress(total: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal; nothing elsewhere."""
    columns = (TextColumn("episodes"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=talk, transient=True, disable=not talk.is_terminal) as bar:
        line = bar.add_task("episodes", total=total)
        yield lambda: bar.advance(line)


def report_skipped(skipped: tuple[Skipped, ...]) -> None:
    for one in skipped:
        talk.print(f"skipped {one.path}: {one.why}")
