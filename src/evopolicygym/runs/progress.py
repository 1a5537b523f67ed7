"""Report the progress of a run: what it is doing, how long that takes, and what its agent has used."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Final

from evopolicygym.gateway.metering import CallFile, ModelCall
from evopolicygym.judge import scoring
from evopolicygym.judge.judge import Judge, RunActivity
from evopolicygym.judge.state import RunPhase, RunState
from evopolicygym.run_progress import RunProgress
from evopolicygym.runs.agent.limits import AgentSpending, spending
from evopolicygym.tasks.splits import Split

ERROR_CHARACTERS: Final = 300
HELDOUT_PASSES: Final = 3  # twice the selected checkpoint, once the first


class RunWatch:
    """Reports the progress of a run that this process owns. Times are those in which a process owned the run: earlier
    owners, and since this watch was made."""

    def __init__(self, judge: Judge) -> None:
        self._judge, self._calls = judge, CallFile(judge.paths.root)
        self._began, self._played_before_s = time.monotonic(), played_s(judge.state)
        self._hidden: tuple[float, int] | None = None  # when hidden scoring began, and how much there was to play

    def progress(self) -> RunProgress:
        state, activity = self._judge.state, self._judge.activity
        used = live_spending(state, self._calls)
        resource = self._judge.shortage.resource
        if resource:
            self._judge.shortage.is_over()
        return RunProgress(
            phase=str(state.phase),
            charged=state.charged,
            budget=state.budget,
            submissions=len(state.submissions),
            turns=len(state.turns),
            validated=len(state.validation),
            best_train_mean=best_train_mean(state),
            doing=f"paused: no {resource}" if resource else doing(state, activity),
            hidden_left=hidden_left(state, activity),
            tokens=used.tokens,
            dollars=used.dollars,
            last_error=_last_error(state, activity),
            elapsed_s=self._elapsed_s,
            remaining_s=None if resource else self._remaining_s(state, activity),
            next_attempt_s=activity.next_attempt_s,
        )

    @property
    def _elapsed_s(self) -> float:
        return self._played_before_s + time.monotonic() - self._began

    def _remaining_s(self, state: RunState, activity: RunActivity) -> float | None:
        """Estimate from the pace so far; hidden episodes from that of train episodes at first."""
        if state.phase is RunPhase.OPEN:
            hidden = _expected_hidden_s(state)
            return None if hidden is None else state.remaining * self._elapsed_s / max(1, state.charged) + hidden
        now = time.monotonic()
        if not (remaining := hidden_left(state, activity)):
            return None
        began, total = self._hidden = self._hidden or (now, remaining)
        if remaining < total:
            return remaining * (now - began) / (total - remaining)
        pace = _train_episode_s(state)
        return None if pace is None else remaining * pace


def played_s(state: RunState) -> float:
    """Return the seconds in which a process owned the run. A clock that was set back does not make it negative."""
    return sum(max(0.0, (ended - began).total_seconds()) for began, ended in state.periods)


def live_spending(state: RunState, calls: CallFile) -> AgentSpending:
    """Return what the agent has used: by its turns, and by the calls to its model in the turn that is being played."""
    used, under_way = spending(state.turns), calls.since(len(state.turns) + 1)
    if not under_way:
        return used
    tokens = (used.tokens or 0) + sum(call.totals.tokens for call in under_way)
    dollars = _known_dollars(under_way)
    dollars_in_all = None if used.dollars is None and dollars is None else (used.dollars or 0) + (dollars or 0)
    return AgentSpending(tokens, dollars_in_all, (used.requests or 0) + sum(call.is_counted for call in under_way))


def _known_dollars(calls: list[ModelCall]) -> float | None:
    costs = [call.usage.cost_usd for call in calls if call.usage and call.usage.cost_usd is not None]
    return sum(costs) if costs else None


def best_train_mean(state: RunState) -> float | None:
    judged = (submission.judged for submission in state.submissions.values())
    return max((event.tally.mean for event in judged if event and event.tally), default=None)


def doing(state: RunState, activity: RunActivity | None = None) -> str:
    """Return in words what a run does now. Without ``activity``, by its ledger alone."""
    if state.phase is RunPhase.OPEN:
        if state.suspended:
            return f"suspended: {state.suspended.reason}"
        if activity and activity.next_attempt_at is not None:
            return "waiting for the provider" if activity.trouble else f"waiting for turn {len(state.turns) + 1}"
        if running := state.running:
            done = f" {activity.episodes}/{len(running.charged.cases)}" if activity else ""
            return f"playing {running.name}{done}"
        has_agent = state.opened is not None and state.opened.facts.get("agent")
        return f"agent in turn {len(state.turns) + 1}" if has_agent else "waiting for submissions"
    if state.phase is RunPhase.CLOSED:
        distinct = {candidate.charged.checkpoint.hash for candidate in state.candidates}
        return f"validating {min(len(state.validation) + 1, len(distinct))}/{len(distinct)}"
    return "measuring on held-out" if state.phase is RunPhase.SELECTED else "finished"


def waiting_text(state: RunState, activity: RunActivity, seconds: float) -> str:
    """Return the error that a run is waiting out, and the time of the next attempt, which is ``seconds`` from now."""
    error = " ".join(_last_error(state, activity).split())[:ERROR_CHARACTERS] or "another run has to wait"
    return f"{error}; next attempt at {datetime.fromtimestamp(time.time() + seconds):%H:%M:%S}"


def hidden_left(state: RunState, activity: RunActivity) -> int:
    """Return the hidden episodes until the outcome."""
    played = 0 if state.phase is RunPhase.OPEN else activity.episodes
    return max(0, scoring.remaining_episodes(state) - played)


def _last_error(state: RunState, activity: RunActivity) -> str:
    if activity.trouble:
        return activity.trouble
    if state.phase is not RunPhase.OPEN:
        return ""
    submissions = list(state.submissions.values())
    if submissions and submissions[-1].refunded:
        return f"the judge failed on {submissions[-1].name} and refunded it: {submissions[-1].refunded}"
    turn = state.turns[-1] if state.turns else None
    return f"{turn.failure}: {turn.text}" if turn and turn.failure else ""


def _train_episode_s(state: RunState) -> float | None:
    """Return the mean wall time of a train episode, with as many at a time as this run has."""
    judged = [submission for submission in state.submissions.values() if submission.judged]
    episodes = sum(len(submission.charged.cases) for submission in judged)
    return sum(each.judged.wall_s for each in judged if each.judged) / episodes if episodes else None


def _expected_hidden_s(state: RunState) -> float | None:
    """Estimate the time of hidden scoring, if the agent continues to submit as it did."""
    pace = _train_episode_s(state)
    if pace is None:
        return None
    checkpoints = len({candidate.charged.checkpoint.hash for candidate in state.candidates})
    expected = checkpoints * state.budget / max(1, state.charged)
    limit = state.opened.max_candidates if state.opened else None
    validated = min(expected, limit or expected) * scoring.count(state, Split.VALIDATION)
    return pace * (validated + HELDOUT_PASSES * scoring.count(state, Split.HELDOUT))
