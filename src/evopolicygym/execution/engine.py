"""Engines take episodes and yield results in the order in which they end.

``Engine`` is the interface that the judge uses. ``LocalEngine`` keeps one worker process for each job, pinned to a core
together with its policies; ``execution/ray`` has the engine of a cluster.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol, Self

from evopolicygym.errors import Fault, IsolationUnavailable, UserError, is_permanent
from evopolicygym.execution import worker_entry
from evopolicygym.execution.messages import WorkerAnswer, WorkerHello, WorkerRequest, WorkerSettings, receive, send
from evopolicygym.execution.records import (
    Episode,
    EpisodeError,
    EpisodeResult,
    FaultReport,
    LoadResult,
    Node,
    not_played,
)
from evopolicygym.execution.slots import OwnSlots, Slots
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointStore, remove_tree
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.policy.protocol import ErrorKind
from evopolicygym.sandbox.policy.zygote_client import start_clean
from evopolicygym.tasks import simulator
from evopolicygym.tasks.sealing import KEY_VARIABLE
from evopolicygym.tasks.task import Task

PUBLISHABLE: Final = (Level.A, Level.B)
SINGLE_THREADED: Final = {b"OMP_NUM_THREADS": b"1", b"OPENBLAS_NUM_THREADS": b"1", b"MKL_NUM_THREADS": b"1"}
TRIES: Final = 2
MISSING_POLICY: Final = LoadResult(EpisodeError(ErrorKind.MISSING_POLICY, "the folder holds no file policy.py"))
NO_VIDEO: Final = "the video: the simulator process died while it was drawn, and played on without it"
ANSWER_TIMEOUT_S: Final = 2 * 3600.0  # without an answer of any worker: far beyond every limit of a policy


class OutOfTime(Exception):
    """The deadline passed while episodes were still running; they are stopped."""


class Engine(Protocol):
    """The interface of an engine that the judge uses. ``nodes`` is empty if this machine plays alone;
    ``level`` is the lowest of all nodes."""

    store: CheckpointStore
    implementation: str
    obs_space: dict[str, Any]
    action_space: dict[str, Any]

    @property
    def level(self) -> Level: ...

    @property
    def nodes(self) -> tuple[Node, ...]: ...

    def watch(self, on_join: Callable[[Node], None]) -> None:
        """Call ``on_join`` for each node that joins from now on, before any result of that node is given."""

    def load(self, checkpoint: Checkpoint) -> LoadResult: ...

    def run(
        self, episodes: Iterable[Episode], deadline: float | None = None, background: bool = False
    ) -> Iterator[EpisodeResult | FaultReport]: ...

    def close(self) -> None: ...


class WorkerProcess:
    """The engine's end of one worker process."""

    killed = False

    def __init__(self, settings: WorkerSettings) -> None:
        self._connection, theirs = socket.socketpair()
        self._process = start_clean(worker_entry.__file__, theirs)
        theirs.close()
        send(self._connection, settings)

    def fileno(self) -> int:
        return self._connection.fileno()

    def hello(self) -> WorkerHello:
        """Wait until the worker has started; raises what keeps it from working."""
        hello = receive(self._connection, WorkerHello)
        if hello is None:
            raise Fault("a simulator worker died while starting; its message is above")
        if hello.not_isolated:
            raise IsolationUnavailable(hello.not_isolated, errno=hello.errno)
        if hello.refused:
            raise UserError(hello.refused) from (OSError(hello.errno, hello.refused) if hello.errno else None)
        return hello

    def request(self, request: WorkerRequest) -> None:
        try:
            send(self._connection, request)
        except ConnectionError:
            pass  # it is dead, and ``answer`` will return None

    def answer(self) -> WorkerAnswer | None:
        """Wait for the answer to the last request; None if the worker died."""
        return receive(self._connection, WorkerAnswer)

    def kill(self) -> None:
        self._process.kill()
        self.killed = True

    def is_usable(self) -> bool:
        return not self.killed and self._process.poll() is None

    def close(self) -> None:
        """End the worker; its zygotes and policies die with it."""
        self._process.kill()
        self._process.wait()
        self._connection.close()


