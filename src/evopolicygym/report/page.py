"""Write the report's page from its data, with one template that escapes everything it prints."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evopolicygym import __version__
from evopolicygym.analysis import formatting
from evopolicygym.analysis.analyze import EntrantSummary, summarize_entrants
from evopolicygym.analysis.diagnostics import CodeSize
from evopolicygym.analysis.edits.kinds import EDITS
from evopolicygym.analysis.leaderboard import detail_tables, text_tables
from evopolicygym.analysis.leaderboard.text_tables import TextTable
from evopolicygym.analysis.provenance import made_on
from evopolicygym.analysis.stats.hit_rates import HitRate
from evopolicygym.reference import paper
from evopolicygym.report.figures import by_task, figures
from evopolicygym.report.report_data import ReportData
from evopolicygym.report.svg import STYLE, Figure
from evopolicygym.report.text import clean, minus_signs, number, percent


def hit_rate_table(summaries: Sequence[EntrantSummary]) -> TextTable:
    """Return Table 4 of the paper, for every kind of edit that occurred."""
    rows = [
        (summary.conditions, summary.entrant, summary.tasks, str(kind), str(summary.runs), str(rate.hits), str(rate.n),
         *_rate(rate))
        for summary in summaries for kind in EDITS if (rate := summary.edits[kind]).n
    ]  # fmt: skip
    columns = (
        *("conditions", "agent", "tasks", "edit", "runs", "hits", "edits", "rate", "95 % interval", "by chance"),
        "beyond noise",
    )
    return TextTable("Hit rates (Table 4)", columns, rows, text=("conditions", "agent", "tasks", "edit"))


def structure_table(summaries: Sequence[EntrantSummary], with_paper: bool = False) -> TextTable:
    """Return Table 3 of the paper, with the published rows if they are wanted."""
    names = [field.name for field in fields(CodeSize)]
    rows = [
        (
            summary.conditions,
            summary.entrant,
            summary.tasks,
            str(summary.runs),
            *(formatting.format_number((summary.structure or {}).get(name)) for name in names),
        )
        for summary in summaries
    ]
    rows += _published_structure(names) if with_paper else []
    columns = ("conditions", "agent", "tasks", "runs", *names)
    text = ("conditions", "agent", "tasks")
    return TextTable("Structure of the selected code (Table 3), means", columns, rows, text=text)


def _published_structure(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [
        ("the paper's", agent, demand, "-", *(formatting.format_number(row.get(name)) for name in names))
        for agent, demands in paper.document().table3.items()
        for demand, row in demands.items()
    ]


def _rate(rate: HitRate) -> tuple[str, ...]:
    alone = " (this run alone)" if rate.runs == 1 else ""
    interval = f"{percent(rate.low)} to {percent(rate.high)}{alone}"
    return percent(rate.rate), interval, percent(rate.by_chance), formatting.format_number(rate.beyond_noise)


def write_page(data: ReportData, path: Path) -> list[Figure]:
    """Write the page atomically, and return its figures, with the provenance of its runs as their caption."""
    drawn = figures(data)
    stream = _environment().get_template("page.html.j2").stream(_variables(data), figures=drawn)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(stream)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return [replace(figure, caption=data.leaderboard.provenance.line) for figure in drawn.all()]


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("evopolicygym.report", ""),
        autoescape=True,
        finalize=clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "percent": percent, "minus_signs": minus_signs}
    return environment


def _variables(data: ReportData) -> dict[str, Any]:
    summaries = summarize_entrants([run.diagnosis for run in data.runs])
    tasks = by_task(data.runs)
    return {
        "version": __version__,
        "made": made_on(),
        "provenance": data.leaderboard.provenance.line,
        "who": text_tables.entrants_table(data.leaderboard.entrants),
        "style": STYLE,
        "boards": data.leaderboard.boards,
        "knowledge_gaps": data.leaderboard.knowledge_gaps,
        "keys": data.leaderboard.keys,
        "draws": data.leaderboard.draws,
        "scale": data.leaderboard.scale_version,
        "tasks": tasks,
        "counts": _counts(len(data.runs), len({run.entrant for run in data.runs}), len(tasks)),
        "skipped": data.skipped,
        "tables": text_tables,
        "details": detail_tables,
        "hit_rates": hit_rate_table(summaries),
        "structure": structure_table(summaries, data.with_paper),
    }


def _counts(runs: int, entrants: int, tasks: int) -> str:
    return ", ".join(formatting.pluralize(*count) for count in ((runs, "run"), (entrants, "entrant"), (tasks, "task")))
