"""`evopolicygym report`: write runs as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.analysis.formatting import pluralize
from evopolicygym.cli.options import Anchors, Paper, RunFolders
from evopolicygym.cli.output import print_json, print_skipped, stderr


def report(
    runs: RunFolders,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="Also write each figure as SVG and PDF to this folder.")] = None,
    paper: Paper = False,
    anchors: Anchors = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write one page with leaderboard, curves, timelines, edits and diffs. Exit code 1 if a folder was skipped."""
    from evopolicygym.api.report import write_report

    made = write_report(runs, output, figures=figures, paper=paper, anchors=anchors or ())
    if json:
        print_json(made.as_dict())
    else:
        stderr.print(f"{pluralize(made.runs, 'run')}, {pluralize(len(made.figures), 'figure')}: {output}")
    print_skipped(made.skipped)
    raise typer.Exit(1 if made.skipped else 0)
