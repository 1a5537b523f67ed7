"""`evopolicygym import`: import runs of the public reference code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.api.results import import_runs
from evopolicygym.cli.options import Json
from evopolicygym.cli.output import print_json, stderr, stdout


def import_command(
    path: Annotated[Path, typer.Argument(help="Run folder of the reference code, or a folder that holds some.")],
    folder: Annotated[Path, typer.Option("--folder", help="Where the imported runs are written.")] = Path("imported"),
    json: Json = False,
) -> None:
    """Import runs of the public reference code (0.1 and 0.3), so that leaderboard, analyze and report can read them.
    They never share a table with runs of this judge."""
    results = import_runs(path, folder)
    if json:
        print_json([
            {"source": str(result.source), "target": result.target and str(result.target), "refused": result.reason}
            for result in results
        ])  # fmt: skip
    for result in () if json else results:
        if result.target is None:
            stderr.print(f"not imported: {result.source}: {result.reason}")
        else:
            stdout.print(f"{result.target}{'' if result.is_new else ' (was there already)'}")
    imported = sum(result.target is not None for result in results)
    if not json:
        stdout.print(f"{imported} of {len(results)} runs imported. Next: evopolicygym analyze {folder}")
    if not imported:
        raise typer.Exit(1)
