"""`evopolicygym leaderboard`: rank agents on each task, family and collection, with intervals."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.options import Anchors, Curves, Json, Label, Labels, Paper, ScaleVersion, read_labels
from evopolicygym.cli.output import print_json, print_skipped
from evopolicygym.reference import CURRENT_SCALE


def leaderboard(
    runs: Annotated[Path, typer.Argument(help="Run folder, or a folder that contains runs at any depth.")],
    paper: Paper = False,
    anchors: Anchors = None,
    curves: Curves = None,
    scale: ScaleVersion = CURRENT_SCALE,
    label: Label = None,
    labels: Labels = None,
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Print also other aggregates, what the feedback was worth, selection, variances, exchange rates and "
            "cost.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Rank agents, with intervals. Only runs with the same comparable_id share a table; others get a board of their
    own."""
    from evopolicygym.api.results import read_runs
    from evopolicygym.api.statistics import leaderboard
    from evopolicygym.cli.text import leaderboard as leaderboard_text

    gathered = read_runs(runs)
    names = read_labels(label, labels)
    boards = leaderboard(gathered, paper=paper, anchors=anchors or (), scale=scale, labels=names, curves=curves or ())
    if json:
        print_json({**asdict(boards), "skipped": [asdict(skip) for skip in gathered.skipped]})
    else:
        leaderboard_text.show_leaderboard(boards, details)
    print_skipped(gathered.skipped)
    if gathered.skipped or boards.missing:
        raise typer.Exit(1)
