"""`evopolicygym report`: write runs as one self-contained HTML page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.analysis.formatting import pluralize
from evopolicygym.cli.options import Anchors, Paper, RunFolders
from evopolicygym.cli.output import print_json, print_skipped, stderr
from evopolicygym.errors import UserError


def report(
    runs: RunFolders,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="Also write each figure as SVG and PDF to this folder.")] = None,
    paper: Paper = False,
    anchors: Anchors = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write one page with leaderboard, curves, timelines, edits and diffs. Exit code 1 if a folder was skipped."""
    from evopolicygym.reference.anchors import load
    from evopolicygym.report.page import write_page
    from evopolicygym.report.report_data import collect_report

    if not output.parent.is_dir():
        raise UserError(f"there is no folder {output.parent}", "Create it, or name another with -o.")
    if output.is_dir():
        raise UserError(f"{output} is a folder", "Name a file with -o.")
    if figures and figures.exists() and not figures.is_dir():
        raise UserError(f"{figures} is a file", "Name a folder with --figures.")
    data = collect_report(runs, output.parent, [load(path) for path in anchors or []], paper)
    try:
        drawn = write_page(data, output)
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}", "Name another file with -o.") from error
    if figures:
        from evopolicygym.report.pdf import write_figures

        write_figures(drawn, figures)
    if json:
        print_json({
            "page": str(output), "runs": len(data.stories), "figures": [figure.name for figure in drawn],
            "skipped": [asdict(skip) for skip in data.skipped],
        })  # fmt: skip
    else:
        stderr.print(f"{pluralize(len(data.stories), 'run')}, {pluralize(len(drawn), 'figure')}: {output}")
    print_skipped(data.skipped)
    raise typer.Exit(1 if data.skipped else 0)
