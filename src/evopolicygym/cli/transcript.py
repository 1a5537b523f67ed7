"""`evopolicygym transcript`: print what an agent and its model said in a run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.output import print_json, stderr


class TranscriptFormat(StrEnum):
    """Output formats of a transcript. ATIF is the trajectory format of the Harbor project."""

    TEXT = "text"
    JSON = "json"
    ATIF = "atif"


def transcript(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    format: Annotated[TranscriptFormat, typer.Option("--format", help="Output format.")] = TranscriptFormat.TEXT,
    full: Annotated[bool, typer.Option("--full", help="Show long texts whole (with --format text).")] = False,
    width: Annotated[int, typer.Option("--width", min=40, help="Columns of the text.")] = 80,
) -> None:
    """Print a run as one conversation: prompts, answers, reasoning, tool calls and their results, submissions, tokens.
    It is read from the calls that the model gateway recorded, and for a run without them from the client's output."""
    from evopolicygym.api.transcript import transcript as read_transcript
    from evopolicygym.cli.text.transcript import transcript_lines

    read = read_transcript(run)
    if format is TranscriptFormat.TEXT:
        for line in transcript_lines(read, width, full):
            print(line)
        return
    print_json(read.as_dict() if format is TranscriptFormat.JSON else read.as_atif())
    for note in read.conversation.notes:
        stderr.print(f"note: {note}")
