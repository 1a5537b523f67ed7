"""The process of one run of a suite.

The scheduler writes the configuration to its standard input and grants it slots over a socket.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from evopolicygym.config import StrictModel
from evopolicygym.execution.ray.cluster import ClusterInfo
from evopolicygym.execution.slots import Waitable
from evopolicygym.gateway.call_limits import CallAdmission, CallTotals
from evopolicygym.judge.shortage import WAIT_OVER, WAITING_PREFIX, to_stderr
from evopolicygym.judge.state import RunPhase
from evopolicygym.runs.agent.gateway import model_routes
from evopolicygym.runs.agent.loop import play_agent
from evopolicygym.runs.agent.setup import AgentSetup, set_up_agent
from evopolicygym.runs.open_run import NO_AGENT, OpenRun, open_run
from evopolicygym.runs.progress import waiting_text
from evopolicygym.runs.run_status import has_begun, read_state
from evopolicygym.runs.serve import finish_run
from evopolicygym.runs.settings import RunSettings
from evopolicygym.sandbox import kernel
from evopolicygym.suites.folder import STOPPED
from evopolicygym.suites.slot_pool import (
    AgentGone,
    CallBegins,
    CallEnds,
    NoneWanted,
    RateLimited,
    SlotReturned,
    SlotsWanted,
    WaitReply,
    decode_message,
    encode_message,
)

POLL_S: Final = 0.02
WAITS_POLL_S: Final = 1.0


class RunWorkerConfig(StrictModel):
    """Settings that the scheduler passes to the process of a run. ``cluster`` is the Ray cluster that slots belong to,
    ``slots_socket`` and ``requests_socket`` are inherited descriptors, ``scheduler`` is a process id. ``limits_calls``:
    whether the suite has limits on calls to models, so that the scheduler must be asked before each. ``is_last_try``:
    the suite will not start this run again if it is suspended."""

    root: Path
    settings: RunSettings
    slots: int
    cluster: ClusterInfo | None
    slots_socket: int
    requests_socket: int
    scheduler: int
    limits_calls: bool = False
    is_last_try: bool = False


def main() -> None:
    config = RunWorkerConfig.model_validate_json(sys.stdin.buffer.read())
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != config.scheduler:
        sys.exit(STOPPED)  # the scheduler died before the line above took effect
    slots = PooledSlots(_socket(config.slots_socket), config.slots, first_core=config.scheduler)
    requests = _socket(config.requests_socket)
    settings = dict(config.settings)
    if _needs_agent(config.root):
        assert config.settings.agent is not None
        agent = set_up_agent(config.settings.agent)
        with open_run(config.root, agent.facts(config.root), slots, config.cluster, **settings) as run:
            limits = SharedRateLimits(requests, provider(agent), config.limits_calls)
            asyncio.run(_play(run, agent, limits, config.is_last_try))
    else:
        SharedRateLimits(requests, "").agent_is_gone()
        with open_run(config.root, NO_AGENT, slots, config.cluster, **settings) as run:
            finish_run(run)


class PooledSlots:
    """Slots that the scheduler grants.

    When the run wants no more, it waits for the scheduler's confirmation, and returns slots that were granted in the
    meantime: otherwise they would lie idle until the run asks again. Suites that run at the same time start at
    different cores if the pids of their schedulers differ.
    """

    at_once = 1

    def __init__(self, connection: socket.socket, total: int, first_core: int = 0) -> None:
        self.total, self.first_core = total, first_core
        self.waitable: Sequence[Waitable] = (connection,)
        self._connection, self._unread, self._wanted = connection, b"", SlotsWanted(0, False)

    def want(self, count: int, urgent: bool) -> None:
        if SlotsWanted(count, urgent) == self._wanted:
            return
        self._wanted = SlotsWanted(count, urgent)
        self._send(self._wanted)
        if count == 0:
            while not self._is_confirmed():
                select.select(self.waitable, [], [])

    def granted(self) -> list[int]:
        return [message.slot for message in self._messages()]

    def give_back(self, slot: int) -> None:
        self._send(SlotReturned(slot))

    def _send(self, message: object) -> None:
        try:
            self._connection.sendall(encode_message(message))
        except ConnectionError:
            _exit_after_scheduler()

    def _is_confirmed(self) -> bool:
        """Return slots until `NoneWanted` arrives, which is the last message."""
        for message in self._messages():
            if isinstance(message, NoneWanted):
                return True
            self.give_back(message.slot)
        return False

    def _messages(self) -> Iterator[Any]:
        try:
            data = self._connection.recv(1 << 16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            _exit_after_scheduler()
        *lines, self._unread = (self._unread + data).split(b"\n")
        yield from map(decode_message, lines)


class SharedRateLimits:
    """Rate-limit waits and the rate of calls, shared by all runs of the suite with the same provider; and the limits
    that all runs of the suite share."""

    is_shared = True

    def __init__(self, connection: socket.socket, provider: str, limits_calls: bool = False) -> None:
        self._file, self._provider = connection.makefile("rwb"), provider
        self.limits_calls = limits_calls
        self._lock = threading.Lock()

    def wait_s(self, seconds: float) -> float:
        return max(seconds, self._request(RateLimited(self._provider, seconds)).wait_s)

    def begin_call(self, used: CallTotals) -> CallAdmission:
        reply = self._request(CallBegins(self._provider, used))
        return CallAdmission(reply.wait_s, reply.limit)

    def end_call(self, used: CallTotals) -> None:
        self._request(CallEnds(self._provider, used))

    def agent_is_gone(self) -> None:
        self._request(AgentGone())

    def _request(self, message: object) -> WaitReply:
        with self._lock:
            try:
                self._file.write(encode_message(message))
                self._file.flush()
                line = self._file.readline()
            except ConnectionError:
                line = b""
        if not line:
            _exit_after_scheduler()
        reply: WaitReply = decode_message(line)
        return reply


def provider(agent: AgentSetup) -> str:
    """Return the provider key of an agent's model: runs with the same key share rate-limit waits."""
    if routes := model_routes(agent.client, agent.settings):
        return ",".join(sorted(f"{route.server.origin} {route.variable}" for route in routes))
    return ",".join(sorted(agent.client.allowed_hosts(agent.settings.base_url))) or agent.client.name


