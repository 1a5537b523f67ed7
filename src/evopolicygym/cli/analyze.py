"""`evopolicygym analyze`: how runs went, one by one and by agent."""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.analysis.analyze import AnalyzedRuns, analyze_runs, flat_row, summarize_entrants
from evopolicygym.cli.analyze_text import show_runs
from evopolicygym.cli.output import print_json, print_skipped
from evopolicygym.errors import UserError


def analyze(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold some.")],
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print one row per run as CSV.")] = False,
) -> None:
    """How runs went: edits and hits, curves, budget, structure. Exit code 1 when a folder had to be skipped."""
    if json and as_csv:
        raise UserError("--json and --csv exclude each other", "Choose one.")
    found = analyze_runs(runs)
    if json:
        _print_json(found)
    elif as_csv:
        _print_csv(found)
    elif found.runs:
        show_runs(found.runs)
    print_skipped(found.skipped)
    raise typer.Exit(1 if found.skipped else 0)


def _print_json(found: AnalyzedRuns) -> None:
    print_json(
        {
            "runs": [run.as_dict() for run in found.runs],
            "groups": [group.as_dict() for group in summarize_entrants(found.runs)],
            "skipped": [asdict(skipped) for skipped in found.skipped],
        }
    )


def _print_csv(found: AnalyzedRuns) -> None:
    table = [flat_row(run) for run in found.runs]
    if table:
        writer = csv.DictWriter(sys.stdout, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
