"""How the runs of a suite stand: one row for each, from what lies in the suite's folder and from nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

from evopolicygym.analysis.scores import mean, run_score
from evopolicygym.errors import UserError
from evopolicygym.files import write_json
from evopolicygym.judge import scoring
from evopolicygym.judge.state import RunPhase, RunState
from evopolicygym.run_paths import RunPaths
from evopolicygym.run_record import load
from evopolicygym.runs.agent_limits import AgentSpending, spending
from evopolicygym.runs.run_status import has_begun, has_outcome, read_state
from evopolicygym.suites import log
from evopolicygym.suites.file import SpendingCap, Suite
from evopolicygym.suites.folder import SuiteFolder
from evopolicygym.suites.plan import PlannedRun

PHASES: Final = {
    RunPhase.OPEN: "playing",
    RunPhase.CLOSED: "validating",
    RunPhase.SELECTED: "measuring",
    RunPhase.FINISHED: "finished",
}


class SuiteRunStatus(StrEnum):
    """``missing``: finished without a score that counts, by no fault of the agent: the same command does it again.
    ``failed``: its process gave up. ``interrupted``: its process was killed. The same command goes on with both."""

    WAITING = "waiting"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    MISSING = "missing"
    SCORED = "scored"


@dataclass(frozen=True)
class SuiteRow:
    """``best`` is the best train mean so far. ``hidden_left`` are episodes until the outcome. ``wasted_tokens`` and
    ``wasted_dollars`` went into attempts that were superseded."""

    run: str
    task: str
    agent: str
    model: str | None
    seed: int
    status: SuiteRunStatus
    phase: str | None = None
    reason: str | None = None
    budget: int = 0
    charged: int = 0
    submissions: int = 0
    best: float | None = None
    hidden_left: int | None = None
    score: float | None = None
    comparable_id: str | None = None
    tokens: float | None = None
    dollars: float | None = None
    wasted_tokens: float = 0.0
    wasted_dollars: float = 0.0
    attempts: int = 0

    @property
    def is_over(self) -> bool:
        return self.status is SuiteRunStatus.SCORED

    @property
    def has_begun(self) -> bool:
        """There is something to go on with."""
        return self.phase is not None and self.status is not SuiteRunStatus.MISSING

    @property
    def needs_agent(self) -> bool:
        return not self.has_begun or self.phase == PHASES[RunPhase.OPEN]


def run_row(folder: SuiteFolder, planned: PlannedRun, is_running: bool) -> SuiteRow:
    root, told = folder.run(planned.name), log.last_attempt(folder.log(planned.name))
    agent, superseded = planned.settings.agent, folder.superseded(planned.name)
    assert agent is not None
    wasted = [_wasted(attempt) for attempt in superseded]
    facts: dict[str, Any] = {
        "run": planned.name,
        "task": planned.task.id,
        "agent": planned.agent,
        "model": agent.model,
        "seed": agent.seed,
        "budget": planned.settings.budget,
        "attempts": len(superseded) + has_begun(root),
        "wasted_tokens": sum(one.tokens or 0.0 for one in wasted),
        "wasted_dollars": sum(one.dollars or 0.0 for one in wasted),
    }
    if is_running:
        facts |= {"status": SuiteRunStatus.RUNNING, "reason": log.waits_for(folder.log(planned.name))}
    elif told and told.gave_up:
        facts |= {"status": SuiteRunStatus.FAILED, "reason": told.reason}
    else:
        status = SuiteRunStatus.INTERRUPTED if has_begun(root) else SuiteRunStatus.WAITING
        facts |= {"status": status, "reason": told and told.reason}
    if has_begun(root):
        try:
            facts |= _begun(root)
        except UserError as error:
            facts |= {"status": SuiteRunStatus.FAILED, "reason": error.message}
    return SuiteRow(**facts)


@cache
def _wasted(attempt: Path) -> AgentSpending:
    """Nobody writes there any more. What cannot be read is not counted."""
    try:
        return spending(read_state(attempt).turns)
    except UserError:
        return spending(())


def _begun(root: Path) -> dict[str, Any]:
    state = read_state(root)
    assert state.opened is not None
    means = [one.judged.tally.mean for one in state.submissions.values() if one.judged and one.judged.tally]
    used = spending(state.turns)
    facts = {
        "charged": state.charged,
        "submissions": len(state.submissions),
        "best": max(means, default=None),
        "hidden_left": scoring.left_to_play(state),
        "comparable_id": state.opened.facts["ids"]["comparable_id"],
        "phase": PHASES[state.phase],
        "tokens": used.tokens,
        "dollars": used.dollars,
    }
    return facts | (_finished(root, state) if has_outcome(root) else {})


def _finished(root: Path, state: RunState) -> dict[str, Any]:
    scored = run_score(load(root))
    if scored.missing:
        return {"status": SuiteRunStatus.MISSING, "reason": scored.missing}
    closed = state.closed.reason if state.closed else None
    return {"status": SuiteRunStatus.SCORED, "score": mean(scored.returns), "reason": closed, "hidden_left": 0}


VERSION: Final = 1


class SuiteStatus:
    def __init__(self, folder: SuiteFolder, planned: Iterable[PlannedRun], is_running: Callable[[str], bool]) -> None:
        self._folder, self._planned, self._is_running = folder, list(planned), is_running
        self._known: dict[str, tuple[Any, SuiteRow]] = {}

    def rows(self) -> list[SuiteRow]:
        return [self.row(planned) for planned in self._planned]

    def row(self, planned: PlannedRun) -> SuiteRow:
        place, running = RunPaths(self._folder.run(planned.name)), self._is_running(planned.name)
        seen = (running, *(_stamp(path) for path in (place.ledger, place.record, self._folder.log(planned.name))))
        known = self._known.get(planned.name)
        if known is None or known[0] != seen:
            known = self._known[planned.name] = (seen, run_row(self._folder, planned, running))
        return known[1]


def _stamp(path: os.PathLike[str]) -> tuple[int, int]:
    try:
        facts = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return (0, 0)
    return (facts.st_mtime_ns, facts.st_size)


def over_cap(rows: Iterable[SuiteRow], cap: SpendingCap) -> bool:
    """What nobody metered is not counted: a cap is as good as the clients' word."""
    rows = list(rows)
    tokens = sum((row.tokens or 0) + row.wasted_tokens for row in rows)
    dollars = sum((row.dollars or 0) + row.wasted_dollars for row in rows)
    return (cap.tokens is not None and tokens >= cap.tokens) or (cap.dollars is not None and dollars >= cap.dollars)


def table(suite: Suite, rows: Iterable[SuiteRow]) -> dict[str, Any]:
    """suite.json."""
    listed = list(rows)
    return {
        "schema_version": VERSION,
        "suite": suite.name,
        "complete": all(row.is_over for row in listed),
        "runs": [asdict(row) for row in listed],
    }


def write_table(folder: SuiteFolder, suite: Suite, rows: Iterable[SuiteRow]) -> None:
    write_json(folder.table, table(suite, rows))
