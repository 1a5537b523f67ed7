"""`evopolicygym compare`: paired comparison of entrants on the same cases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.options import Json
from evopolicygym.cli.output import print_json, print_skipped


def compare(
    paths: Annotated[list[Path], typer.Argument(help="Runs or folders of runs, one for each side.")],
    json: Json = False,
) -> None:
    """Compare entrants in pairs: differences with intervals, per task and overall, and the number of runs needed to be
    sure. A folder with several entrants counts as one side for each. The knowledge gap of an entrant is shown where it
    has runs on plain and on disguised tasks."""
    from evopolicygym.api.statistics import compare
    from evopolicygym.cli.compare_text import show_pairs
    from evopolicygym.cli.leaderboard_text import show_knowledge_gap

    made = compare(*paths)
    if json:
        print_json(made.as_dict())
    else:
        show_pairs(made.pairs, made.sides)
        for gap in made.knowledge_gaps:
            show_knowledge_gap(gap)
    print_skipped(made.skipped)
    is_incomplete = any(side.missing for side in made.sides) or any(pair.not_compared for pair in made.pairs)
    if made.skipped or is_incomplete:
        raise typer.Exit(1)
