"""The status of a suite: one row for each run, read from the suite's folder alone, and the totals over all rows."""

from __future__ import annotations

import json
import math
import os
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from evopolicygym import run_record
from evopolicygym.analysis.scores import mean, run_score
from evopolicygym.errors import UserError
from evopolicygym.files import read_json_file, write_json
from evopolicygym.gateway.call_limits import CallTotals
from evopolicygym.gateway.metering import CallFile
from evopolicygym.judge import ledger, scoring
from evopolicygym.judge.state import Period, RunPhase, RunState
from evopolicygym.run_paths import RunPaths
from evopolicygym.run_record import RunRecord, conditions_text
from evopolicygym.runs.agent.limits import AgentSpending, spending
from evopolicygym.runs.progress import live_spending
from evopolicygym.runs.run_status import has_begun, read_outcome, read_state
from evopolicygym.suites.file import PlannedRun
from evopolicygym.suites.folder import MAX_LOG_BYTES, Attempt, SuiteFolder, last_attempt, size_of, waiting_reason

VERSION: Final = 1
MAX_TABLE_BYTES: Final = 64 << 20
MAX_STATUS_BYTES: Final = 4 << 30  # of ledgers, records and logs together: a whole suite of 20,000 runs has 2 GiB
PHASES: Final = {
    RunPhase.OPEN: "playing",
    RunPhase.CLOSED: "validating",
    RunPhase.SELECTED: "measuring",
    RunPhase.FINISHED: "finished",
}
MIB: Final = 1 << 20
HIDDEN_SHARE: Final = 0.1  # of a run, for its hidden scoring
LEAST_DONE: Final = 0.05  # runs; with less there is nothing to estimate from


WorkPeriod = tuple[float, float | None]
Superseded = Callable[[], dict[str, list[Path]]]


class SuiteRunStatus(StrEnum):
    """How a run of a suite stands.

    ``missing``: it finished without a score that counts, through no fault of the agent; the same command does it
    again. ``suspended``: it stopped for something that is not the agent's doing, and was retried. ``failed``: its
    process gave up. ``interrupted``: its process was killed. The same command continues these three. ``unready``: it
    was left out, because its agent or task cannot be played here.
    """

    WAITING = "waiting"
    UNREADY = "unready"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    SUSPENDED = "suspended"
    MISSING = "missing"
    SCORED = "scored"


@dataclass(frozen=True)
class SuiteRow:
    """One run of a suite, as in suite.json.

    ``conditions`` says how they differ from the default ones.
    ``best`` is the best train mean so far, ``hidden_left`` the number of hidden episodes until the outcome.
    ``wasted_tokens``, ``wasted_dollars`` and ``wasted_requests`` were spent on attempts that were superseded.
    ``began_at`` and ``ended_at`` are in seconds since 1970, and so are the ``periods`` in which a process worked on the
    run: begin and end of each, the end None for one that is at work.
    """

    run: str
    task: str
    agent: str
    model: str | None
    seed: int
    status: SuiteRunStatus
    conditions: str = ""
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
    requests: float | None = None
    wasted_tokens: float = 0.0
    wasted_dollars: float = 0.0
    wasted_requests: float = 0.0
    attempts: int = 0
    began_at: float | None = None
    ended_at: float | None = None
    periods: tuple[WorkPeriod, ...] = ()

    @property
    def used(self) -> CallTotals:
        """Usage of the run, as far as it is known."""
        return CallTotals(self.tokens or 0, self.dollars or 0, self.requests or 0)

    @property
    def wasted(self) -> CallTotals:
        return CallTotals(self.wasted_tokens, self.wasted_dollars, self.wasted_requests)

    @property
    def is_over(self) -> bool:
        return self.status is SuiteRunStatus.SCORED

    @property
    def has_begun(self) -> bool:
        """Whether there is a run to continue."""
        return self.phase is not None and self.status is not SuiteRunStatus.MISSING

    @property
    def needs_agent(self) -> bool:
        return not self.has_begun or self.phase == PHASES[RunPhase.OPEN]


