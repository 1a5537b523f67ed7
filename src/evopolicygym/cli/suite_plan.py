"""What a suite would do."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from evopolicygym.cli.output import data, print_json
from evopolicygym.suites.estimate import CostEstimate, estimate
from evopolicygym.suites.file import Suite
from evopolicygym.suites.plan import PlannedRun
from evopolicygym.suites.status import SuiteRow


def show_plan(suite: Suite, planned: Sequence[PlannedRun], rows: Sequence[SuiteRow], json: bool) -> None:
    found = estimate(planned, rows)
    if json:
        print_json(found.facts())
        return
    table = Table(title=f"{suite.name}: what is left to do", title_justify="left", box=None, pad_edge=False)
    for heading in ("agent", "runs", "done", "episodes at most", "core-hours at most", "dollars"):
        table.add_column(heading, justify="left" if heading == "agent" else "right")
    for line in (*found.agents, found.total):
        table.add_row(line.agent, *map(str, (line.runs, line.done, line.episodes)), _hours(line), line.dollars)
    data.print(table)
    data.block(found.notes())


def _hours(line: CostEstimate) -> str:
    return "unknown" if line.core_hours is None else f"{line.core_hours:.2g}"
