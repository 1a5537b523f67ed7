"""When to prompt the agent again, when to wait, and when it is over: a pure function of the ledger.

So a run that was killed anywhere goes on as if it had not been.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import takewhile
from typing import Final, Protocol

from evopolicygym.agents import home, prices, prompts
from evopolicygym.agents.turn import TRANSIENT, FailureKind, Turn
from evopolicygym.agents.usage import Usage, total_usage
from evopolicygym.judge.events import Prompted, Turned
from evopolicygym.judge.judge import Judge
from evopolicygym.judge.ledger import LedgerUnwritable
from evopolicygym.judge.state import RunPhase, RunState
from evopolicygym.runs import disk_reserve, serve
from evopolicygym.runs.agent_limits import AgentLimits, TurnWatch
from evopolicygym.runs.agent_process import AgentRunner, MustEnd, TurnRequest, start_failure
from evopolicygym.runs.locks import living_agent_lock
from evopolicygym.runs.open_run import OpenRun

AGENT_STOPPED: Final = "agent_stopped"
AGENT_FAILED: Final = "agent_failed"
PROVIDER_DOWN: Final = "provider_down"
IDLE_TURNS: Final = 3  # turns in a row without a submission: it has nothing more to say
FAILED_TURNS: Final = 3  # turns in a row that the client failed for a reason that waiting may not mend
PASSING: Final = TRANSIENT | {FailureKind.INTERRUPTED}  # no fault of the agent's
WAITS_S: Final = (1.0, 3.0, 9.0, 27.0, 81.0, 243.0, 300.0)  # short at first: mostly it is one dropped connection


@dataclass(frozen=True)
class CloseRun:
    """``reason`` closes the run."""

    reason: str


@dataclass(frozen=True)
class PromptAgent:
    """``wait_s`` first: the provider had asked for patience. ``session`` is None for the first words of all."""

    session: str | None
    wait_s: float = 0.0

    @property
    def is_opening(self) -> bool:
        return self.session is None


def decide(state: RunState, allowance: AgentLimits) -> CloseRun | PromptAgent:
    if state.phase is not RunPhase.OPEN:
        return CloseRun(state.closed.reason if state.closed else "closed")
    if limit := allowance.hit(state.turns):
        return CloseRun(f"limit_{limit}")
    if reason := _given_up(state.turns, allowance.retries):
        return CloseRun(reason)
    return PromptAgent(last_session(state.turns), _wait_s(state.turns))


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


def last_session(turns: tuple[Turned, ...]) -> str | None:
    return next((turn.session for turn in reversed(turns) if turn.session), None)


class RateLimitGroup(Protocol):
    def wait_s(self, seconds: float) -> float:
        """How long to wait before the next prompt, given that the provider asked us to wait this long: others may know
        that it is longer, and learn of ours."""

    def agent_is_gone(self) -> None:
        """All that is left is hidden scoring."""


class NoSharing:
    def wait_s(self, seconds: float) -> float:
        return seconds

    def agent_is_gone(self) -> None:
        pass


Prices = dict[str, prices.Price]
LAST_WORDS: Final = 2000  # characters kept in the ledger; the transcript has them all


async def play_agent(
    owner: OpenRun,
    make_player: Callable[[str], AgentRunner],
    allowance: AgentLimits,
    company: RateLimitGroup | None = None,
    table: Prices | None = None,
) -> None:
    """One run from its first prompt to its outcome; or from wherever it was interrupted. ``table``: what tokens cost,
    where that is not what ships."""
    company = company or NoSharing()

    async def play(url: str) -> str:
        stop = threading.Event()
        try:
            player = make_player(url)
        except home.HomeUnusable as error:
            company.agent_is_gone()
            start_failure(not owner.judge.state.turns and owner.judge.state.prompted_at is None, error)
            return AGENT_FAILED
        talk = asyncio.to_thread(_converse, owner.judge, player, allowance, stop, company.wait_s, table)
        conversation = asyncio.ensure_future(talk)
        try:
            return await asyncio.shield(conversation)
        finally:
            stop.set()
            player.close()
            await asyncio.wait([conversation])  # its thread may just have begun another turn, which it ends now
            disk_reserve.release(owner.place)
            company.agent_is_gone()

    async def play_apart(url: str) -> str:
        """While the agent lives, no hidden case of its task and splits is played on this machine."""
        if owner.judge.state.phase is not RunPhase.OPEN:
            return await play(url)
        root = owner.place.root
        remedy = f"Ctrl-C loses nothing: `evopolicygym run --resume {root}` goes on later."
        async with living_agent_lock(serve.case_set(owner), str(root), remedy):
            return await play(url)

    await serve.serve_run(owner, play_apart)


def _converse(
    judge: Judge,
    player: AgentRunner,
    allowance: AgentLimits,
    stop: threading.Event,
    wait_s: Callable[[float], float],
    table: Prices | None,
) -> str:
    """Prompt, record, decide: until it is over. A turn that we were killed in comes first."""
    entry = partial(_turned, asked_for=_model(judge.state), table=table)
    if judge.state.prompted_at:
        asked = _asked(judge.state, allowance, last_session(judge.state.turns), lambda signs: None)
        turn = player.interrupted(asked)
        _record(judge, entry(turn, len(judge.state.submissions)))
    while not isinstance(step := decide(judge.state, allowance), CloseRun):
        if stop.wait(wait_s(step.wait_s)):
            return serve.FINISHED_BY_HAND
        disk_reserve.make(judge.paths)
        _record(judge, Prompted(len(judge.state.turns) + 1))
        watch = TurnWatch(judge, allowance, stop, partial(entry, submissions=0))
        turn = player.turn(_asked(judge.state, allowance, step.session, watch))
        _record(judge, entry(turn, len(judge.state.submissions)))
    return step.reason


def _record(judge: Judge, event: Prompted | Turned) -> None:
    """With the room that was kept for it, where the agent has left none."""
    try:
        judge.record(event)
    except LedgerUnwritable:
        if not disk_reserve.release(judge.paths):
            raise
        judge.record(event)


def _asked(state: RunState, allowance: AgentLimits, session: str | None, over: MustEnd) -> TurnRequest:
    """The opening words, or the words to go on; a failed turn before them is called an interruption."""
    left = allowance.left(state.turns)
    if not state.turns:
        text = prompts.opening(state.budget, left)
    else:
        text = prompts.go_on(state.remaining, state.budget, state.turns[-1].failure is not None, left)
    earlier = [Usage(**turn.usage) for turn in state.turns if turn.usage and turn.session == session]
    return TurnRequest(len(state.turns) + 1, text, session, total_usage(earlier), over)


def _model(state: RunState) -> str | None:
    assert state.opened is not None
    agent = state.opened.facts["agent"]
    return agent["model"] if agent else None


def _turned(turn: Turn, submissions: int, asked_for: str | None, table: Prices | None) -> Turned:
    """What the client does not price is estimated, where the served model's price is known."""
    priced = prices.cost(turn.usage, turn.model or asked_for, table)
    return Turned(
        session=turn.session,
        exit_code=turn.exit_code,
        wall_s=turn.wall_s,
        submissions=submissions,
        usage={**asdict(turn.usage), "cost_usd": priced.usd} if turn.usage else None,
        model=turn.model,
        price={"source": priced.source, "quoted": priced.price},
        failure=turn.failure.kind if turn.failure else None,
        text=(turn.failure.text if turn.failure else turn.text)[-LAST_WORDS:],
        stop=turn.stop,
    )
