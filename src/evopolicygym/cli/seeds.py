"""`evopolicygym seeds`: the sealing key behind the hidden cases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.output import print_json, stdout
from evopolicygym.tasks.sealing import create_key, key_file, load_key
from evopolicygym.tasks.splits import commitment

app = typer.Typer(no_args_is_help=True, help="Create or print the sealing key behind the hidden cases.")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def new(
    out: Annotated[Path | None, typer.Option(help="File to write (default: the standard key file).")] = None,
    json: AsJson = False,
) -> None:
    """Create a key of 256 random bits that only you can read. An existing key is never overwritten."""
    path = out or key_file()
    _show({"file": str(path), "splits_id": f"sealed:{commitment(create_key(path))}"}, json)


@app.command()
def disclose(
    file: Annotated[Path | None, typer.Option(help="Key file (default: the key in use).")] = None, json: AsJson = False
) -> None:
    """Print the key, so that others can recompute the cases. It reveals every hidden case."""
    key = load_key(file)
    _show({"splits_id": f"sealed:{commitment(key)}", "key": key.hex()}, json)


def _show(facts: dict[str, str], json: bool) -> None:
    if json:
        print_json(facts)
    else:
        for name, value in facts.items():
            stdout.print(f"{name:10} {value}")
