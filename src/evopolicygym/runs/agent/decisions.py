"""Decide what a run does next: prompt the agent, close the run, or suspend it. Pure functions of the ledger.

A run is closed, and scored, for what the agent did or for a limit. It is suspended, and not scored, while budget is
left and the trouble is not the agent's doing: a network that is down, a refused key, a provider that hangs, a program
that never started. Turns before a suspension do not count again when the run continues.

Once an agent has worked, its word for such trouble is not enough: it could turn a bad run into a missing one. With the
gateway, trouble counts in turns in which the gateway saw it; in others the client failed. Without the gateway, the run
is suspended so that the user can fix the cause; `finish`, the last retry of a suite, and the sixth such suspension
without a submission in between score it as it is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Final

from evopolicygym.agents.failures import LOST_SESSION, TRANSIENT, FailureKind
from evopolicygym.errors import RunSuspended
from evopolicygym.judge.events import Turned
from evopolicygym.judge.state import RunPhase, RunState
from evopolicygym.printable import one_line
from evopolicygym.runs.agent.limits import AgentLimits
from evopolicygym.runs.record import agent_worked

AGENT_STOPPED: Final = "agent_stopped"
AGENT_FAILED: Final = "agent_failed"
PROVIDER_DOWN: Final = "provider_down"
AUTHENTICATION: Final = "authentication"
SILENCE: Final = "silence"
NEVER_WORKED: Final = "agent_never_worked"
IDLE_TURNS: Final = 3  # consecutive turns without a submission after which the agent counts as done
FAILED_TURNS: Final = 3  # consecutive turns that failed for a reason that waiting may not remove
REFUSED_KEYS: Final = 3  # consecutive turns with a refused key: a single refusal may pass
UNSEEN_SUSPENSIONS: Final = 5  # consecutive ones, without a submission, for trouble that only the agent reports
OUTSIDE: Final = TRANSIENT | {FailureKind.AUTHENTICATION}  # failures of provider, network and account
NOT_THE_AGENTS: Final = OUTSIDE | {FailureKind.INTERRUPTED}  # failures that do not count against the agent
WAITS_S: Final = (1.0, 3.0, 9.0, 27.0, 81.0, 243.0, 300.0)  # short at first: mostly one connection was dropped
SUSPENDED: Final = {
    PROVIDER_DOWN: (
        "its provider or the network failed in too many turns",
        "Check the network and the provider",
    ),
    AUTHENTICATION: ("its key or login was refused", "Renew the key or the login (`evopolicygym agent check NAME`)"),
    SILENCE: ("its client said nothing for too long in three turns", "Check the provider, or raise --max-silence"),
    NEVER_WORKED: (
        "no turn of the agent ever succeeded",
        "Fix it (`evopolicygym agent check NAME` checks a client). Start a new run with an agent that you changed; "
        "if its surroundings were the trouble",
    ),
}


@dataclass(frozen=True)
class CloseRun:
    """Decision: the run is over, for this reason."""

    reason: str


@dataclass(frozen=True)
class SuspendRun:
    """Decision: stop for a reason that is not the agent's fault, and keep the run as it is. ``is_seen``: the judge saw
    the trouble itself, or the agent never worked and so cannot gain by it."""

    reason: str
    is_seen: bool = True


@dataclass(frozen=True)
class PromptAgent:
    """Decision: prompt the agent after ``wait_s`` seconds. ``session`` is None for a new one."""

    session: str | None
    wait_s: float = 0.0


def decide(state: RunState, limits: AgentLimits) -> CloseRun | SuspendRun | PromptAgent:
    """Return what to do next: a pure function of the ledger."""
    if state.phase is not RunPhase.OPEN:
        return CloseRun(state.closed.reason if state.closed else "closed")
    if limit := limits.first_hit(state.turns):
        return CloseRun(f"limit_{limit}")
    turns = _without_unseen_trouble(state, state.turns[state.turns_before :])
    end = _end(state, turns, limits.retries) or PromptAgent(session_to_continue(state.turns), _wait_s(turns))
    if isinstance(end, SuspendRun) and not end.is_seen and state.idle_suspensions >= UNSEEN_SUSPENSIONS:
        return CloseRun(AGENT_FAILED)  # only the agent reports the trouble, again and again
    return end


def suspension(decision: SuspendRun, state: RunState, root: Path) -> RunSuspended:
    """Return the error that ends the process of a suspended run: what happened, what is kept, what to do."""
    reason = decision.reason
    text, remedy = SUSPENDED[reason]
    unseen = (
        ""
        if decision.is_seen
        else f" Only the agent reports this trouble: it is scored if it is suspended {UNSEEN_SUSPENSIONS} more times "
        "without a submission; in a suite, by the last retry."
    )
    cause = state.turns[-1].text if state.turns else ""
    folder = shlex.quote(str(root))
    return RunSuspended(
        reason,
        cause,
        f"the run in {root} is suspended ({reason}): {text}.{f' Its last error: {one_line(cause)}' if cause else ''}\n"
        f"{state.charged} of {state.budget} training episodes are used. Everything is kept, and nothing is scored."
        f"{unseen}",
        f"{remedy}, then continue: evopolicygym run --resume {folder}\n"
        f"Or score what was submitted: evopolicygym finish {folder}",
    )


def session_to_continue(turns: Sequence[Turned]) -> str | None:
    """Return the client's session to continue. None starts a new one: no session exists, or the client cannot continue
    the last one, because it says so or has failed twice in it."""
    session = last_session(turns)
    failed = list(takewhile(lambda turn: turn.failure == FailureKind.CLIENT, reversed(turns)))
    in_session = [turn for turn in failed if turn.session in (None, session)]
    is_lost = bool(in_session) and LOST_SESSION.search(in_session[0].text) is not None
    return None if is_lost or len(in_session) > 1 else session


def last_session(turns: Sequence[Turned]) -> str | None:
    """Return the client's session to continue."""
    return next((turn.session for turn in reversed(turns) if turn.session), None)


