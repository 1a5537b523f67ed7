"""`evopolicygym report`: runs as one page of HTML that opens from disk."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.analysis.formatting import counted
from evopolicygym.cli.output import print_json, print_skipped, stderr
from evopolicygym.errors import UserError


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold some.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="Also write each figure as SVG and PDF to this folder.")] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Add the paper's published rows.")] = False,
    anchors: Annotated[
        list[Path] | None, typer.Option(help="Anchors measured on your own cases (benchmarks/anchors.py).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Leaderboard, curves, timelines, edits and diffs on one page. Exit code 1 when a folder had to be skipped."""
    from evopolicygym.reference.anchors import load
    from evopolicygym.report.page import write_page
    from evopolicygym.report.report_data import collect_report

    if not output.parent.is_dir():
        raise UserError(f"there is no folder {output.parent}", "Make it, or name another with -o.")
    if output.is_dir():
        raise UserError(f"{output} is a folder", "Name a file with -o.")
    if figures and figures.exists() and not figures.is_dir():
        raise UserError(f"{figures} is a file", "Name a folder with --figures.")
    found = collect_report(runs, output.parent, [load(path) for path in anchors or []], paper)
    try:
        drawn = write_page(found, output)
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}", "Name another file with -o.") from error
    if figures:
        from evopolicygym.report.pdf import write_figures

        write_figures(drawn, figures)
    if json:
        print_json({
            "page": str(output), "runs": len(found.stories), "figures": [figure.name for figure in drawn],
            "skipped": [asdict(one) for one in found.skipped],
        })  # fmt: skip
    else:
        stderr.print(f"{counted(len(found.stories), 'run')}, {counted(len(drawn), 'figure')}: {output}")
    print_skipped(found.skipped)
    raise typer.Exit(1 if found.skipped else 0)
