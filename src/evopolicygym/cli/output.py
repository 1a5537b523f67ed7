"""How commands speak: data on stdout, talk on stderr, JSON when asked for."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from evopolicygym.rollout.nodes import Node

BROKEN_PIPE: Final = 141


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """A reader that leaves early (`| head`) is nothing that the exit codes of a command should speak of."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)


# What is printed is printed as it is: folders, policies and packages may well have brackets in what they say.
talk = _Console(stderr=True, highlight=False, soft_wrap=True, emoji=False, markup=False)
data = _Console(highlight=False, soft_wrap=True, emoji=False, markup=False)


def tame(text: str) -> str:
    """Text of a policy, safe for a terminal: its control characters are shown, not obeyed."""
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)


def tell_notice(notice: str) -> None:
    if notice:
        talk.print(tame(notice))


def tell_refused(nodes: tuple[Node, ...]) -> None:
    for node in nodes:
        if node.refused:
            talk.print(f"node {node.id} ({node.host}) gets no work: {node.refused}")


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, allow_nan=False))


@contextmanager
def progress(total: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal; nothing elsewhere."""
    columns = (TextColumn("episodes"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=talk, transient=True, disable=not talk.is_terminal) as bar:
        line = bar.add_task("episodes", total=total)
        yield lambda: bar.advance(line)
