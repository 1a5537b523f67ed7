"""Options that several commands share. Light to import: `agent list` needs no simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.errors import UserError

TASK_HELP = "Task: core16/NAME, a Gymnasium id, module:Env-v0, or a task file."

TaskName = Annotated[str, typer.Argument(help=TASK_HELP)]
OwnTask = Annotated[
    str | None,
    typer.Option("--task", help="Name the run's task again, if its code is your own module or file: you trust it."),
]
RunFolder = Annotated[Path, typer.Argument(help="Folder of the run.")]
RunFolders = Annotated[list[Path], typer.Argument(help="Run folders, or folders that contain runs at any depth.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Paper = Annotated[bool, typer.Option("--paper", help="Add the rows that the paper published.")]
Anchors = Annotated[list[Path] | None, typer.Option(help="File of anchors that `task anchors --output` wrote.")]


def pair(text: str, form: str) -> tuple[str, str]:
    """Split NAME=VALUE of the option ``form``. Raises UserError."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"{form.partition(' ')[0]} {text} has no value", f"Write {form}.")
    return name, value
