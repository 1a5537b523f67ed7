"""`evopolicygym leaderboard`: rank agents on each task, family and collection, with intervals."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.options import Anchors, Json, Paper
from evopolicygym.cli.output import print_json, print_skipped


def leaderboard(
    runs: Annotated[Path, typer.Argument(help="Run folder, or a folder that contains runs at any depth.")],
    paper: Paper = False,
    anchors: Anchors = None,
    json: Json = False,
) -> None:
    """Rank agents, with intervals. Only runs with the same comparable_id share a table; others get a board of their
    own."""
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
