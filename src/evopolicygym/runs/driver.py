"""The driver: opens the door, lets the agent play turn after turn, ends it, and has the run scored. Always."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Final

from evopolicygym.agents import prices, prompts
from evopolicygym.agents.turns import Turn, Usage, total
from evopolicygym.judge.events import Inspected, Prompted, Turned
from evopolicygym.judge.judge import Judge
from evopolicygym.judge.state import Phase, RunState
from evopolicygym.runs import service
from evopolicygym.runs.allowance import Allowance
from evopolicygym.runs.company import Alone, Company
from evopolicygym.runs.conversation import Over, next_step
from evopolicygym.runs.integrity import inspect
from evopolicygym.runs.ownership import Owner
from evopolicygym.runs.players import Asked, Player

GRACE_S: Final = 60.0  # for the last words of an agent whose budget is spent
LAST_WORDS: Final = 2000  # characters kept in the ledger; the transcript has them all


async def drive(
    owner: Owner, make_player: Callable[[str], Player], allowance: Allowance, company: Company | None = None
) -> None:
    """One run from its first prompt to its outcome; or from wherever it was interrupted."""
    company = company or Alone()

    async def play(url: str) -> str:
        stop = threading.Event()
        player = make_player(url)
        try:
            return await asyncio.to_thread(_converse, owner.judge, player, allowance, stop, company.wait_s)
        finally:
            stop.set()
            player.close()
            company.agent_is_gone()
            if owner.judge.state.inspected is None:
                owner.judge.record(Inspected(inspect(owner.place)))

    await service.serve(owner, play)


def _converse(
    judge: Judge, player: Player, allowance: Allowance, stop: threading.Event, wait_s: Callable[[float], float]
) -> str:
    """Prompt, record, decide: until it is over. A turn that we were killed in comes first."""
    if judge.state.prompted_at:
        turn = player.interrupted(len(judge.state.turns) + 1, judge.state.prompted_at)
        judge.record(_turned(turn, len(judge.state.submissions), _model(judge.state)))
    while not isinstance(step := next_step(judge.state, allowance), Over):
        if stop.wait(wait_s(step.wait_s)):
            return service.BY_HAND
        judge.record(Prompted(len(judge.state.turns) + 1))
        turn = player.turn(_asked(judge.state, step.session, _watch(judge, allowance, stop)))
        judge.record(_turned(turn, len(judge.state.submissions), _model(judge.state)))
    return step.reason


def _asked(state: RunState, session: str | None, over: Callable[[], bool]) -> Asked:
    """The opening words, or the words to go on; a failed turn before them is called an interruption."""
    if not state.turns:
        text = prompts.opening(state.budget)
    else:
        text = prompts.go_on(state.remaining, state.budget, interrupted=state.turns[-1].failure is not None)
    earlier = [Usage(**turn.usage) for turn in state.turns if turn.usage and turn.session == session]
    return Asked(len(state.turns) + 1, text, session, total(earlier), over)


def _model(state: RunState) -> str | None:
    assert state.opened is not None
    agent = state.opened.facts["agent"]
    return agent["model"] if agent else None


def _watch(judge: Judge, allowance: Allowance, stop: threading.Event) -> Callable[[], bool]:
    """Whether the agent's time is up: it was stopped, its hours are over, or its run has been closed for a while."""
    left = allowance.seconds_left(judge.state.turns)
    deadline = None if left is None else time.monotonic() + left
    closed_at: list[float] = []

    def over() -> bool:
        if judge.state.phase is not Phase.OPEN and not closed_at:
            closed_at.append(time.monotonic())
        ends = [*([deadline] if deadline is not None else []), *(moment + GRACE_S for moment in closed_at)]
        return stop.is_set() or any(time.monotonic() > end for end in ends)

    return over


def _turned(turn: Turn, submissions: int, asked_for: str | None) -> Turned:
    """What the client does not price is estimated, where the served model's price is known."""
    priced = prices.cost(turn.usage, turn.model or asked_for)
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
