"""`evopolicygym compare`: paired comparison of entrants on the same cases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.options import Json
from evopolicygym.cli.output import print_json, print_skipped

EFFECT = 0.05


def compare(
    paths: Annotated[list[Path], typer.Argument(help="Runs or folders of runs, one for each side.")],
    effect: Annotated[
        float, typer.Option(help="Smallest difference of interest, as a share of the score scale, to plan runs for.")
    ] = EFFECT,
    json: Json = False,
) -> None:
    """Compare entrants in pairs: differences with intervals, per task and over tasks, and the number of runs that would
    find a difference of interest. A folder with several entrants counts as one side for each. The knowledge gap of an
    entrant is shown where it has runs on plain and on disguised tasks."""
    from evopolicygym.api.statistics import compare
    from evopolicygym.cli.compare_text import is_in_gap, show_pairs
    from evopolicygym.cli.leaderboard_text import show_knowledge_gap

    made = compare(*paths, effect=effect)
    if json:
        print_json(made.as_dict())
    else:
        show_pairs(made.pairs, made.sides, effect, made.knowledge_gaps)
        for gap in made.knowledge_gaps:
            show_knowledge_gap(gap)
    print_skipped(made.skipped)
    not_compared = [(pair, task) for pair in made.pairs for task in pair.not_compared]
    is_missing = not all(is_in_gap(pair, task, made.knowledge_gaps) for pair, task in not_compared)
    is_incomplete = any(side.missing for side in made.sides) or is_missing
    if made.skipped or is_incomplete:
        raise typer.Exit(1)
