"""Options that several commands share. Light to import: `agent list` needs no simulator."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.errors import UserError

TASK_HELP = "Task: core16/NAME, novel/NAME, a Gymnasium id, module:Env-v0, or a task file."

TaskName = Annotated[str, typer.Argument(help=TASK_HELP)]
OwnTask = Annotated[
    str | None,
    typer.Option("--task", help="The run's task again, to confirm that you trust its code (own module or file)."),
]
RunFolder = Annotated[Path, typer.Argument(help="Folder of the run.")]
RunFolders = Annotated[list[Path], typer.Argument(help="Run folders, or folders that contain runs at any depth.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Paper = Annotated[bool, typer.Option("--paper", help="Add the rows that the paper published.")]
ScaleVersion = Annotated[
    int, typer.Option("--scale", metavar="VERSION", help="Version of the scale of normalised scores: 1 or 2.")
]
Curves = Annotated[
    list[Path] | None, typer.Option(help="Learning curves that `baseline curve` wrote, for exchange rates.")
]
Anchors = Annotated[list[Path] | None, typer.Option(help="File of anchors that `task anchors --output` wrote.")]


def pair(text: str, form: str) -> tuple[str, str]:
    """Split NAME=VALUE of the option ``form``. Raises UserError."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"{form.partition(' ')[0]} {text} has no value", f"Write {form}.")
    return name, value


Label = Annotated[
    list[str] | None, typer.Option("--label", help="OLD=NEW: another name of an entrant, for publication. Repeatable.")
]
Labels = Annotated[
    Path | None, typer.Option("--labels", help='TOML file with such names: a line "OLD" = "NEW" for each entrant.')
]


def read_labels(given: list[str] | None, file: Path | None) -> dict[str, str]:
    """Return new names by old ones: those of the file, then those of ``--label``. Raises UserError."""
    from evopolicygym.config import read_toml

    listed = read_toml(file, "file of labels", 'Write a line "OLD" = "NEW" for each entrant.') if file else {}
    labels = listed | dict(pair(text, "--label OLD=NEW") for text in given or [])
    for old, new in labels.items():
        if not isinstance(new, str) or not new.strip():
            raise UserError(f"the label of {old!r} is {new!r}", "The new name must be a text that is not empty.")
    return labels


def written_options(context: typer.Context) -> dict[str, str]:
    """Return the parameters that the command line contains, and how they are written there."""
    return {
        parameter.name: parameter.opts[0]
        for parameter in context.command.params
        if parameter.name and context.get_parameter_source(parameter.name).name == "COMMANDLINE"  # type: ignore[union-attr]
    }


def refuse_unused(context: typer.Context, unused: Iterable[str], cause: str, remedy: str = "Leave it out.") -> None:
    """Raise UserError for options on the command line that would not be used."""
    written = written_options(context)
    for name in unused:
        if name in written:
            raise UserError(f"{written[name]} {cause}", remedy)
