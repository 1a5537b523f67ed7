"""`evopolicygym analyze`: diagnose runs, one by one and by agent."""

from __future__ import annotations

import csv
import sys
from typing import Annotated, Any

import typer

from evopolicygym.cli.analyze_text import show_runs
from evopolicygym.cli.options import RunFolders
from evopolicygym.cli.output import print_json, print_skipped
from evopolicygym.errors import UserError


def analyze(
    runs: RunFolders,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print one row per run as CSV.")] = False,
) -> None:
    """Diagnose how runs went: edits and hits, curves, budget, code structure. Exit code 1 if a folder was skipped."""
    if json and as_csv:
        raise UserError("--json and --csv cannot be combined", "Choose one.")
    from evopolicygym.api.statistics import analyze

    made = analyze(runs)
    if json:
        print_json(made.as_dict())
    elif as_csv:
        _print_csv(made.rows())
    elif made.runs:
        show_runs(made.runs)
    print_skipped(made.skipped)
    raise typer.Exit(1 if made.skipped else 0)


def _print_csv(rows: list[dict[str, Any]]) -> None:
    if rows:
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
