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
    from evopolicygym.analysis.leaderboard import build as analysis
    from evopolicygym.analysis.loading import collect_runs
    from evopolicygym.cli import leaderboard_text
    from evopolicygym.reference.anchors import load, stored_anchors

    collected = collect_runs(runs)
    made = analysis.leaderboard(collected.runs, [*(load(path) for path in anchors or []), stored_anchors()], paper)
    if json:
        print_json({**asdict(made), "skipped": [asdict(one) for one in collected.skipped]})
    else:
        leaderboard_text.show_leaderboard(made)
    print_skipped(collected.skipped)
    if collected.skipped or made.missing:
        raise typer.Exit(1)
