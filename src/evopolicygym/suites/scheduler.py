"""Start the runs of a suite as there is room, each in a process of its own, and wait for them to end.

The scheduler decides nothing about a run. It may be killed at any time: the same command continues the suite, because
all state is in the runs' ledgers.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from shutil import disk_usage
from types import MappingProxyType
from typing import Final

from evopolicygym.execution.ray.cluster import ClusterChanges, RayCluster
from evopolicygym.judge.shortage import ShortagePause
from evopolicygym.runs.locks import CaseSet
from evopolicygym.runs.settings import EngineName
from evopolicygym.suites.call_gate import CallGate, CallRate
from evopolicygym.suites.file import PlannedRun, SpendingCap
from evopolicygym.suites.folder import SuiteFolder, log_begin, log_end, log_failed_start, open_log
from evopolicygym.suites.slot_pool import SlotPool, SlotServer
from evopolicygym.suites.status import SuiteRow, SuiteRunStatus, SuiteStatus
from evopolicygym.suites.worker import RunWorkerConfig

WORKER: Final = (sys.executable, "-m", "evopolicygym.cli.main", "suite", "worker")
TICK_S: Final = 0.5
LEAST_DISK: Final = 1 << 20  # bytes; a run holds 8 MiB back for its end
RETRIES: Final = 2  # of a suspended run, each when nothing else is left to do
MAX_RUNS_PER_AGENT: Final = 2  # runs that wait for slots after their agent has exited may be as many again
SocketPair = tuple[socket.socket, socket.socket]


@dataclass(eq=False)
class RunProcess:
    """A run at work. While ``has_agent``, it counts towards the parallel runs."""

    planned: PlannedRun
    has_agent: bool
    process: asyncio.subprocess.Process | None = None

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            if self.process:
                self.process.send_signal(number)


class Scheduler:
    """Run a suite. ``stop`` may be called at any time, and more than once. With a Ray ``cluster`` the slots are those
    of the cluster, which come and go. ``left_out``: runs that are not to start, with the reasons."""

    def __init__(
        self,
        folder: SuiteFolder,
        planned: list[PlannedRun],
        cap: SpendingCap,
        jobs: int,
        parallel_runs: int,
        cluster: RayCluster | None = None,
        call_rate: CallRate | None = None,
        left_out: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._folder = folder
        self._calls = CallGate(call_rate or CallRate(), cap.limits)
        self._planned = {run.name: run for run in planned}
        self._cases = {run.name: CaseSet(run.task.id, run.settings.splits().id) for run in planned}
        self._cluster, self._max_agents = cluster, parallel_runs
        self._slots = set(cluster.workers if cluster else range(jobs))
        self._slot_server = SlotServer(SlotPool(self._slots), self._calls)
        self._processes: dict[str, RunProcess] = {}
        self._starts: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self._stops = 0
        self.shortage = ShortagePause(folder.root)
        self.status = SuiteStatus(folder, planned, lambda name: name in self._processes, left_out)
        self.is_capped = False

    @property
    def is_stopped(self) -> bool:
        return self._stops > 0

    @property
    def running(self) -> int:
        return len(self._processes)

    @property
    def is_work_queued(self) -> bool:
        """Whether an episode waits for a slot."""
        return self._slot_server.pool.has_waiting_clients

    async def run(self, tick: Callable[[], None]) -> None:
        """Work until no run can be started or continued. ``tick`` is called about twice a second."""
        tasks: set[asyncio.Task[None]] = set()
        while True:
            tasks |= {asyncio.create_task(self._supervise(process)) for process in self._next_processes()}
            self._update_slots()
            tick()
            if not tasks and (self.is_stopped or not self._lacks_disk()):
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), TICK_S)
            self._changed.clear()
            for task in [task for task in tasks if task.done()]:
                tasks.remove(task)
                task.result()

    def stop(self) -> None:
        """Let every run finish its running submission and exit; when called again, kill all runs."""
        self._stops += 1
        for process in self._processes.values():
            process.signal(signal.SIGTERM if self._stops == 1 else signal.SIGKILL)

    def _update_slots(self) -> None:
        """Follow the cluster: workers that joined add slots, lost ones remove them."""
        changes = self._cluster.poll() if self._cluster else ClusterChanges()
        for slot in changes.joined:
            self._slots.add(slot)
            self._slot_server.pool.add_slot(slot)
        for slot in changes.lost:
            self._slots.discard(slot)
            self._slot_server.pool.lose_slot(slot)
        self._slot_server.send_grants()

    def _next_processes(self) -> Iterator[RunProcess]:
        """Yield the runs to start now. Every run is started once: hidden scoring first, then runs that have begun. When
        nothing else is left to do, suspended ones are started again: by now the trouble may have passed."""
        rows = [row for row in self._noted_rows() if not row.is_over and row.status is not SuiteRunStatus.UNREADY]
        self.is_capped = self._calls.limit_reached is not None
        yield from self._start_what_may([row for row in rows if not self._starts[row.run]])
        if not self._processes:
            suspended = [row for row in rows if row.status is SuiteRunStatus.SUSPENDED]
            yield from self._start_what_may([row for row in suspended if self._starts[row.run] <= RETRIES])

    def _noted_rows(self) -> list[SuiteRow]:
        """Return all rows, after what they used was noted. Runs without the gateway report no single calls."""
        rows = self.status.rows()
        for row in rows:
            self._calls.note(row.run, row.used)
            self._calls.note(f"superseded {row.run}", row.wasted)
        return rows

    def _start_what_may(self, untried: list[SuiteRow]) -> Iterator[RunProcess]:
        while not self.is_stopped and not self._lacks_disk():
            awaiting_scoring = {self._cases[row.run] for row in untried if not row.needs_agent}
            startable = [row for row in untried if self._may_start(row, awaiting_scoring)]
            if not startable:
                return
            row = min(startable, key=self._precedence)
            untried.remove(row)
            self._starts[row.run] += 1
            self._processes[row.run] = RunProcess(self._planned[row.run], row.needs_agent)
            yield self._processes[row.run]

    def _lacks_disk(self) -> bool:
        """Whether the disk of the suite is nearly full: then no run starts. Running ones pause by themselves but cannot
        log it, so the user is warned here."""
        if disk_usage(self._folder.root).free < LEAST_DISK:
            self.shortage.begin(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        return not self.shortage.is_over()

    def _precedence(self, row: SuiteRow) -> tuple[bool, bool, int, bool]:
        """Sort by round; within a round, tasks on which no agent works go first: their scoring will not have to wait
        for that agent."""
        is_shared = self._is_busy(row.run, has_agent=True)
        return (row.needs_agent, not row.has_begun, self._planned[row.run].repeat, is_shared)

    def _may_start(self, row: SuiteRow, awaiting_scoring: set[CaseSet]) -> bool:
        """Return whether a run may start now. Hidden cases are not played while an agent on the same cases is alive
        (runs/locks.py); a run that would have to wait for that is held back, so that another can start."""
        if (self.is_capped and not row.has_begun) or not self._has_room(row):
            return False
        if not row.needs_agent:
            return not self._is_busy(row.run, has_agent=True)
        return self._cases[row.run] not in awaiting_scoring and not self._is_busy(row.run, has_agent=False)

    def _is_busy(self, run: str, has_agent: bool) -> bool:
        """Whether a process of this suite has an agent, or does hidden scoring, on the cases of a run."""
        cases = self._cases[run]
        names = (name for name, process in self._processes.items() if process.has_agent is has_agent)
        return any(self._cases[name] == cases for name in names)

    def _has_room(self, row: SuiteRow) -> bool:
        """Return whether one more run fits. Agents and hidden scoring are counted separately: neither excludes the
        other."""
        agents = sum(process.has_agent for process in self._processes.values())
        if row.needs_agent:
            return agents < self._max_agents and len(self._processes) < MAX_RUNS_PER_AGENT * self._max_agents
        return len(self._processes) - agents < self._max_agents

    async def _supervise(self, process: RunProcess) -> None:
        """Run one process from start to end. If it cannot be started, the other runs continue."""
        name = process.planned.name
        log_file = self._folder.log(name)
        try:
            if self.status.row(process.planned).status is SuiteRunStatus.MISSING:
                self._folder.supersede(name)
                self._calls.begin_again(name)
            log_begin(log_file)
            log_end(log_file, await self._play(process))
        except OSError as error:
            log_failed_start(log_file, f"its process could not be started: {error}")
        finally:
            del self._processes[name]
            self._changed.set()

    async def _play(self, run: RunProcess) -> int:
        """Start the process of a run, serve it slots, and return its exit code."""
        name = run.planned.name
        with _sockets() as (ours, theirs):
            config = self._worker_config(run.planned, [end.fileno() for end in theirs])
            run.process = process = await self._start(name, theirs)
            if self.is_stopped:
                run.signal(signal.SIGKILL)
            serving = asyncio.create_task(self._slot_server.serve(name, *ours, lambda: self._agent_gone(run)))
            await process.communicate(config.model_dump_json().encode())
            await serving
        assert process.returncode is not None
        return process.returncode

    def _worker_config(self, planned: PlannedRun, sockets: list[int]) -> RunWorkerConfig:
        engine = EngineName.RAY if self._cluster else EngineName.LOCAL
        return RunWorkerConfig(
            root=self._folder.run(planned.name),
            settings=planned.settings.model_copy(update={"engine": engine}),
            slots=len(self._slots),
            cluster=self._cluster.info if self._cluster else None,
            slots_socket=sockets[0],
            requests_socket=sockets[1],
            limits_calls=self._calls.is_limiting,
            scheduler=os.getpid(),
            is_last_try=self._starts[planned.name] > RETRIES,
        )

    async def _start(self, name: str, theirs: SocketPair) -> asyncio.subprocess.Process:
        """Start the process in a session of its own, so that Ctrl-C reaches the scheduler alone."""
        with open_log(self._folder.log(name)) as log_file:
            process = await asyncio.create_subprocess_exec(
                *WORKER,
                stdin=asyncio.subprocess.PIPE,
                stdout=log_file,
                stderr=log_file,
                pass_fds=[end.fileno() for end in theirs],
                start_new_session=True,
            )
        for end in theirs:
            end.close()
        return process

    def _agent_gone(self, run: RunProcess) -> None:
        run.has_agent = False
        self._changed.set()


@contextmanager
def _sockets() -> Iterator[tuple[SocketPair, SocketPair]]:
    """Open two socket pairs and return our ends and the worker's. They have no path, so that no agent can find them."""
    slots, requests = socket.socketpair(), socket.socketpair()
    try:
        yield (slots[0], requests[0]), (slots[1], requests[1])
    finally:
        for end in (*slots, *requests):
            end.close()
