"""The foreman: begins the runs of a suite as there is room, each in a process of its own, and sees them to their end.

It decides nothing about a run. Kill it anywhere, and the same command goes on: what there is to know lies in the runs'
ledgers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from evopolicygym.execution.ray.cluster import ClusterChanges, RayCluster
from evopolicygym.runs.locks import Cases
from evopolicygym.runs.settings import EngineName
from evopolicygym.suites import log
from evopolicygym.suites.file import SpendingCap
from evopolicygym.suites.folder import SuiteFolder
from evopolicygym.suites.plan import PlannedRun
from evopolicygym.suites.slot_pool import SlotPool, SlotServer
from evopolicygym.suites.status import SuiteRow, SuiteRunStatus, SuiteStatus, over_cap
from evopolicygym.suites.worker import RunWorkerConfig

MEMBER: Final = (sys.executable, "-m", "evopolicygym.cli.main", "suite", "member")
TICK_S: Final = 0.5
MOST_PER_PLACE: Final = 2  # runs whose agent is gone, and which wait for slots, may be as many again
Pair = tuple[socket.socket, socket.socket]


@dataclass(eq=False)
class RunProcess:
    """A run at work. Its agent takes one of the places until it is gone."""

    planned: PlannedRun
    has_agent: bool
    process: asyncio.subprocess.Process | None = None

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            if self.process:
                self.process.send_signal(number)


class Scheduler:
    """``survey`` knows how the runs stand. ``stop`` may be called at any time, and more than once. With a ``fleet``
    the slots are its seats, as they come and go."""

    def __init__(
        self,
        folder: SuiteFolder,
        planned: list[PlannedRun],
        cap: SpendingCap,
        jobs: int,
        parallel_runs: int,
        fleet: RayCluster | None = None,
    ) -> None:
        self._folder, self._cap = folder, cap
        self._planned = {one.name: one for one in planned}
        self._cases = {one.name: Cases(one.task.id, one.settings.splits().id) for one in planned}
        self._fleet, self._places = fleet, parallel_runs
        self._slots = set(fleet.workers if fleet else range(jobs))
        self._hall = SlotServer(SlotPool(self._slots))
        self._members: dict[str, RunProcess] = {}
        self._tried: set[str] = set()
        self._changed = asyncio.Event()
        self._stops = 0
        self.survey = SuiteStatus(folder, planned, lambda name: name in self._members)
        self.is_capped = False

    @property
    def is_stopped(self) -> bool:
        return self._stops > 0

    @property
    def running(self) -> int:
        return len(self._members)

    @property
    def is_work_queued(self) -> bool:
        """Whether some episode waits for a slot."""
        return self._hall.turnstile.is_awaited

    async def work(self, tick: Callable[[], None]) -> None:
        """Until nothing is left that could be done now. ``tick`` is called about twice a second."""
        attended: set[asyncio.Task[None]] = set()
        while True:
            attended |= {asyncio.create_task(self._attend(member)) for member in self._next_ones()}
            self._look_at_the_fleet()
            tick()
            if not attended:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), TICK_S)
            self._changed.clear()
            for task in [task for task in attended if task.done()]:
                attended.remove(task)
                task.result()

    def stop(self) -> None:
        """First let every run come to where nothing paid for is lost; asked again, at once."""
        self._stops += 1
        for member in self._members.values():
            member.signal(signal.SIGTERM if self._stops == 1 else signal.SIGKILL)

    def _look_at_the_fleet(self) -> None:
        changes = self._fleet.poll() if self._fleet else ClusterChanges()
        for slot in changes.joined:
            self._slots.add(slot)
            self._hall.turnstile.add(slot)
        for slot in changes.lost:
            self._slots.discard(slot)
            self._hall.turnstile.lose(slot)
        self._hall.announce()

    def _next_ones(self) -> Iterator[RunProcess]:
        """Runs that have begun go first, those without an agent before all. Each is tried once."""
        rows = self.survey.rows()
        self.is_capped = over_cap(rows, self._cap)
        untried = [row for row in rows if not (row.is_over or row.run in self._tried)]
        while not self.is_stopped:
            due = {self._cases[row.run] for row in untried if not row.needs_agent}
            able = [row for row in untried if self._may_begin(row, due)]
            if not able:
                return
            row = min(able, key=self._precedence)
            untried.remove(row)
            self._tried.add(row.run)
            self._members[row.run] = RunProcess(self._planned[row.run], row.needs_agent)
            yield self._members[row.run]

    def _precedence(self, row: SuiteRow) -> tuple[bool, bool, int, bool]:
        """Round after round; within one, tasks that no agent is at: their scoring will have nobody to wait for."""
        is_shared = self._is_at(row.run, has_agent=True)
        return (row.needs_agent, not row.has_begun, self._planned[row.run].repeat, is_shared)

    def _may_begin(self, row: SuiteRow, due: set[Cases]) -> bool:
        """Hidden cases are not played while an agent on the same cases lives (runs/locks.py). A run that would
        have to wait for this is held back, so that its place goes to another. ``due`` wait for hidden scoring alone."""
        if (self.is_capped and not row.has_begun) or not self._has_room(row):
            return False
        if not row.needs_agent:
            return not self._is_at(row.run, has_agent=True)
        return self._cases[row.run] not in due and not self._is_at(row.run, has_agent=False)

    def _is_at(self, run: str, has_agent: bool) -> bool:
        """Whether one of our processes has an agent, or does hidden scoring, on the cases of a run."""
        cases = self._cases[run]
        at_work = (name for name, member in self._members.items() if member.has_agent is has_agent)
        return any(self._cases[name] == cases for name in at_work)

    def _has_room(self, row: SuiteRow) -> bool:
        """For an agent, or for hidden scoring alone: neither keeps the other out."""
        agents = sum(member.has_agent for member in self._members.values())
        if row.needs_agent:
            return agents < self._places and len(self._members) < MOST_PER_PLACE * self._places
        return len(self._members) - agents < self._places

    async def _attend(self, member: RunProcess) -> None:
        """One run, from the start of its process to its end. One that the machine has no room for stops nobody."""
        name = member.planned.name
        said = self._folder.log(name)
        try:
            if self.survey.row(member.planned).status is SuiteRunStatus.MISSING:
                self._folder.supersede(name)
            log.begin(said)
            log.end(said, await self._play(member))
        except OSError as error:
            log.give_up(said, f"its process could not be started: {error}")
        finally:
            del self._members[name]
            self._changed.set()

    async def _play(self, member: RunProcess) -> int:
        name = member.planned.name
        with _sockets() as (ours, theirs):
            brief = self._brief(member.planned, [end.fileno() for end in theirs])
            member.process = process = await self._start(name, theirs)
            if self.is_stopped:
                member.signal(signal.SIGKILL)
            hosting = asyncio.create_task(self._hall.host(name, *ours, gone=lambda: self._gone(member)))
            await process.communicate(brief.model_dump_json().encode())
            await hosting
        assert process.returncode is not None
        return process.returncode

    def _brief(self, planned: PlannedRun, sockets: list[int]) -> RunWorkerConfig:
        engine = EngineName.RAY if self._fleet else EngineName.LOCAL
        return RunWorkerConfig(
            root=self._folder.run(planned.name),
            settings=planned.settings.model_copy(update={"engine": engine}),
            slots=len(self._slots),
            seats=self._fleet.info if self._fleet else None,
            slots_socket=sockets[0],
            talk_socket=sockets[1],
            foreman=os.getpid(),
        )

    async def _start(self, name: str, theirs: Pair) -> asyncio.subprocess.Process:
        """In a session of its own: Ctrl-C is for us alone."""
        with open(self._folder.log(name), "ab") as said:
            process = await asyncio.create_subprocess_exec(
                *MEMBER,
                stdin=asyncio.subprocess.PIPE,
                stdout=said,
                stderr=said,
                pass_fds=[end.fileno() for end in theirs],
                start_new_session=True,
            )
        for end in theirs:
            end.close()
        return process

    def _gone(self, member: RunProcess) -> None:
        member.has_agent = False
        self._changed.set()


@contextmanager
def _sockets() -> Iterator[tuple[Pair, Pair]]:
    """Two pairs: our ends and theirs. Nothing on disk: no agent can find them."""
    slots, talk = socket.socketpair(), socket.socketpair()
    try:
        yield (slots[0], talk[0]), (slots[1], talk[1])
    finally:
        for end in (*slots, *talk):
            end.close()
