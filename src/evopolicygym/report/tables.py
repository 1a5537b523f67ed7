"""Tables that only the report has; those of the leaderboard are in analysis/leaderboard/text_tables.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from evopolicygym.analysis.analyze import EntrantSummary
from evopolicygym.analysis.diagnostics import CodeSize
from evopolicygym.analysis.edits.kinds import EDITS
from evopolicygym.analysis.formatting import number
from evopolicygym.analysis.leaderboard.text_tables import TextTable
from evopolicygym.analysis.stats.hit_rates import HitRate
from evopolicygym.report.text import percent


def hit_rates(summaries: Sequence[EntrantSummary]) -> TextTable:
    """Return Table 4 of the paper, for every kind of edit that occurred."""
    rows = [
        (summary.entrant, summary.tasks, str(kind), str(summary.runs), str(rate.hits), str(rate.n), *_rate(rate))
        for summary in summaries for kind in EDITS if (rate := summary.edits[kind]).n
    ]  # fmt: skip
    columns = ("agent", "tasks", "edit", "runs", "new bests", "edits", "rate", "95 % interval")
    return TextTable("Hit rates (Table 4)", columns, rows, text=("agent", "tasks", "edit"))


def structure(summaries: Sequence[EntrantSummary]) -> TextTable:
    """Return Table 3 of the paper."""
    names = [field.name for field in fields(CodeSize)]
    rows = [
        (summary.entrant, summary.tasks, str(summary.runs), *(number((summary.structure or {}).get(n)) for n in names))
        for summary in summaries
    ]
    columns = ("agent", "tasks", "runs", *names)
    return TextTable("Structure of the selected code (Table 3), means", columns, rows, text=("agent", "tasks"))


def _rate(rate: HitRate) -> tuple[str, str]:
    alone = " (this run alone)" if rate.runs == 1 else ""
    return percent(rate.rate), f"{percent(rate.low)} to {percent(rate.high)}{alone}"