def _exit_after_scheduler() -> NoReturn:
    """Exit at once when a socket to the scheduler closes: the scheduler is dead, and the kernel is about to kill this
    process too. An error in between must not be recorded as a fault of the run."""
    os._exit(STOPPED)


def _socket(descriptor: int) -> socket.socket:
    """Open an inherited socket so that neither simulator workers nor agents inherit it."""
    os.set_inheritable(descriptor, False)
    return socket.socket(fileno=descriptor)


def _needs_agent(root: Path) -> bool:
    """Return False when only hidden scoring remains. An interrupted turn needs the agent's client to account for it,
    even if the budget was spent in that turn."""
    if not has_begun(root):
        return True
    state = read_state(root)
    return state.phase is RunPhase.OPEN or (state.phase is RunPhase.CLOSED and state.prompted_at is not None)


async def _play(run: OpenRun, agent: AgentSetup, rate_limits: SharedRateLimits, is_last_try: bool) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: loop.create_task(_exit_between_submissions(run)))
    logging_waits = loop.create_task(_log_waits(run))
    try:
        await play_agent(run, agent, rate_limits, is_last_try)
    finally:
        logging_waits.cancel()


async def _log_waits(run: OpenRun) -> None:
    """Write to the log of the run what it waits for after an error, so that the suite can show it."""
    activity, logged = run.judge.activity, None
    while True:
        at, seconds = activity.next_attempt_at, activity.next_attempt_s
        if at is None and logged is not None:
            to_stderr(WAIT_OVER)
            logged = None
        elif at != logged and seconds is not None and seconds > WAITS_POLL_S:
            to_stderr(f"{WAITING_PREFIX}{waiting_text(run.judge.state, activity, seconds)}")
            logged = at
        await asyncio.sleep(WAITS_POLL_S)


async def _exit_between_submissions(run: OpenRun) -> None:
    """Exit when the running submission has its verdict, so that no charged submission is left half done."""
    while run.judge.state.running and not run.judge.shortage.resource:
        await asyncio.sleep(POLL_S)
    os._exit(STOPPED)
