"""Runs put together by agent and task group: hit rates (Table 4), by edit size (Figure 8), mean structure (Table 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from statistics import fmean
from typing import Any, Final

from evopolicygym.analysis.diagnostics import Diagnosis, Shape
from evopolicygym.analysis.edits.kinds import EDITS, Kind
from evopolicygym.analysis.edits.sizes import Size
from evopolicygym.analysis.edits.timeline import Event
from evopolicygym.analysis.stats.hit_rates import Count, Rate, hit_rate

ALL: Final = "all"
UNGROUPED: Final = "other"


@dataclass(frozen=True)
class Group:
    """Runs of one entrant on the tasks of one demand, or on ``all``. ``structure``: mean over the selected bundles."""

    entrant: str
    agent: str | None
    model: str | None
    tasks: str
    runs: int
    edits: dict[Kind, Rate]
    sizes: dict[Size, Rate]
    structure: dict[str, float] | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def groups(diagnoses: Sequence[Diagnosis]) -> list[Group]:
    """By entrant; for each the task groups that it played and, when there are several, all of them."""
    entrants = sorted({one.who.entrant for one in diagnoses})
    return [group for name in entrants for group in _of([one for one in diagnoses if one.who.entrant == name])]


def _of(runs: Sequence[Diagnosis]) -> list[Group]:
    demands = sorted({_demand(run) for run in runs})
    parts = {demand: [run for run in runs if _demand(run) == demand] for demand in demands}
    if len(parts) > 1:
        parts[ALL] = list(runs)
    return [_group(name, members) for name, members in parts.items()]


def _demand(run: Diagnosis) -> str:
    return run.who.demand or UNGROUPED


def _group(tasks: str, runs: Sequence[Diagnosis]) -> Group:
    who = runs[0].who
    return Group(
        entrant=who.entrant,
        agent=who.agent,
        model=who.model,
        tasks=tasks,
        runs=len(runs),
        edits={kind: hit_rate([run.edits[kind] for run in runs]) for kind in EDITS},
        sizes={size: _rate_of_size(runs, size) for size in Size},
        structure=_mean_shape([run.structure.selected for run in runs if run.structure.selected]),
    )


def _rate_of_size(runs: Sequence[Diagnosis], size: Size) -> Rate:
    return hit_rate([_count_size(run.timeline, size) for run in runs])


def _count_size(events: Sequence[Event], size: Size) -> Count:
    hits = [event.hit for event in events if event.size is size]
    return Count(len(hits), sum(hits))


def _mean_shape(shapes: Sequence[Shape]) -> dict[str, float] | None:
    return (
        {field.name: fmean(getattr(shape, field.name) for shape in shapes) for field in fields(Shape)}
        if shapes
        else None
    )
