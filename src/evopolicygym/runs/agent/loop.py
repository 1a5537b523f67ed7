"""The loop of a run: prompt the agent, let it play a turn, record the turn, decide what comes next.

    play_agent      opens the agent's API, starts the loop, has the run scored when the loop returns
        |
        v
    +-> decide ------ CloseRun(reason) ----> validation selects, held-out cases measure (runs/serve.py)
    |     |           SuspendRun(reason) --> nothing is scored; `run --resume` continues
    |     | PromptAgent(session, wait_s)
    |     v
    |   prompt        the opening text, or "continue"; ledger event `prompted`
    |     v
    |   play          one turn of the agent's program (runs/agent/process.py); it submits through the API
    |     v
    +-- record        exit code, usage, cost, failure; ledger event `turned`

Each decision is a pure function of the ledger (runs/agent/decisions.py), so a run that was killed at any instant
continues where it was.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import asdict, replace
from functools import partial
from typing import Final, Protocol

from evopolicygym.agents import home, prices, prompts
from evopolicygym.agents.turn import Turn
from evopolicygym.agents.usage import Usage, total_usage
from evopolicygym.errors import Fault
from evopolicygym.gateway.call_limits import CallAdmission, CallTotals
from evopolicygym.gateway.patience import SharedWaits
from evopolicygym.judge.events import Prompted, Turned
from evopolicygym.judge.judge import Judge
from evopolicygym.judge.ledger import LedgerUnwritable
from evopolicygym.judge.state import RunPhase, RunState
from evopolicygym.run_paths import RunPaths
from evopolicygym.runs import disk_reserve
from evopolicygym.runs.agent.decisions import AGENT_FAILED, PromptAgent, SuspendRun, decide, last_session, suspension
from evopolicygym.runs.agent.limits import AgentLimits, TurnWatch
from evopolicygym.runs.agent.process import AgentRunner, MustEnd, Reading, TurnRequest, start_failure
from evopolicygym.runs.agent.turn_reader import ReaderLost
from evopolicygym.runs.locks import living_agent_lock
from evopolicygym.runs.open_run import OpenRun
from evopolicygym.runs.serve import FINISHED_BY_HAND, serve_run
from evopolicygym.runs.settings import AgentSettings

Prices = dict[str, prices.Price]
MESSAGE_LENGTH: Final = 2000  # characters of an agent's last message kept in the ledger; the transcript has all


async def play_agent(
    run: OpenRun, agent: PlayableAgent, rate_limits: RateLimitGroup | None = None, is_last_try: bool = False
) -> None:
    """Play a run to its outcome, from its first prompt or from where it was interrupted. Raises RunSuspended; in the
    last try only for trouble that the judge has seen, so that no agent can keep its run without a score."""
    group = rate_limits or NoSharing()

    async def play(api_url: str) -> str:
        if run.judge.state.phase is not RunPhase.OPEN:  # a turn that was interrupted is left to record, none to play
            return await _play(run, agent, group, api_url, is_last_try)
        root = run.paths.root
        remedy = f"Ctrl-C loses nothing: `evopolicygym run --resume {root}` continues later."
        async with living_agent_lock(run.case_set, str(root), remedy):
            return await _play(run, agent, group, api_url, is_last_try)

    await serve_run(run, play)


async def _play(
    run: OpenRun, agent: PlayableAgent, rate_limits: RateLimitGroup, api_url: str, is_last_try: bool
) -> str:
    """Run the loop in a thread, and stop the agent when it ends or is cancelled. Return the reason that closes the
    run."""
    try:
        runner = agent.make_runner(run.paths, api_url, rate_limits)
    except home.HomeUnusable as error:
        rate_limits.agent_is_gone()
        start_failure(not run.judge.state.turns and run.judge.state.prompted_at is None, error)
        return AGENT_FAILED
    loop = AgentLoop(run.judge, runner, agent.settings.limits, rate_limits, agent.prices, is_last_try)
    playing = asyncio.ensure_future(asyncio.to_thread(loop.run))
    try:
        return await asyncio.shield(playing)
    finally:
        loop.stop.set()
        runner.close()
        await asyncio.wait([playing])  # its thread may just have begun another turn, which it ends now
        disk_reserve.release(run.paths)
        rate_limits.agent_is_gone()
        if not playing.cancelled() and isinstance(fault := playing.exception(), Fault):
            raise fault  # also if the run is finished by hand: its last turn is not recorded


class AgentLoop:
    """Prompts an agent until its run is over. ``stop`` ends the loop from another thread."""

    def __init__(
        self,
        judge: Judge,
        agent: AgentRunner,
        limits: AgentLimits,
        rate_limits: RateLimitGroup,
        price_table: Prices | None,
        is_last_try: bool = False,
    ) -> None:
        self._judge, self._agent, self._limits = judge, agent, limits
        self._rate_limits, self._price_table, self._is_last_try = rate_limits, price_table, is_last_try
        self.stop = threading.Event()

    def run(self) -> str:
        """Return the reason that closes the run. Raises RunSuspended."""
        self._recover_turn()
        while isinstance(decision := decide(self._judge.state, self._limits), PromptAgent):
            if self._wait(self._rate_limits.wait_s(decision.wait_s)):
                return FINISHED_BY_HAND
            request = self._prompt(decision.session)
            turn = self._judge.shortage.retry(partial(self._agent.play_turn, request), self.stop)
            self._record(self._event(turn))
        if isinstance(decision, SuspendRun):
            if self._is_last_try and not decision.is_seen:
                return AGENT_FAILED
            raise suspension(decision, self._judge.state, self._judge.paths.root)
        return decision.reason

    def _wait(self, seconds: float) -> bool:
        """Wait before the next attempt; return whether the run is to end meanwhile."""
        activity = self._judge.activity
        activity.trouble = ""
        activity.next_attempt_at = time.monotonic() + seconds if seconds else None
        is_stopped = self.stop.wait(seconds)
        activity.next_attempt_at = None
        return is_stopped

    def _prompt(self, session: str | None) -> TurnRequest:
        """Record that the agent is prompted, and return what it is asked to do."""
        disk_reserve.make(self._judge.paths)
        self._record(Prompted(len(self._judge.state.turns) + 1))
        watch = TurnWatch(self._judge, self._limits, self.stop, self._event)
        return replace(turn_request(self._judge.state, self._limits, session, watch), retry=self._retry)

    def _recover_turn(self) -> None:
        """Record the turn in which an earlier process was killed, if there is one."""
        state = self._judge.state
        if state.prompted_at:
            request = turn_request(state, self._limits, last_session(state.turns), lambda progress: None)
            self._record(self._event(self._agent.recover_turn(replace(request, retry=self._retry))))

    def _retry(self, reading: Reading) -> Turn:
        """Read a turn that is over. Raises ReaderLost, and Fault for an error of the judge, or if the run is stopped in
        a pause: that ends this process and not the turn, which a resumed run reads again."""
        try:
            return self._judge.shortage.retry(reading, self.stop)
        except (OSError, MemoryError) as error:
            if isinstance(error, ReaderLost) and not self.stop.is_set():
                raise
            why = error.strerror if isinstance(error, OSError) else "no memory"  # a number would make it a shortage
            raise Fault(f"how a turn ended cannot be read: {why}. `evopolicygym run --resume` reads it again") from None

    def _event(self, turn: Turn) -> Turned:
        state = self._judge.state
        return turn_event(turn, len(state.submissions), _requested_model(state), self._price_table)

    def _record(self, event: Prompted | Turned) -> None:
        """Append to the ledger; use the reserved disk space if the agent has filled the disk, then wait for more."""
        try:
            self._judge.record(event)
        except LedgerUnwritable:
            disk_reserve.release(self._judge.paths)
            self._judge.shortage.retry(lambda: self._judge.record(event), self.stop)


def turn_request(state: RunState, limits: AgentLimits, session: str | None, must_end: MustEnd) -> TurnRequest:
    """Return the next turn: with the opening prompt, or with the one to continue. After a failed turn the prompt
    mentions an interruption."""
    remaining = limits.remaining(state.turns)
    if not state.turns:
        text = prompts.opening(state.budget, remaining)
    else:
        is_failed, progress = state.turns[-1].failure is not None, "" if session else _progress(state)
        text = prompts.continuing(state.remaining, state.budget, is_failed, remaining, progress)
    earlier = [Usage(**turn.usage) for turn in state.turns if turn.usage and turn.session == session]
    return TurnRequest(len(state.turns) + 1, text, session, total_usage(earlier), must_end)


def _progress(state: RunState) -> str:
    """Return in words what was submitted so far, for a new conversation."""
    judged = [(submission.name, submission.judged) for submission in state.submissions.values() if submission.is_ok]
    means = [(name, event.tally.mean) for name, event in judged if event and event.tally]
    return prompts.progress(len(state.submissions), max(means, key=lambda mean: mean[1], default=None))


def turn_event(turn: Turn, submissions: int, requested_model: str | None, price_table: Prices | None) -> Turned:
    """Return the ledger event of a turn. A cost that the client does not report is estimated from the model's price."""
    cost = prices.cost(turn.usage, turn.model or requested_model, price_table)
    message = turn.failure.text if turn.failure else turn.text
    return Turned(
        session=turn.session,
        exit_code=turn.exit_code,
        wall_s=turn.wall_s,
        submissions=submissions,
        usage={**asdict(turn.usage), "cost_usd": cost.usd} if turn.usage else None,
        model=turn.model,
        price={"source": cost.source, "quoted": cost.price},
        failure=turn.failure.kind if turn.failure else None,
        text=message[-MESSAGE_LENGTH:],
        stop=turn.stop,
        calls=turn.calls,
    )


