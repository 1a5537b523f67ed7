"""All runs below some paths, diagnosed one at a time; what cannot be read is named, and the rest goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evopolicygym.analysis.collect import Skipped
from evopolicygym.analysis.diagnostics import Diagnosis, diagnose
from evopolicygym.analysis.load import examine, find_run_folders


@dataclass(frozen=True)
class Survey:
    runs: tuple[Diagnosis, ...]
    skipped: tuple[Skipped, ...]


def survey(paths: Sequence[Path]) -> Survey:
    """Records are read and let go one by one: memory holds their diagnoses alone."""
    runs: list[Diagnosis] = []
    skipped: list[Skipped] = []
    for folder in find_run_folders(paths):
        found = examine(folder, diagnose)
        if isinstance(found, Diagnosis):
            runs.append(found)
        else:
            skipped.append(found)
    return Survey(tuple(runs), tuple(skipped))
