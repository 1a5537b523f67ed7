"""All rows of a suite. A ledger that has not grown is not read again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Final

from evopolicygym.files import write_json
from evopolicygym.run_paths import RunPaths
from evopolicygym.suites.file import Cap, Suite
from evopolicygym.suites.folder import SuiteFolder
from evopolicygym.suites.plan import PlannedRun
from evopolicygym.suites.standing import Row, standing

VERSION: Final = 1


class Survey:
    def __init__(self, folder: SuiteFolder, planned: Iterable[PlannedRun], is_running: Callable[[str], bool]) -> None:
        self._folder, self._planned, self._is_running = folder, list(planned), is_running
        self._known: dict[str, tuple[Any, Row]] = {}

    def rows(self) -> list[Row]:
        return [self.row(planned) for planned in self._planned]

    def row(self, planned: PlannedRun) -> Row:
        place, running = RunPaths(self._folder.run(planned.name)), self._is_running(planned.name)
        seen = (running, *(_stamp(path) for path in (place.ledger, place.record, self._folder.log(planned.name))))
        known = self._known.get(planned.name)
        if known is None or known[0] != seen:
            known = self._known[planned.name] = (seen, standing(self._folder, planned, running))
        return known[1]


def _stamp(path: os.PathLike[str]) -> tuple[int, int]:
    try:
        facts = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return (0, 0)
    return (facts.st_mtime_ns, facts.st_size)


def over_cap(rows: Iterable[Row], cap: Cap) -> bool:
    """What nobody metered is not counted: a cap is as good as the clients' word."""
    rows = list(rows)
    tokens = sum((row.tokens or 0) + row.wasted_tokens for row in rows)
    dollars = sum((row.dollars or 0) + row.wasted_dollars for row in rows)
    return (cap.tokens is not None and tokens >= cap.tokens) or (cap.dollars is not None and dollars >= cap.dollars)


def table(suite: Suite, rows: Iterable[Row]) -> dict[str, Any]:
    """suite.json."""
    listed = list(rows)
    return {
        "schema_version": VERSION,
        "suite": suite.name,
        "complete": all(row.is_over for row in listed),
        "runs": [asdict(row) for row in listed],
    }


def write_table(folder: SuiteFolder, suite: Suite, rows: Iterable[Row]) -> None:
    write_json(folder.table, table(suite, rows))
