"""`evopolicygym tail`: follow a run as readable text."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from evopolicygym.api.transcript import tail as follow_events
from evopolicygym.cli.output import stderr, stdout
from evopolicygym.cli.text.transcript import call_text, shortened, wrapped
from evopolicygym.printable import escape_unprintable
from evopolicygym.runs.tail import TailEvent

MARKS: Final = {"does": "> ", "result": "| ", "thinks": "~ ", "submission": "*** ", "verdict": "*** ", "score": "*** "}
SPEAKERS: Final = {"prompt": "prompt: ", "says": "agent: ", "note": "note: ", "prints": "prints: "}
CLOCK: Final = 10  # columns
HEAD, TAIL = 8, 3  # lines of a long text
MIN_WIDTH: Final = 40
WIDE: Final = 100  # columns, where the output has no width of its own
INTERRUPTED: Final = 130


def tail(
    run: Annotated[Path, typer.Argument(help="Folder of a run. If it does not exist yet, the command waits for it.")],
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for more until the run is over, or print what there is.")
    ] = True,
    full: Annotated[bool, typer.Option("--full", help="Show long texts whole.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
) -> None:
    """Follow a run from any terminal: what the agent says and does, submissions with scores, the outcome. A run that is
    over is replayed from its beginning. Ctrl-C ends this command, not the run."""
    width = max(MIN_WIDTH, stdout.width if stdout.is_terminal else WIDE)
    try:
        for event in follow_events(run, follow=follow, notice=stderr.print):
            if json:
                print(json_module.dumps(asdict(event)).replace("\x7f", "\\u007f"), flush=True)
                continue
            for line in tail_lines(event, width, full):
                print(line, flush=True)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def tail_lines(event: TailEvent, width: int, is_full: bool = False) -> Iterator[str]:
    """Yield the lines of one event: a clock, a mark, and the text."""
    try:
        clock = f"{datetime.fromtimestamp(event.at):%H:%M:%S}" if event.at else ""
    except (ValueError, OverflowError, OSError):  # of a forged ledger
        clock = ""
    mark = MARKS.get(event.kind, "")
    text = call_text(event.name, event.text) if event.kind == "does" else event.text
    shown = SPEAKERS.get(event.kind, "") + escape_unprintable(text.strip("\n")).expandtabs(4)
    paragraphs = shown.split("\n")
    lines = [line for paragraph in paragraphs for line in wrapped(paragraph, width - CLOCK, mark)]
    for number, line in enumerate(shortened(lines, mark, HEAD, TAIL, is_full)):
        yield f"{clock if number == 0 else '':<{CLOCK}}{line}".rstrip()
