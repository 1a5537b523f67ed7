"""All runs below some paths, diagnosed one at a time; what cannot be read is named, and the rest goes on."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from evopolicygym.analysis.diagnostics import CodeSize, Diagnosis, diagnose
from evopolicygym.analysis.edits.kinds import EDITS, EditKind, SizeClass
from evopolicygym.analysis.edits.timeline import TimelineEvent
from evopolicygym.analysis.loading import Skipped, analyze_folder, find_run_folders
from evopolicygym.analysis.spending import files_opened
from evopolicygym.analysis.stats.hit_rates import HitCount, HitRate, hit_rate


@dataclass(frozen=True)
class AnalyzedRuns:
    runs: tuple[Diagnosis, ...]
    skipped: tuple[Skipped, ...]


def analyze_runs(paths: Sequence[Path]) -> AnalyzedRuns:
    """Records are read and let go one by one: memory holds their diagnoses alone."""
    runs: list[Diagnosis] = []
    skipped: list[Skipped] = []
    for folder in find_run_folders(paths):
        found = analyze_folder(folder, diagnose)
        if isinstance(found, Diagnosis):
            runs.append(found)
        else:
            skipped.append(found)
    return AnalyzedRuns(tuple(runs), tuple(skipped))


ALL: Final = "all"
UNGROUPED: Final = "other"


@dataclass(frozen=True)
class EntrantSummary:
    """Runs of one entrant on the tasks of one demand, or on ``all``. ``structure``: mean over the selected bundles."""

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
    """By entrant; for each the task groups that it played and, when there are several, all of them."""
    entrants = sorted({one.who.entrant for one in diagnoses})
    return [group for name in entrants for group in _of([one for one in diagnoses if one.who.entrant == name])]


def _of(runs: Sequence[Diagnosis]) -> list[EntrantSummary]:
    demands = sorted({_demand(run) for run in runs})
    parts = {demand: [run for run in runs if _demand(run) == demand] for demand in demands}
    if len(parts) > 1:
        parts[ALL] = list(runs)
    return [_group(name, members) for name, members in parts.items()]


def _demand(run: Diagnosis) -> str:
    return run.who.demand or UNGROUPED


def _group(tasks: str, runs: Sequence[Diagnosis]) -> EntrantSummary:
    who = runs[0].who
    return EntrantSummary(
        entrant=who.entrant,
        agent=who.agent,
        model=who.model,
        tasks=tasks,
        runs=len(runs),
        edits={kind: hit_rate([run.edits[kind] for run in runs]) for kind in EDITS},
        sizes={size: _rate_of_size(runs, size) for size in SizeClass},
        structure=_mean_shape([run.structure.selected for run in runs if run.structure.selected]),
    )


def _rate_of_size(runs: Sequence[Diagnosis], size: SizeClass) -> HitRate:
    return hit_rate([_count_size(run.timeline, size) for run in runs])


def _count_size(events: Sequence[TimelineEvent], size: SizeClass) -> HitCount:
    hits = [event.hit for event in events if event.size is size]
    return HitCount(len(hits), sum(hits))


def _mean_shape(shapes: Sequence[CodeSize]) -> dict[str, float] | None:
    return (
        {field.name: fmean(getattr(shape, field.name) for shape in shapes) for field in fields(CodeSize)}
        if shapes
        else None
    )


FlatRow = dict[str, Any]


def load_runs(path: str | PathLike[str]) -> list[FlatRow]:
    """One row per finished run in ``path`` or below; ``pandas.DataFrame(rows)`` takes them as they are. Folders that
    cannot be read are left out with a warning."""
    found = analyze_runs([Path(path)])
    for skipped in found.skipped:
        warnings.warn(f"{skipped.path} is left out: {skipped.why}", stacklevel=3)
    return [flat_row(run) for run in found.runs]


def flat_row(run: Diagnosis) -> FlatRow:
    """Plain values only. What is unknown is None."""
    return asdict(run.who) | _spending(run) | _progress(run) | _edits(run) | _structure(run)


def _spending(run: Diagnosis) -> FlatRow:
    spent = asdict(run.spending)
    for listed in ("by_submission", "by_turn", "episodes_per_case", "refused", "tokens"):
        del spent[listed]
    tokens = {f"{kind}_tokens": amount for kind, amount in asdict(run.spending.tokens).items()}
    return spent | {"refused": sum(run.spending.refused.values())} | tokens | _between(run)


def _between(run: Diagnosis) -> FlatRow:
    meanwhile = [one.between for one in run.spending.by_submission]
    return {
        "submissions_with_tokens": sum(one.tokens is not None for one in meanwhile),
        "feedback_files_opened": files_opened(meanwhile),
    }


def _progress(run: Diagnosis) -> FlatRow:
    facts = asdict(run.progress)
    del facts["curve"]
    return facts | {f"episodes_to_{share}": episodes for share, episodes in facts.pop("episodes_to").items()}


def _edits(run: Diagnosis) -> FlatRow:
    numbers = {f"{kind}_edits": one.n for kind, one in run.edits.items()}
    hits = {f"{kind}_hits": one.hits for kind, one in run.edits.items()}
    return numbers | hits | {"phases": len(run.phases), "unresolved_imports": len(run.unresolved_imports)}


def _structure(run: Diagnosis) -> FlatRow:
    shapes = {"first": run.structure.first, "selected": run.structure.selected, "last": run.structure.last}
    return {
        f"{when}_{field.name}": getattr(shape, field.name) if shape else None
        for when, shape in shapes.items()
        for field in fields(CodeSize)
    }
