"""`evopolicygym compare`: entrants against each other on the same cases, with what it would take to be sure."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.output import print_json, print_skipped
from evopolicygym.errors import UserError


def compare(
    paths: Annotated[list[Path], typer.Argument(help="Runs or folders of runs: one for each side.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Paired differences with intervals, per task and overall. A folder with several entrants is one side for each."""
    from evopolicygym.analysis import compare as analysis
    from evopolicygym.analysis.compare import compared_entrants
    from evopolicygym.analysis.loading import collect_runs
    from evopolicygym.cli.compare_text import show_pairs

    collected = {str(path): collect_runs(path) for path in paths}
    found = compared_entrants({path: one.runs for path, one in collected.items()})
    skipped = tuple(skip for one in collected.values() for skip in one.skipped)
    if len(found) < 2:
        print_skipped(skipped)  # perhaps that is why
        raise UserError("there is one side only", "Name two folders, or one that holds runs of two entrants.")
    pairs = analysis.compare(found)
    if json:
        told = [{"label": side.label, "missing": side.missing, "apart": side.apart} for side in found]
        facts = {"pairs": [asdict(pair) for pair in pairs], "sides": told}
        print_json({**facts, "skipped": [asdict(one) for one in skipped]})
    else:
        show_pairs(pairs, found)
    print_skipped(skipped)
    if skipped or any(side.missing for side in found) or any(pair.not_compared for pair in pairs):
        raise typer.Exit(1)
