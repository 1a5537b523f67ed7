"""The page: everything that was gathered, laid out by one template that escapes whatever it prints."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from evopolicygym import __version__
from evopolicygym.analysis.analyze import summarize_entrants
from evopolicygym.analysis.leaderboard import text_tables
from evopolicygym.report import tables
from evopolicygym.report.figures import by_task, figures
from evopolicygym.report.report_data import ReportData
from evopolicygym.report.svg import STYLE, Figure
from evopolicygym.report.text import clean, minus_signs, number, percent


def write_page(gathered: ReportData, path: Path) -> list[Figure]:
    """Whole or not at all. Gives the figures in it."""
    drawn = figures(gathered)
    stream = _environment().get_template("page.html.j2").stream(_facts(gathered), figures=drawn)
    descriptor, waiting = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(stream)
        os.chmod(waiting, 0o644)
        os.replace(waiting, path)
    except BaseException:
        os.unlink(waiting)
        raise
    return drawn.all()


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("evopolicygym.report", ""),
        autoescape=True,
        finalize=clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": number, "percent": percent, "minus_signs": minus_signs}
    return made


def _facts(gathered: ReportData) -> dict[str, Any]:
    together = summarize_entrants([story.diagnosis for story in gathered.stories])
    tasks = by_task(gathered.stories)
    return {
        "version": __version__,
        "style": STYLE,
        "boards": gathered.leaderboard.boards,
        "draws": gathered.leaderboard.draws,
        "tasks": tasks,
        "apart": {task: len({one.diagnosis.summary.comparable_id for one in some}) > 1 for task, some in tasks.items()},
        "runs": len(gathered.stories),
        "entrants": len({story.entrant for story in gathered.stories}),
        "skipped": gathered.skipped,
        "tables": text_tables,
        "hit_rates": tables.hit_rates(together),
        "structure": tables.structure(together),
    }
