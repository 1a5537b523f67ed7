"""Analyze all runs below some paths: diagnose each, and summarize them by entrant and group of tasks.

`analyze_runs` gives the diagnoses, `summarize_entrants` hit rates (Table 4), hit rates by edit size
(Figure 8) and mean structure (Table 3), `flat_row` one row of plain values per run for CSV and data frames.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from evopolicygym.analysis.diagnostics import CodeSize, Diagnosis, diagnose
from evopolicygym.analysis.edits.kinds import EDITS, EditKind, SizeClass
from evopolicygym.analysis.edits.timeline import TimelineEvent
from evopolicygym.analysis.gain import gain_columns
from evopolicygym.analysis.loading import Skipped, analyze_folder, find_run_folders
from evopolicygym.analysis.spending import files_opened
from evopolicygym.analysis.stats.hit_rates import HitCount, HitRate, hit_rate

FlatRow = dict[str, Any]
ALL: Final = "all"
UNGROUPED: Final = "other"


@dataclass(frozen=True)
class AnalyzedRuns:
    """Diagnoses of the readable runs, and the folders that were skipped."""

    runs: tuple[Diagnosis, ...]
    skipped: tuple[Skipped, ...]


def analyze_runs(paths: Sequence[Path]) -> AnalyzedRuns:
    """Diagnose the runs below ``paths``. Records are read one at a time: only the diagnoses stay in memory."""
    runs: list[Diagnosis] = []
    skipped: list[Skipped] = []
    for folder in find_run_folders(paths):
        result = analyze_folder(folder, diagnose)
        if isinstance(result, Diagnosis):
            runs.append(result)
        else:
            skipped.append(result)
    return AnalyzedRuns(tuple(runs), tuple(skipped))


@dataclass(frozen=True)
class EntrantSummary:
    """Summary of one entrant on the tasks of one demand, or on ``all``. ``structure``: means over the selected code."""

    entrant: str
    agent: str | None
    model: str | None
    tasks: str
    runs: int
    edits: dict[EditKind, HitRate]
    sizes: dict[SizeClass, HitRate]
    structure: dict[str, float] | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def summarize_entrants(diagnoses: Sequence[Diagnosis]) -> list[EntrantSummary]:
    """Summarize runs by entrant: each demand that it played and, when there are several, all tasks together."""
    by_entrant: dict[str, list[Diagnosis]] = defaultdict(list)
    for run in diagnoses:
        by_entrant[run.summary.entrant].append(run)
    return [summary for _, runs in sorted(by_entrant.items()) for summary in _by_demand(runs)]


def _by_demand(runs: Sequence[Diagnosis]) -> list[EntrantSummary]:
    demands = sorted({_demand(run) for run in runs})
    parts = {demand: [run for run in runs if _demand(run) == demand] for demand in demands}
    if len(parts) > 1:
        parts[ALL] = list(runs)
    return [_summarize(name, members) for name, members in parts.items()]


def _demand(run: Diagnosis) -> str:
    return run.summary.demand or UNGROUPED


def _summarize(tasks: str, runs: Sequence[Diagnosis]) -> EntrantSummary:
    summary = runs[0].summary
    return EntrantSummary(
        entrant=summary.entrant,
        agent=summary.agent,
        model=summary.model,
        tasks=tasks,
        runs=len(runs),
        edits={kind: hit_rate([run.edits[kind] for run in runs]) for kind in EDITS},
        sizes={size: _rate_of_size(runs, size) for size in SizeClass},
        structure=_mean_code_size([run.structure.selected for run in runs if run.structure.selected]),
    )


def _rate_of_size(runs: Sequence[Diagnosis], size: SizeClass) -> HitRate:
    return hit_rate([_count_size(run.timeline, size) for run in runs])


def _count_size(events: Sequence[TimelineEvent], size: SizeClass) -> HitCount:
    hits = [event.hit for event in events if event.size is size]
    return HitCount(len(hits), sum(hits))


def _mean_code_size(sizes: Sequence[CodeSize]) -> dict[str, float] | None:
    return (
        {field.name: fmean(getattr(size, field.name) for size in sizes) for field in fields(CodeSize)}
        if sizes
        else None
    )


def flat_row(run: Diagnosis) -> FlatRow:
    """Return one row of plain values for a run; None is unknown."""
    gains = gain_columns(run.gain, run.learning)
    return asdict(run.summary) | _spending(run) | gains | _progress(run) | _edits(run) | _structure(run)


def _spending(run: Diagnosis) -> FlatRow:
    spent = asdict(run.spending)
    for listed in ("by_submission", "by_turn", "episodes_per_case", "refused", "tokens"):
        del spent[listed]
    tokens = {f"{kind}_tokens": amount for kind, amount in asdict(run.spending.tokens).items()}
    return spent | {"refused": sum(run.spending.refused.values())} | tokens | _effort(run)


def _effort(run: Diagnosis) -> FlatRow:
    efforts = [submission.between for submission in run.spending.by_submission]
    return {
        "submissions_with_tokens": sum(effort.tokens is not None for effort in efforts),
        "feedback_files_opened": files_opened(efforts),
    }


def _progress(run: Diagnosis) -> FlatRow:
    facts = asdict(run.progress)
    del facts["curve"]
    return facts | {f"episodes_to_{share}": episodes for share, episodes in facts.pop("episodes_to").items()}


def _edits(run: Diagnosis) -> FlatRow:
    numbers = {f"{kind}_edits": count.n for kind, count in run.edits.items()}
    hits = {f"{kind}_hits": count.hits for kind, count in run.edits.items()}
    return numbers | hits | {"phases": len(run.phases), "unresolved_imports": len(run.unresolved_imports)}


def _structure(run: Diagnosis) -> FlatRow:
    sizes = {"first": run.structure.first, "selected": run.structure.selected, "last": run.structure.last}
    return {
        f"{when}_{field.name}": getattr(size, field.name) if size else None
        for when, size in sizes.items()
        for field in fields(CodeSize)
    }
