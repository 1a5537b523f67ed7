"""One flat row per run: what a CSV file and a data frame hold."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

from evopolicygym.analysis.diagnostics import Diagnosis, Shape, diagnose
from evopolicygym.analysis.load import RunFolder, Skipped, find_run_folders, open_run

Row = dict[str, Any]


@dataclass(frozen=True)
class Analysis:
    """All runs below some paths, and the folders that could not be read."""

    runs: tuple[Diagnosis, ...]
    skipped: tuple[Skipped, ...]


def analyse(paths: Iterable[Path]) -> Analysis:
    """One run at a time, so that memory does not hold them all."""
    runs: list[Diagnosis] = []
    skipped: list[Skipped] = []
    for folder in find_run_folders(list(paths)):
        opened = open_run(folder)
        if isinstance(opened, RunFolder):
            runs.append(diagnose(opened))
        else:
            skipped.append(opened)
    return Analysis(tuple(runs), tuple(skipped))


def load_runs(path: str | PathLike[str]) -> list[Row]:
    """One row per finished run in ``path`` or below; ``pandas.DataFrame(rows)`` takes them as they are. Folders that
    cannot be read are left out with a warning."""
    analysis = analyse([Path(path)])
    for skipped in analysis.skipped:
        warnings.warn(f"{skipped.folder} is left out: {skipped.reason}", stacklevel=3)
    return [row(run) for run in analysis.runs]


def row(run: Diagnosis) -> Row:
    """Plain values only. What is unknown is None."""
    return asdict(run.who) | _spending(run) | _progress(run) | _edits(run) | _structure(run)


def _spending(run: Diagnosis) -> Row:
    spent = asdict(run.spending)
    for listed in ("by_submission", "episodes_per_case", "refused"):
        del spent[listed]
    return spent | {"refused": sum(run.spending.refused.values())}


def _progress(run: Diagnosis) -> Row:
    facts = asdict(run.progress)
    del facts["curve"]
    return facts | {f"episodes_to_{share}": episodes for share, episodes in facts.pop("episodes_to").items()}


def _edits(run: Diagnosis) -> Row:
    numbers = {f"{kind}_edits": one.n for kind, one in run.edits.items()}
    hits = {f"{kind}_hits": one.hits for kind, one in run.edits.items()}
    return numbers | hits | {"phases": len(run.phases), "unresolved_imports": len(run.unresolved_imports)}


def _structure(run: Diagnosis) -> Row:
    shapes = {"first": run.structure.first, "selected": run.structure.selected, "last": run.structure.last}
    return {
        f"{when}_{field.name}": getattr(shape, field.name) if shape else None
        for when, shape in shapes.items()
        for field in fields(Shape)
    }
