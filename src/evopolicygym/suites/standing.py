"""How the runs of a suite stand: one row for each, from what lies in the suite's folder and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

from evopolicygym.analysis.scores import mean, run_score
from evopolicygym.errors import UserError
from evopolicygym.judge import hidden
from evopolicygym.judge.state import Phase, RunState
from evopolicygym.run_record import load
from evopolicygym.runs.agent_limits import Spent, spent
from evopolicygym.runs.run_status import has_begun, has_outcome, look
from evopolicygym.suites import log
from evopolicygym.suites.folder import SuiteFolder
from evopolicygym.suites.plan import PlannedRun

PHASES: Final = {
    Phase.OPEN: "playing",
    Phase.CLOSED: "validating",
    Phase.SELECTED: "measuring",
    Phase.FINISHED: "finished",
}


class Status(StrEnum):
    """``missing``: finished without a score that counts, by no fault of the agent: the same command does it again.
    ``failed``: its process gave up. ``interrupted``: its process was killed. The same command goes on with both."""

    WAITING = "waiting"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    MISSING = "missing"
    SCORED = "scored"


@dataclass(frozen=True)
class Row:
    """``best`` is the best train mean so far. ``hidden_left`` are episodes until the outcome. ``wasted_tokens`` and
    ``wasted_dollars`` went into attempts that were superseded."""

    run: str
    task: str
    agent: str
    model: str | None
    seed: int
    status: Status
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
        return self.status is Status.SCORED

    @property
    def has_begun(self) -> bool:
        """There is something to go on with."""
        return self.phase is not None and self.status is not Status.MISSING

    @property
    def needs_agent(self) -> bool:
        return not self.has_begun or self.phase == PHASES[Phase.OPEN]


def standing(folder: SuiteFolder, planned: PlannedRun, is_running: bool) -> Row:
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
        facts |= {"status": Status.RUNNING, "reason": log.waits_for(folder.log(planned.name))}
    elif told and told.gave_up:
        facts |= {"status": Status.FAILED, "reason": told.reason}
    else:
        status = Status.INTERRUPTED if has_begun(root) else Status.WAITING
        facts |= {"status": status, "reason": told and told.reason}
    if has_begun(root):
        try:
            facts |= _begun(root)
        except UserError as error:
            facts |= {"status": Status.FAILED, "reason": error.message}
    return Row(**facts)


@cache
def _wasted(attempt: Path) -> Spent:
    """Nobody writes there any more. What cannot be read is not counted."""
    try:
        return spent(look(attempt).turns)
    except UserError:
        return spent(())


def _begun(root: Path) -> dict[str, Any]:
    state = look(root)
    assert state.opened is not None
    means = [one.judged.tally.mean for one in state.submissions.values() if one.judged and one.judged.tally]
    used = spent(state.turns)
    facts = {
        "charged": state.charged,
        "submissions": len(state.submissions),
        "best": max(means, default=None),
        "hidden_left": hidden.left_to_play(state),
        "comparable_id": state.opened.facts["ids"]["comparable_id"],
        "phase": PHASES[state.phase],
        "tokens": used.tokens,
        "dollars": used.dollars,
    }
    return facts | (_finished(root, state) if has_outcome(root) else {})


def _finished(root: Path, state: RunState) -> dict[str, Any]:
    scored = run_score(load(root))
    if scored.missing:
        return {"status": Status.MISSING, "reason": scored.missing}
    closed = state.closed.reason if state.closed else None
    return {"status": Status.SCORED, "score": mean(scored.returns), "reason": closed, "hidden_left": 0}
