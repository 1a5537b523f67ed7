"""One flat row per run: what a CSV file and a data frame hold."""

from __future__ import annotations

import warnings
from dataclasses import asdict, fields
from os import PathLike
from pathlib import Path
from typing import Any

from evopolicygym.analysis.between import files_opened
from evopolicygym.analysis.diagnostics import Diagnosis, Shape
from evopolicygym.analysis.survey import survey

Row = dict[str, Any]


def load_runs(path: str | PathLike[str]) -> list[Row]:
    """One row per finished run in ``path`` or below; ``pandas.DataFrame(rows)`` takes them as they are. Folders that
    cannot be read are left out with a warning."""
    found = survey([Path(path)])
    for skipped in found.skipped:
        warnings.warn(f"{skipped.path} is left out: {skipped.why}", stacklevel=3)
    return [row(run) for run in found.runs]


def row(run: Diagnosis) -> Row:
    """Plain values only. What is unknown is None."""
    return asdict(run.who) | _spending(run) | _progress(run) | _edits(run) | _structure(run)


def _spending(run: Diagnosis) -> Row:
    spent = asdict(run.spending)
    for listed in ("by_submission", "by_turn", "episodes_per_case", "refused", "tokens"):
        del spent[listed]
    tokens = {f"{kind}_tokens": amount for kind, amount in asdict(run.spending.tokens).items()}
    return spent | {"refused": sum(run.spending.refused.values())} | tokens | _between(run)


def _between(run: Diagnosis) -> Row:
    meanwhile = [one.between for one in run.spending.by_submission]
    return {
        "submissions_with_tokens": sum(one.tokens is not None for one in meanwhile),
        "feedback_files_opened": files_opened(meanwhile),
    }


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