class SuiteStatus:
    """All rows of a suite. A row is read again only when the files behind it have changed.

    Args:
        folder: Of the suite.
        planned: Its runs.
        is_running: Whether a process works on the run of a name.
        left_out: Runs that cannot be played, with the reasons.
        at_most: Bytes of ledgers, records and logs that are read in all, for a folder that may come from another
            person; None is no limit. Runs beyond it are shown as not read.
    """

    def __init__(
        self,
        folder: SuiteFolder,
        planned: Iterable[PlannedRun],
        is_running: Callable[[str], bool],
        left_out: Mapping[str, str] = MappingProxyType({}),
        at_most: int | None = None,
    ) -> None:
        self._folder, self._planned, self._is_running = folder, list(planned), is_running
        self._left_out, self._at_most, self._read_bytes = left_out, at_most, 0
        self._cache: dict[str, tuple[Any, SuiteRow]] = {}

    def rows(self) -> list[SuiteRow]:
        superseded = cache(self._folder.superseded)
        return [self.row(planned, superseded) for planned in self._planned]

    def row(self, planned: PlannedRun, superseded: Superseded | None = None) -> SuiteRow:
        paths, is_running = RunPaths(self._folder.run(planned.name)), self._is_running(planned.name)
        files = (paths.ledger, paths.record, self._folder.log(planned.name), paths.model_calls)
        state = (is_running, *map(_modified, files))
        cached = self._cache.get(planned.name)
        if cached is None or cached[0] != state:
            attempts = (superseded or self._folder.superseded)().get(planned.name, ())
            row = self._read(planned, is_running, attempts)
            if (reason := self._left_out.get(planned.name)) and not row.is_over:
                row = replace(row, status=SuiteRunStatus.UNREADY, reason=reason)
            cached = self._cache[planned.name] = (state, row)
        return cached[1]

    def _read(self, planned: PlannedRun, is_running: bool, superseded: Sequence[Path]) -> SuiteRow:
        """Read a row, or return one that says that it was not read."""
        size = _read_size(RunPaths(self._folder.run(planned.name)), self._folder.log(planned.name), superseded)
        if self._at_most is not None and self._read_bytes + size > self._at_most:
            reason = (
                f"not read: its ledgers, record and log have {size / MIB:,.1f} MiB, those of the runs before it "
                f"{self._read_bytes / MIB:,.1f} MiB, and at most {self._at_most / MIB:,.0f} MiB are read"
            )
            status = SuiteRunStatus.RUNNING if is_running else SuiteRunStatus.FAILED
            return SuiteRow(**_planned_facts(planned) | {"status": status, "reason": reason})
        self._read_bytes += size
        return _read_row(self._folder, planned, is_running, superseded)


def _read_size(paths: RunPaths, log: Path, superseded: Iterable[Path]) -> int:
    """Return how many bytes a row is read from. A file beyond its own bound is refused unread."""
    bounds = ((paths.ledger, ledger.MAX_BYTES), (paths.record, run_record.MAX_BYTES), (log, MAX_LOG_BYTES))
    earlier = ((RunPaths(path).ledger, ledger.MAX_BYTES) for path in superseded)
    return sum(size for path, bound in (*bounds, *earlier) if (size := size_of(path)) <= bound)


def status_json(name: str, rows: Iterable[SuiteRow]) -> dict[str, Any]:
    """Return the content of suite.json."""
    listed = list(rows)
    return {
        "schema_version": VERSION,
        "suite": name,
        "complete": all(row.is_over for row in listed),
        "runs": [asdict(row) for row in listed],
    }


def last_left_out(folder: SuiteFolder) -> dict[str, str]:
    """Return the runs that `suite run --skip-unready` left out last, with the reasons, as suite.json says. The folder
    may come from another person: what is no such row is ignored."""
    try:
        rows = json.loads(read_json_file(folder.root, folder.table.name, MAX_TABLE_BYTES))["runs"]
        left_out = {row["run"]: row["reason"] for row in rows if row["status"] == SuiteRunStatus.UNREADY}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    return {run: reason for run, reason in left_out.items() if isinstance(run, str) and isinstance(reason, str)}


