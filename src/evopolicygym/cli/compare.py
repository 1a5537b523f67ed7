"""`evopolicygym compare`: paired comparison of entrants on the same cases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.options import Json, Label, Labels, ScaleVersion, read_labels
from evopolicygym.cli.output import print_json, print_skipped
from evopolicygym.reference import CURRENT_SCALE

EFFECT = 0.05


def compare(
    paths: Annotated[list[Path], typer.Argument(help="Runs or folders of runs, one for each side.")],
    effect: Annotated[
        float, typer.Option(help="Smallest difference of interest, as a share of the score scale, to plan runs for.")
    ] = EFFECT,
    scale: ScaleVersion = CURRENT_SCALE,
    label: Label = None,
    labels: Labels = None,
    json: Json = False,
) -> None:
    """Compare entrants in pairs: differences with intervals, per task and over tasks, and the number of runs that would
    find a difference of interest. A folder with several entrants counts as one side for each. The knowledge gap of an
    entrant is shown where it has runs on plain and on disguised tasks."""
    from evopolicygym.api.statistics import compare
    from evopolicygym.cli.text.compare import show_pairs
    from evopolicygym.cli.text.leaderboard import show_knowledge_gap, show_origin

    comparison = compare(*paths, effect=effect, scale=scale, labels=read_labels(label, labels))
    if json:
        print_json(comparison.as_dict())
    else:
        show_pairs(comparison.pairs, comparison.sides, effect, comparison.knowledge_gaps)
        for gap in comparison.knowledge_gaps:
            show_knowledge_gap(gap)
        show_origin(comparison.entrants, comparison.provenance)
    print_skipped(comparison.skipped)
    if not comparison.complete:
        raise typer.Exit(1)
