"""`evopolicygym seeds`: the sealing key behind the hidden cases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.api.seal_keys import create_seal_key, load_seal_key
from evopolicygym.cli.options import Json
from evopolicygym.cli.output import print_json, stdout

app = typer.Typer(no_args_is_help=True, help="Create or print the sealing key behind the hidden cases.")


@app.command()
def new(
    out: Annotated[Path | None, typer.Option(help="File to write (default: the standard key file).")] = None,
    json: Json = False,
) -> None:
    """Create a key of 256 random bits that only you can read. An existing key is never overwritten."""
    created = create_seal_key(out)
    _show({"file": str(created.file), "splits_id": created.splits_id}, json)


@app.command()
def disclose(
    file: Annotated[Path | None, typer.Option(help="Key file (default: the key in use).")] = None, json: Json = False
) -> None:
    """Print the key, so that others can recompute the cases. It reveals every hidden case."""
    disclosed = load_seal_key(file)
    _show({"splits_id": disclosed.splits_id, "key": disclosed.key}, json)


def _show(facts: dict[str, str], json: bool) -> None:
    if json:
        print_json(facts)
    else:
        for name, value in facts.items():
            stdout.print(f"{name:10} {value}")