def write_status(folder: SuiteFolder, name: str, rows: Iterable[SuiteRow]) -> None:
    write_json(folder.table, status_json(name, rows))


def _modified(path: os.PathLike[str]) -> tuple[int, int]:
    try:
        info = os.lstat(path)
    except OSError:
        return (0, 0)
    return (info.st_mtime_ns, info.st_size)


def _read_row(folder: SuiteFolder, planned: PlannedRun, is_running: bool, superseded: Sequence[Path]) -> SuiteRow:
    root, attempt = folder.run(planned.name), last_attempt(folder.log(planned.name))
    wasted, is_begun = [_wasted(path) for path in superseded], has_begun(root)
    facts = _planned_facts(planned) | {
        "attempts": len(superseded) + is_begun,
        "periods": _periods((), attempt.starts if attempt else (), is_running),
        "wasted_tokens": sum(attempt.tokens or 0.0 for attempt in wasted),
        "wasted_dollars": sum(attempt.dollars or 0.0 for attempt in wasted),
        "wasted_requests": sum(attempt.requests or 0.0 for attempt in wasted),
    }
    if is_running:
        facts |= {"status": SuiteRunStatus.RUNNING, "reason": waiting_reason(folder.log(planned.name))}
    elif attempt and attempt.gave_up:
        facts |= {"status": SuiteRunStatus.FAILED, "reason": attempt.reason}
    else:
        status = SuiteRunStatus.INTERRUPTED if is_begun else SuiteRunStatus.WAITING
        facts |= {"status": status, "reason": attempt and attempt.reason}
    if root.is_symlink():
        facts |= {"status": SuiteRunStatus.FAILED, "reason": "its folder is a link, which is not followed"}
    elif is_begun:
        try:
            facts |= _progress(root, is_running, attempt)
        except UserError as error:
            facts |= {"status": SuiteRunStatus.FAILED, "reason": error.message}
    return SuiteRow(**facts)


def _planned_facts(planned: PlannedRun) -> dict[str, Any]:
    """Return the columns that follow from the suite's file alone."""
    settings, agent = planned.settings, planned.settings.agent
    assert agent is not None
    return {
        "run": planned.name,
        "task": planned.task.id,
        "agent": planned.agent,
        "model": agent.model,
        "seed": agent.seed,
        "budget": settings.budget,
        "conditions": conditions_text(settings.text, settings.variant, settings.own_models, settings.feedback),
    }


@cache
def _wasted(attempt: Path) -> AgentSpending:
    """Return what a superseded attempt spent; nothing when its ledger cannot be read. The folder no longer changes."""
    try:
        return spending(read_state(attempt).turns)
    except UserError:
        return spending(())


def _progress(root: Path, is_running: bool, attempt: Attempt | None) -> dict[str, Any]:
    """Return the columns of a run that has begun."""
    state, run = read_outcome(root)
    assert state.opened is not None
    judged = [submission.judged for submission in state.submissions.values()]
    means = [verdict.tally.mean for verdict in judged if verdict and verdict.tally]
    used = live_spending(state, CallFile(root)) if is_running else spending(state.turns)
    facts = {
        "charged": state.charged,
        "submissions": len(state.submissions),
        "best": max(means, default=None),
        "hidden_left": scoring.remaining_episodes(state),
        "comparable_id": state.opened.facts["ids"]["comparable_id"],
        "phase": PHASES[state.phase],
        "tokens": used.tokens,
        "dollars": used.dollars,
        "requests": used.requests,
        "began_at": state.opened_at.timestamp() if state.opened_at else None,
        "ended_at": state.finished_at.timestamp() if state.finished_at else None,
        "periods": _periods(state.periods, attempt.starts if attempt else (), is_running),
    }
    if state.suspended and not is_running:
        text = f"{state.suspended.reason}: {state.suspended.text}" if state.suspended.text else state.suspended.reason
        tries = f" (started {attempt.number} times)" if attempt and attempt.number > 1 else ""
        facts |= {"status": SuiteRunStatus.SUSPENDED, "reason": f"{text}{tries}"}
    return facts | (_outcome(run, state) if run else {})


