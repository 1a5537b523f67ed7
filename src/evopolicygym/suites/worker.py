"""The process of one run of a suite. Its foreman tells it what to play over its standard input, and grants it slots."""

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
from evopolicygym.judge.state import RunPhase
from evopolicygym.runs.agent_loop import play_agent
from evopolicygym.runs.agent_setup import AgentSetup, set_up_agent
from evopolicygym.runs.open_run import NO_AGENT, OpenRun, open_run
from evopolicygym.runs.run_status import has_begun, read_state
from evopolicygym.runs.serve import finish_run
from evopolicygym.runs.settings import RunSettings
from evopolicygym.sandbox import kernel
from evopolicygym.suites.log import STOPPED
from evopolicygym.suites.messages import (
    AgentGone,
    NoneWanted,
    RateLimited,
    SlotReturned,
    SlotsWanted,
    WaitReply,
    decode,
    encode,
)


class PooledSlots:
    """Leave to play, by the foreman's grace. When we want no more, we wait until the foreman knows: a slot that was on
    its way goes back at once, instead of lying idle until we look again."""

    at_once, first_core = 1, 0

    def __init__(self, connection: socket.socket, total: int) -> None:
        self.total = total
        self.waitable: Sequence[Waitable] = (connection,)
        self._connection, self._unread, self._wanted = connection, b"", SlotsWanted(0, False)

    def want(self, count: int, urgent: bool) -> None:
        if SlotsWanted(count, urgent) == self._wanted:
            return
        self._wanted = SlotsWanted(count, urgent)
        self._say(self._wanted)
        if count == 0:
            while not self._is_noted():
                select.select(self.waitable, [], [])

    def granted(self) -> list[int]:
        return [message.slot for message in self._messages()]

    def give_back(self, slot: int) -> None:
        self._say(SlotReturned(slot))

    def _say(self, message: object) -> None:
        try:
            self._connection.sendall(encode(message))
        except ConnectionError:
            _end_like_the_foreman()

    def _is_noted(self) -> bool:
        """The foreman's note comes last: it grants nothing more."""
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
            _end_like_the_foreman()
        *lines, self._unread = (self._unread + data).split(b"\n")
        yield from map(decode, lines)


class SharedRateLimits:
    """The company of a run in a suite."""

    def __init__(self, connection: socket.socket, provider: str) -> None:
        self._file, self._provider = connection.makefile("rwb"), provider
        self._lock = threading.Lock()

    def wait_s(self, open_run: float) -> float:
        return max(open_run, self._ask(RateLimited(self._provider, open_run)).wait_s)

    def agent_is_gone(self) -> None:
        self._ask(AgentGone())

    def _ask(self, message: object) -> WaitReply:
        with self._lock:
            try:
                self._file.write(encode(message))
                self._file.flush()
                line = self._file.readline()
            except ConnectionError:
                line = b""
        if not line:
            _end_like_the_foreman()
        answer: WaitReply = decode(line)
        return answer


def _end_like_the_foreman() -> NoReturn:
    """It is dead, and we are as good as dead: its sockets close a moment before the kernel ends its children. What goes
    wrong in this moment is nobody's fault, and must not be recorded as one."""
    os._exit(STOPPED)


POLL_S: Final = 0.02


class RunWorkerConfig(StrictModel):
    """From the foreman: the run, how many slots there are (with Ray: of which seats), where its sockets are, and who
    the foreman is."""

    root: Path
    settings: RunSettings
    slots: int
    seats: ClusterInfo | None
    slots_socket: int
    talk_socket: int
    foreman: int


def main() -> None:
    brief = RunWorkerConfig.model_validate_json(sys.stdin.buffer.read())
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != brief.foreman:
        sys.exit(STOPPED)  # it died before we asked to die with it
    slots, talk = PooledSlots(_own(brief.slots_socket), brief.slots), _own(brief.talk_socket)
    given = dict(brief.settings)
    if _needs_its_agent(brief.root):
        assert brief.settings.agent is not None
        who = set_up_agent(brief.settings.agent)
        with open_run(brief.root, who.facts(brief.root), slots, brief.seats, **given) as owner:
            asyncio.run(_play(owner, who, SharedRateLimits(talk, provider(who))))
    else:
        SharedRateLimits(talk, "").agent_is_gone()
        with open_run(brief.root, NO_AGENT, slots, brief.seats, **given) as owner:
            finish_run(owner)


def _own(number: int) -> socket.socket:
    """Ours alone: neither workers nor agents inherit it."""
    os.set_inheritable(number, False)
    return socket.socket(fileno=number)


def _needs_its_agent(root: Path) -> bool:
    """Not for hidden scoring alone. A turn that was interrupted is the agent's to account for, also when its budget
    was spent in it."""
    if not has_begun(root):
        return True
    state = read_state(root)
    return state.phase is RunPhase.OPEN or (state.phase is RunPhase.CLOSED and state.prompted_at is not None)


async def _play(owner: OpenRun, who: AgentSetup, company: SharedRateLimits) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: loop.create_task(_leave(owner)))
    await play_agent(owner, lambda api: who.player(owner.place, api), who.settings.allowance, company, who.prices)


async def _leave(owner: OpenRun) -> None:
    """When the submission under way has its verdict: what an agent paid for is not left half done."""
    while owner.judge.state.running:
        await asyncio.sleep(POLL_S)
    os._exit(STOPPED)


def provider(who: AgentSetup) -> str:
    """Whom the agent's model is asked of: runs of one provider share its rate limits."""
    return ",".join(sorted(who.client.allowed_hosts(who.settings.base_url))) or who.client.name
