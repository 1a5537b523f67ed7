"""`evopolicygym report`: write runs as one self-contained HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.analysis.formatting import pluralize
from evopolicygym.cli.options import Anchors, Curves, Label, Labels, Paper, RunFolders, ScaleVersion, read_labels
from evopolicygym.cli.output import print_json, print_skipped, stderr
from evopolicygym.reference import CURRENT_SCALE


def report(
    runs: RunFolders,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="Also write each figure as SVG and PDF to this folder.")] = None,
    paper: Paper = False,
    anchors: Anchors = None,
    curves: Curves = None,
    scale: ScaleVersion = CURRENT_SCALE,
    label: Label = None,
    labels: Labels = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write one page with leaderboard, curves, timelines, edits and diffs. Exit code 1 if a folder was skipped."""
    from evopolicygym.api.report import write_report

    names, trained = read_labels(label, labels), curves or ()
    report = write_report(
        runs, output, figures=figures, paper=paper, anchors=anchors or (), scale=scale, labels=names, curves=trained
    )
    if json:
        print_json(report.as_dict())
    else:
        stderr.print(f"{pluralize(report.runs, 'run')}, {pluralize(len(report.figures), 'figure')}: {output}")
    print_skipped(report.skipped)
    raise typer.Exit(1 if report.skipped else 0)
