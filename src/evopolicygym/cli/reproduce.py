"""`evopolicygym reproduce`: recompute the paper's tables from its published numbers."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evopolicygym.analysis.formatting import format_fixed
from evopolicygym.cli.options import Json
from evopolicygym.cli.output import print_json, print_table, print_text
from evopolicygym.reference import CURRENT_SCALE, paper

if TYPE_CHECKING:
    from evopolicygym.analysis.reference_table import ReferenceTable
    from evopolicygym.analysis.reproduce import Reproduction, Scores


def reproduce(
    input_file: Annotated[
        Path | None,
        typer.Option("--input", help="TOML or JSON file that replaces the stored numbers, or some of their tables."),
    ] = None,
    json: Json = False,
) -> None:
    """Recompute Tables 2 and 8 of the paper from its Table 1, and the percentages of Table 4 from its counts; then put
    its agents, the trivial policies and the baselines on one scale. Exit code 1 if a cell differs."""
    from evopolicygym.api.statistics import reproduce

    reproduction = reproduce(input_file)
    if json:
        given = paper.load(input_file) if input_file else paper.document()
        print_json({**asdict(reproduction), "holds": reproduction.holds, "input": given.model_dump()})
    else:
        _show(reproduction)
    if not reproduction.holds:
        raise typer.Exit(1)


def _show(reproduction: Reproduction) -> None:
    for title, table, digits in (
        ("Table 2: rank scores", reproduction.table2, 3),
        ("\nTable 8: normalised scores, and means by demand", reproduction.table8, 2),
        ("\nTable 4: percentage of edits that raised the best validation mean", reproduction.table4, 1),
    ):
        print_text(title)
        _show_table(table, digits)
    _show_differences(reproduction)
    _show_reference(reproduction.reference)
    print_text(
        f"\n{reproduction.compared} cells of Tables 2 and 8 recomputed, {len(reproduction.wrong)} differ from the paper"
    )
    for cell in (*reproduction.wrong, *reproduction.altered):
        print_text(f"  {'altered' if cell in reproduction.altered else 'differs'}: {cell}")
    print_text("verdict: " + ("reproduced" if reproduction.holds else "NOT reproduced"))


def _show_differences(reproduction: Reproduction) -> None:
    """Show what the paper's Table 1 says of any two agents, with its tasks as the sample."""
    from evopolicygym.analysis.leaderboard.text_tables import differences_text
    from evopolicygym.analysis.stats.estimates import ONE_RUN

    for words, shown in (
        (f"scale {CURRENT_SCALE}", reproduction.differences),
        ("scale 1: the random policy to the best agent", reproduction.differences_on_scale_1),
    ):
        table = differences_text(f"Table 1, normalised scores, {words}", shown, len(shown))
        print_text(f"\n{table.title} ({ONE_RUN})")
        print_table(table.columns, table.rows)


def _show_reference(table: ReferenceTable) -> None:
    """Show the agents, the trivial policies and the baselines on one scale."""
    from evopolicygym.analysis.leaderboard.text_tables import describe_scale, reference_rows, sensitivity_rows

    print_text(f"\nOn one scale, over {table.tasks} tasks: {describe_scale(table.scale_version)}")
    shown = reference_rows(table)
    print_table(shown.columns, shown.rows)
    for entrant, tasks in table.incomplete.items():
        print_text(f"  {entrant}: {tasks} of {table.tasks} tasks, no rank")
    if table.sensitivity:
        ranked = {row.entrant: row.rank for row in table.rows}
        orders = sensitivity_rows("On one scale", ranked, table.sensitivity)
        print_text(f"\n{orders.title}")
        print_table(orders.columns, orders.rows)


def _show_table(table: Scores, digits: int) -> None:
    columns = list(next(iter(table.values())))
    rows = (
        (name, *(format_fixed(row[column], _digits(column, digits)) for column in columns))
        for name, row in table.items()
    )
    print_table(("", *columns), rows)


def _digits(column: str, digits: int) -> int:
    return 0 if column in ("wins", "top2") else digits