class LocalEngine:
    """Workers on this machine. Use as a context manager: leaving it ends every process and removes every file."""

    nodes: tuple[Node, ...] = ()

    def __init__(
        self,
        task: Task,
        jobs: int = 1,
        levels: tuple[Level, ...] = PUBLISHABLE,
        store: Path | None = None,
        video: bool = False,
        stock: bool = False,
        slots: Slots | None = None,
    ) -> None:
        """Start the workers. ``slots`` are shared with other engines and replace ``jobs`` slots of its own."""
        self._task, self._slots = task, slots or OwnSlots(jobs)
        self._scratch = None if store else Path(tempfile.gettempdir(), f"evopolicygym-{secrets.token_hex(8)}")
        checkpoints = (store or self._scratch or Path()).absolute()
        self._cores = sorted(os.sched_getaffinity(0))
        environment = {name: value for name, value in os.environb.items() if name != KEY_VARIABLE.encode()}
        passed_on = tuple((environment | SINGLE_THREADED).items())
        self._settings = WorkerSettings(task, passed_on, str(checkpoints), store is None, levels, 0, video, stock)
        self._workers: dict[int, WorkerProcess] = {}
        try:
            for slot in range(self._slots.at_once):
                self._workers[slot] = self._start_worker(slot)
            hellos = [worker.hello() for worker in self._workers.values()]
        except BaseException:
            self.close()
            raise
        self.store = CheckpointStore(checkpoints)
        self.level = hellos[0].level
        self.implementation = simulator.implementation(task, stock)
        self.obs_space, self.action_space = hellos[0].obs_space, hellos[0].action_space

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def watch(self, on_join: Callable[[Node], None]) -> None:
        """Do nothing: no node ever joins."""

    def load(self, checkpoint: Checkpoint) -> LoadResult:
        """Import and construct the policy in the jail, without an environment."""
        if not checkpoint.has_policy:
            return MISSING_POLICY
        with self._held_slot() as slot:
            for _ in range(TRIES):
                worker = self._worker(slot)
                worker.request(WorkerRequest(checkpoint))
                answer = worker.answer()
                if answer and answer.load:
                    return answer.load
                worker.kill()
                if answer:
                    raise Fault(answer.fault or "the worker gave no result", answer.permanent)
        raise Fault(f"the worker died {TRIES} times while it loaded a policy")

    def run(
        self, episodes: Iterable[Episode], deadline: float | None = None, background: bool = False
    ) -> Iterator[EpisodeResult | FaultReport]:
        """Yield results as they come. Episodes are drawn from the iterable only when a slot is free for them.

        ``background`` episodes let those of other engines go first. Raises OutOfTime when ``deadline`` (of
        ``time.monotonic``) passes first."""
        source, retries, is_dry = iter(episodes), deque[tuple[Episode, int]](), False
        busy: dict[WorkerProcess, tuple[int, Episode, int]] = {}
        free: list[int] = []  # slots that are held without work
        try:
            while True:
                self._slots.want(0 if is_dry and not retries else self._slots.total, urgent=not background)
                free += self._slots.granted()
                while free and (work := _next(retries, source)):
                    worker = self._worker(free[0])
                    busy[worker] = (free.pop(0), *work)
                    worker.request(WorkerRequest(work[0].checkpoint, _for_attempt(*work)))
                while free:
                    is_dry = True
                    self._slots.give_back(free.pop())
                if is_dry and not busy and not retries:
                    return
                began, idle = time.monotonic(), not busy
                for worker in self._wait(busy, deadline):
                    slot, episode, attempt = busy.pop(worker)
                    self._slots.give_back(slot)
                    answer = worker.answer()
                    if answer is None or answer.fault is not None:
                        worker.kill()  # whatever the reason was, a new worker starts without it
                    if answer is None and attempt < TRIES:
                        retries.append((episode, attempt + 1))
                    else:
                        yield self._outcome(episode, attempt, answer)
                if deadline is not None and idle:
                    deadline += time.monotonic() - began  # other engines held all slots: that time does not count
        finally:
            self._slots.want(0, urgent=False)
            for worker, (slot, _, _) in busy.items():  # broken off: their results are no longer wanted
                worker.kill()
                self._slots.give_back(slot)
            for slot in free:  # its worker could not be started
                self._slots.give_back(slot)

    @contextmanager
    def _held_slot(self) -> Iterator[int]:
        """Wait for a slot, and hold it."""
        self._slots.want(1, urgent=True)
        while not (granted := self._slots.granted()):
            select.select(self._slots.waitable, [], [])
        self._slots.want(0, urgent=True)
        try:
            yield granted[0]
        finally:
            self._slots.give_back(granted[0])

    def _worker(self, slot: int) -> WorkerProcess:
        """Return the worker of a slot; start one if there is none, it was killed, or it died while it had no work."""
        worker = self._workers.get(slot)
        if worker is None or not worker.is_usable():
            if worker:
                worker.close()
            self._workers[slot] = worker = self._start_worker(slot)
            try:
                worker.hello()
            except UserError as error:  # not the user's: the first workers could start
                raise Fault(f"a new simulator worker cannot start: {error}", is_permanent(error)) from error
        return worker

    def _start_worker(self, slot: int) -> WorkerProcess:
        core = self._cores[(self._slots.first_core + slot) % len(self._cores)]
        return WorkerProcess(replace(self._settings, core=core))

    def _wait(self, busy: Iterable[WorkerProcess], deadline: float | None) -> list[WorkerProcess]:
        """Return workers that have answered or died. Workers that hang for hours in their simulator are killed."""
        busy = list(busy)
        timeout = ANSWER_TIMEOUT_S if deadline is None else min(ANSWER_TIMEOUT_S, max(0.0, deadline - time.monotonic()))
        ready = select.select([*busy, *self._slots.waitable], [], [], timeout if busy else None)[0]
        if busy and deadline is not None and time.monotonic() > deadline:
            raise OutOfTime
        if not ready:
            for worker in busy:
                worker.kill()
        return [worker for worker in busy if worker in ready]

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers = {}
        if self._scratch:
            remove_tree(self._scratch)

    def _outcome(self, episode: Episode, attempt: int, answer: WorkerAnswer | None) -> EpisodeResult | FaultReport:
        if answer is None:
            text = f"the simulator process died {TRIES} times while it played this episode"
            return not_played(episode, self._task.failed_score(0.0), EpisodeError(ErrorKind.SIMULATOR_ERROR, text))
        outcome = outcome_of(episode, answer)
        if isinstance(outcome, EpisodeResult) and attempt > 1 and episode.recording and episode.recording.video:
            return replace(outcome, left_out=(*outcome.left_out, NO_VIDEO))
        return outcome


def outcome_of(episode: Episode, answer: WorkerAnswer) -> EpisodeResult | FaultReport:
    """Return the result in a worker's answer, or the fault instead of one."""
    if answer.result is None:
        text = answer.fault or "the worker gave no result"
        return FaultReport(episode.number, episode.case, text, answer.permanent)
    return answer.result


def _for_attempt(episode: Episode, attempt: int) -> Episode:
    """Return the episode, without video after a failed attempt: drawing can kill a process, and no policy causes it."""
    if attempt == 1 or episode.recording is None:
        return episode
    return replace(episode, recording=replace(episode.recording, video=False))


def _next(retries: deque[tuple[Episode, int]], source: Iterator[Episode]) -> tuple[Episode, int] | None:
    """Return the next episode with the number of its attempt."""
    if retries:
        return retries.popleft()
    episode = next(source, None)
    return None if episode is None else (episode, 1)