def _end(state: RunState, turns: Sequence[Turned], retries: int) -> CloseRun | SuspendRun | None:
    """Return how the run ends now; None if it continues. ``turns`` are those since the last suspension."""
    if not turns:
        return None
    if turns[-1].stop:
        return CloseRun(AGENT_STOPPED)
    is_seen = not agent_worked(state) or _gateway_saw_trouble(turns[-1]) is True
    if _last_failures(turns, frozenset({FailureKind.AUTHENTICATION})) >= REFUSED_KEYS:
        return SuspendRun(AUTHENTICATION, is_seen)
    if _last_failures(turns, OUTSIDE) > retries:
        return SuspendRun(PROVIDER_DOWN, is_seen)
    earlier = state.turns[state.turns_before - 1].submissions if state.turns_before else 0
    if _fruitless_turns(turns, earlier, failed=True) >= FAILED_TURNS:
        if turns[-1].failure == FailureKind.TIMEOUT:  # of the client, or of the provider that it waits for
            return SuspendRun(SILENCE, is_seen)
        return CloseRun(AGENT_FAILED) if agent_worked(state) else SuspendRun(NEVER_WORKED)
    is_idle = _fruitless_turns(turns, earlier, failed=False) >= IDLE_TURNS
    # An agent that fails and idles by turns would otherwise continue forever.
    is_idle = is_idle or _fruitless_turns(turns, earlier, failed=None) >= IDLE_TURNS + FAILED_TURNS
    return CloseRun(AGENT_STOPPED) if is_idle else None


def _without_unseen_trouble(state: RunState, turns: Sequence[Turned]) -> Sequence[Turned]:
    """Return the turns; trouble that the gateway did not see becomes a failure of the client."""
    if not agent_worked(state):
        return turns
    kinds = OUTSIDE | {FailureKind.TIMEOUT}
    return tuple(
        replace(turn, failure=FailureKind.CLIENT)
        if turn.failure in kinds and _gateway_saw_trouble(turn) is False
        else turn
        for turn in turns
    )


def _gateway_saw_trouble(turn: Turned) -> bool | None:
    """Return whether calls of the turn failed through no fault of the agent; None without the gateway."""
    return None if turn.calls is None else bool(turn.calls.get("trouble"))


def _fruitless_turns(turns: Sequence[Turned], earlier: int, failed: bool | None) -> int:
    """Count the last consecutive turns without a new submission: the failed ones, the others, or (``failed`` is None)
    both. Failures that are not the agent's are skipped. ``earlier``: submissions before these turns."""
    count, submissions_before = 0, [earlier, *(turn.submissions for turn in turns)]
    for turn, before in zip(reversed(turns), reversed(submissions_before[:-1]), strict=True):
        if turn.submissions > before:
            break
        if turn.failure not in NOT_THE_AGENTS:
            if failed is not None and (turn.failure is not None) != failed:
                break
            count += 1
    return count


def _last_failures(turns: Sequence[Turned], kinds: frozenset[FailureKind]) -> int:
    """Count the last consecutive turns that failed in one of these ways."""
    return len(list(takewhile(lambda turn: turn.failure in kinds, reversed(turns))))


def _wait_s(turns: Sequence[Turned]) -> float:
    failures = _last_failures(turns, OUTSIDE)
    return WAITS_S[min(failures, len(WAITS_S)) - 1] if failures else 0.0
