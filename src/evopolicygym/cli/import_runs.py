"""`evopolicygym import`: import runs of the public reference code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.api import import_runs as api
from evopolicygym.cli.options import Json
from evopolicygym.cli.output import print_json, stderr, stdout


def import_command(
    path: Annotated[Path, typer.Argument(help="Run folder of the reference code, or a folder that holds some.")],
    folder: Annotated[Path, typer.Option("--folder", help="Where the imported runs are written.")] = Path("imported"),
    json: Json = False,
) -> None:
    """Import runs of the public reference code (0.1 and 0.3), so that leaderboard, analyze and report can read them.
    They never share a table with runs of this judge."""
    results = api.import_runs(path, folder)
    if json:
        print_json([
            {"source": str(made.source), "target": made.target and str(made.target), "refused": made.reason}
            for made in results
        ])  # fmt: skip
    for made in () if json else results:
        if made.target is None:
            stderr.print(f"not imported: {made.source}: {made.reason}")
        else:
            stdout.print(f"{made.target}{'' if made.is_new else ' (was there already)'}")
    imported = sum(made.target is not None for made in results)
    if not json:
        stdout.print(f"{imported} of {len(results)} runs imported. Next: evopolicygym analyze {folder}")
    if not imported:
        raise typer.Exit(1)