def _periods(owned: Sequence[Period], starts: Sequence[float], is_running: bool) -> tuple[WorkPeriod, ...]:
    """Return when processes worked on a run: each from its start to the last line that it wrote to the ledger.
    ``starts`` are known for the processes that the suite started; others count from when they ``owned`` the run."""
    periods: list[WorkPeriod] = []
    ended_at, ordered = -math.inf, sorted(starts)
    for began, ended in owned:
        owned_at = began.timestamp()
        started = bisect_right(ordered, owned_at)
        began_at = ordered[started - 1] if started and ordered[started - 1] >= ended_at else owned_at
        ended_at = ended.timestamp()
        periods.append((began_at, ended_at))
    if is_running and periods and periods[-1][0] >= max(starts, default=0.0):
        return (*periods[:-1], (periods[-1][0], None))
    return (*periods, (starts[-1], None)) if is_running and starts else tuple(periods)


def _outcome(run: RunRecord, state: RunState) -> dict[str, Any]:
    scored = run_score(run)
    if scored.missing:
        return {"status": SuiteRunStatus.MISSING, "reason": scored.missing}
    closed = state.closed.reason if state.closed else None
    return {"status": SuiteRunStatus.SCORED, "score": mean(scored.returns), "reason": closed, "hidden_left": 0}


@dataclass(frozen=True)
class SuiteTotals:
    """Totals of a suite. ``statuses`` counts runs by status. ``tokens`` and ``dollars`` include attempts that were
    superseded; None if nothing is reported. ``elapsed_s`` is the time in which a run was played, without the time
    between an interruption and its continuation; ``remaining_s`` is an estimate from that, None without anything to go
    by."""

    runs: int
    scored: int
    statuses: dict[str, int]
    episodes: int
    budget: int
    tokens: float | None
    dollars: float | None
    elapsed_s: float
    remaining_s: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def suite_totals(rows: Sequence[SuiteRow], now: float | None = None) -> SuiteTotals:
    """Add up the rows of a suite."""
    elapsed_s = _elapsed_s(rows, time.time() if now is None else now)
    done = sum(map(_share_done, rows))
    playable = sum(row.status != SuiteRunStatus.UNREADY for row in rows)
    return SuiteTotals(
        runs=len(rows),
        scored=sum(row.is_over for row in rows),
        statuses=dict(Counter(str(row.status) for row in rows)),
        episodes=sum(row.charged for row in rows),
        budget=sum(row.budget for row in rows),
        tokens=_sum([row.tokens for row in rows], [row.wasted_tokens for row in rows]),
        dollars=_sum([row.dollars for row in rows], [row.wasted_dollars for row in rows]),
        elapsed_s=elapsed_s,
        remaining_s=elapsed_s * (playable - done) / done if LEAST_DONE <= done < playable else None,
    )


def _elapsed_s(rows: Sequence[SuiteRow], now: float) -> float:
    """Return the time in which at least one run was played."""
    periods = sorted((began, now if ended is None else ended) for row in rows for began, ended in row.periods)
    elapsed_s, played_until = 0.0, -math.inf
    for began, ended in periods:
        elapsed_s += max(0.0, ended - max(began, played_until))
        played_until = max(played_until, ended)
    return elapsed_s


def _share_done(row: SuiteRow) -> float:
    return 1.0 if row.is_over else (1 - HIDDEN_SHARE) * row.charged / max(1, row.budget)


def _sum(amounts: Sequence[float | None], wasted: Sequence[float]) -> float | None:
    reported = [amount for amount in amounts if amount is not None]
    return sum(reported) + sum(wasted) if reported or any(wasted) else None