def _requested_model(state: RunState) -> str | None:
    assert state.opened is not None
    agent = state.opened.facts["agent"]
    return agent["model"] if agent else None


class PlayableAgent(Protocol):
    """An agent that is ready to play: `runs.agent.setup.AgentSetup`, or a Python function."""

    @property
    def settings(self) -> AgentSettings: ...

    @property
    def prices(self) -> Prices | None:
        """Prices of tokens; None for those that ship."""

    def make_runner(self, paths: RunPaths, api_url: str, rate_limits: RateLimitGroup) -> AgentRunner: ...


class RateLimitGroup(SharedWaits, Protocol):
    """Runs that share a provider's rate limits."""

    def wait_s(self, seconds: float) -> float:
        """Return the seconds to wait before the next prompt, at least ``seconds``: another run may have to
        wait longer. Makes this run's wait known to the others."""

    def agent_is_gone(self) -> None:
        """Report that the agent has ended: only hidden scoring remains."""


class NoSharing:
    """The group of a run that plays alone."""

    is_shared = limits_calls = False

    def begin_call(self, used: CallTotals) -> CallAdmission:
        return CallAdmission()

    def end_call(self, used: CallTotals) -> None:
        pass

    def wait_s(self, seconds: float) -> float:
        return seconds

    def agent_is_gone(self) -> None:
        pass
