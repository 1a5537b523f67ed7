"""`evopolicygym leaderboard`: who is how good, on each task, family and collection, and how sure that is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.output import print_json, print_skipped


def leaderboard(
    runs: Annotated[Path, typer.Argument(help="A run, or a folder of runs at any depth.")],
    paper: Annotated[bool, typer.Option("--paper", help="Add the paper's published rows.")] = False,
    anchors: Annotated[
        list[Path] | None, typer.Option(help="Anchors measured on your own cases (benchmarks/anchors.py).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tables with intervals. Only runs with the same comparable_id share one; what differs is shown apart."""
    from evopolicygym.api.results import read_runs
    from evopolicygym.api.statistics import leaderboard
    from evopolicygym.cli import leaderboard_text

    gathered = read_runs(runs)
    made = leaderboard(gathered, paper=paper, anchors=anchors or ())
    if json:
        print_json({**asdict(made), "skipped": [asdict(skip) for skip in gathered.skipped]})
    else:
        leaderboard_text.show_leaderboard(made)
    print_skipped(gathered.skipped)
    if gathered.skipped or made.missing:
        raise typer.Exit(1)
