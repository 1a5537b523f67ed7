"""When to prompt the agent again, when to wait, and when it is over: a pure function of the ledger.

So a run that was killed anywhere goes on as if it had not been.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from evopolicygym.agents.turns import TRANSIENT, FailureKind
from evopolicygym.judge.events import Turned
from evopolicygym.judge.state import Phase, RunState
from evopolicygym.runs.agent_limits import Allowance

AGENT_STOPPED: Final = "agent_stopped"
AGENT_FAILED: Final = "agent_failed"
PROVIDER_DOWN: Final = "provider_down"
IDLE_TURNS: Final = 3  # turns in a row without a submission: it has nothing more to say
FAILED_TURNS: Final = 3  # turns in a row that the client failed for a reason that waiting may not mend
PASSING: Final = TRANSIENT | {FailureKind.INTERRUPTED}  # no fault of the agent's
WAITS_S: Final = (1.0, 3.0, 9.0, 27.0, 81.0, 243.0, 300.0)  # short at first: mostly it is one dropped connection


@dataclass(frozen=True)
class Over:
    """``reason`` closes the run."""

    reason: str


@dataclass(frozen=True)
class Prompt:
    """``wait_s`` first: the provider had asked for patience. ``session`` is None for the first words of all."""

    session: str | None
    wait_s: float = 0.0

    @property
    def is_opening(self) -> bool:
        return self.session is None


def next_step(state: RunState, allowance: Allowance) -> Over | Prompt:
    if state.phase is not Phase.OPEN:
        return Over(state.closed.reason if state.closed else "closed")
    if limit := allowance.hit(state.turns):
        return Over(f"limit_{limit}")
    if reason := _given_up(state.turns, allowance.retries):
        return Over(reason)
    return Prompt(session_of(state.turns), _wait_s(state.turns))


def _given_up(turns: tuple[Turned, ...], retries: int) -> str | None:
    if not turns:
        return None
    if turns[-1].stop:
        return AGENT_STOPPED
    if turns[-1].failure == FailureKind.AUTHENTICATION:
        return AGENT_FAILED
    if _transient_in_a_row(turns) > retries:
        return PROVIDER_DOWN
    if _in_a_row(turns, failed=True) >= FAILED_TURNS:
        return AGENT_FAILED
    is_idle = _in_a_row(turns, failed=False) >= IDLE_TURNS or _in_a_row(turns, failed=None) >= IDLE_TURNS + FAILED_TURNS
    return AGENT_STOPPED if is_idle else None


def _in_a_row(turns: tuple[Turned, ...], failed: bool | None) -> int:
    """Last turns without a new submission that failed for good, or that did not fail, or (None) either, or an agent
    that does both by turns would go on for ever; what waiting mends aside."""
    count, before = 0, [0, *(turn.submissions for turn in turns)]
    for turn, earlier in zip(reversed(turns), reversed(before[:-1]), strict=True):
        if turn.submissions > earlier:
            break
        if turn.failure not in PASSING:
            if failed is not None and (turn.failure is not None) != failed:
                break
            count += 1
    return count


def _transient_in_a_row(turns: tuple[Turned, ...]) -> int:
    return len(list(takewhile(lambda turn: turn.failure in TRANSIENT, reversed(turns))))


def _wait_s(turns: tuple[Turned, ...]) -> float:
    tries = _transient_in_a_row(turns)
    return WAITS_S[min(tries, len(WAITS_S)) - 1] if tries else 0.0


def session_of(turns: tuple[Turned, ...]) -> str | None:
    return next((turn.session for turn in reversed(turns) if turn.session), None)
