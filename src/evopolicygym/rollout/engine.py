"""The engine seam: episodes go in, results come out, in whatever order they end.

``LocalEngine`` keeps one worker process for each job, each pinned to a core of its own together with its policies.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol, Self

from evopolicygym.errors import Fault, IsolationUnavailable, UserError
from evopolicygym.rollout import ancestor
from evopolicygym.rollout.pipe import receive, send
from evopolicygym.rollout.records import (
    Answer,
    Episode,
    EpisodeError,
    EpisodeResult,
    FaultReport,
    Hello,
    LoadResult,
    Request,
)
from evopolicygym.rollout.worker import Settings
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointStore, remove_tree
from evopolicygym.sandbox.failures import ErrorKind
from evopolicygym.sandbox.jail import Level
from evopolicygym.sandbox.launcher import start_clean
from evopolicygym.tasks import simulator
from evopolicygym.tasks.sealing import KEY_VARIABLE
from evopolicygym.tasks.task import Task

PUBLISHABLE: Final = (Level.A, Level.B)
SINGLE_THREADED: Final = {b"OMP_NUM_THREADS": b"1", b"OPENBLAS_NUM_THREADS": b"1", b"MKL_NUM_THREADS": b"1"}
TRIES: Final = 2
PATIENCE_S: Final = 2 * 3600.0  # without any answer of any worker: far beyond every limit of a policy


class OutOfTime(Exception):
    """The deadline passed while episodes were still running; they are stopped."""


class Engine(Protocol):
    """What the judge needs of any engine."""

    store: CheckpointStore
    level: Level
    implementation: str
    obs_space: dict[str, Any]
    action_space: dict[str, Any]

    def load(self, checkpoint: Checkpoint) -> LoadResult: ...

    def run(
        self, episodes: Iterable[Episode], deadline: float | None = None
    ) -> Iterator[EpisodeResult | FaultReport]: ...

    def close(self) -> None: ...


class LocalEngine:
    """Workers on this machine. Use as a context manager: leaving it ends every process and removes every file."""

    def __init__(
        self,
        task: Task,
        jobs: int = 1,
        levels: tuple[Level, ...] = PUBLISHABLE,
        store: Path | None = None,
        video: bool = False,
        stock: bool = False,
    ) -> None:
        self._task = task
        self._scratch = None if store else Path(tempfile.gettempdir(), f"evopolicygym-{secrets.token_hex(8)}")
        stage = (store or self._scratch or Path()).absolute()
        self._cores = sorted(os.sched_getaffinity(0))
        environment = {name: value for name, value in os.environb.items() if name != KEY_VARIABLE.encode()}
        handed_on = tuple((environment | SINGLE_THREADED).items())
        self._settings = Settings(task, handed_on, str(stage), store is None, levels, 0, video, stock)
        self._workers: list[_WorkerHandle] = []
        try:
            self._workers = [self._start(i) for i in range(jobs)]
            hellos = [worker.hello() for worker in self._workers]
        except BaseException:
            self.close()
            raise
        self.store = CheckpointStore(stage)
        self.level = hellos[0].level
        self.implementation = simulator.implementation(task, stock)
        self.obs_space, self.action_space = hellos[0].obs_space, hellos[0].action_space

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def load(self, checkpoint: Checkpoint) -> LoadResult:
        """Whether the policy imports and constructs, in the jail, without an environment."""
        if not checkpoint.has_policy:
            return LoadResult(EpisodeError(ErrorKind.MISSING_POLICY, "the folder holds no file policy.py"))
        for _ in range(TRIES):
            worker = self._ready()[0]
            worker.ask(Request(checkpoint))
            answer = worker.answer()
            if answer and answer.load:
                return answer.load
            worker.kill()
            if answer:
                raise Fault(answer.fault or "the worker gave no result")
        raise Fault(f"the worker died {TRIES} times while it loaded a policy")

    def run(self, episodes: Iterable[Episode], deadline: float | None = None) -> Iterator[EpisodeResult | FaultReport]:
        """Results as they come. Episodes are drawn from the iterable only when a worker is free for them. Raises
        OutOfTime when ``deadline`` (of ``time.monotonic``) passes first."""
        source, retries = iter(episodes), deque[tuple[Episode, int]]()
        busy: dict[_WorkerHandle, tuple[Episode, int]] = {}
        idle = self._ready()
        try:
            while True:
                while idle and (work := _next(retries, source)):
                    worker = idle.pop()
                    worker.ask(Request(work[0].checkpoint, work[0]))
                    busy[worker] = work
                if not busy:
                    return
                for worker in self._finished(busy, deadline):
                    episode, attempt = busy.pop(worker)
                    answer = worker.answer()
                    broken = answer is None or answer.fault is not None  # whatever it was, a new worker has it not
                    idle.append(self._replace(worker) if broken else worker)
                    if answer is None and attempt < TRIES:
                        retries.append((episode, attempt + 1))
                    else:
                        yield self._outcome(episode, answer)
        finally:
            for worker in busy:  # broken off: what they would answer is for nobody
                worker.kill()

    def _ready(self) -> list[_WorkerHandle]:
        """All workers, those that were killed replaced."""
        return [self._replace(worker) if worker.killed else worker for worker in list(self._workers)]

    def _finished(self, busy: Iterable[_WorkerHandle], deadline: float | None) -> list[_WorkerHandle]:
        """Workers that have answered or died. One that hangs for hours in its simulator is killed, and so has died."""
        patience = PATIENCE_S if deadline is None else min(PATIENCE_S, max(0.0, deadline - time.monotonic()))
        ready: list[_WorkerHandle] = select.select(list(busy), [], [], patience)[0]
        if deadline is not None and time.monotonic() > deadline:
            raise OutOfTime
        if not ready:
            for worker in busy:
                worker.kill()
        return ready

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers = []
        if self._scratch:
            remove_tree(self._scratch)

    def _outcome(self, episode: Episode, answer: Answer | None) -> EpisodeResult | FaultReport:
        if answer is None:
            return self._killed_the_simulator(episode)
        if answer.result is None:
            return FaultReport(episode.number, episode.case, answer.fault or "the worker gave no result")
        return answer.result

    def _killed_the_simulator(self, episode: Episode) -> EpisodeResult:
        """The simulator's process died each time it played this checkpoint on this case."""
        text = f"the simulator process died {TRIES} times while it played this episode"
        score = self._task.failed_score(0.0)
        error = EpisodeError(ErrorKind.SIMULATOR_ERROR, text)
        return EpisodeResult(episode.number, episode.case, score, 0.0, 0, False, False, 0, error, "", "", 0.0, 0.0, 0.0)

    def _start(self, number: int) -> _WorkerHandle:
        return _WorkerHandle(replace(self._settings, core=self._core(number)))

    def _core(self, number: int) -> int:
        """Engines that run at the same time start at different cores, as far as their pids differ."""
        return self._cores[(os.getpid() + number) % len(self._cores)]

    def _replace(self, dead: _WorkerHandle) -> _WorkerHandle:
        number = self._workers.index(dead)
        dead.close()
        self._workers[number] = self._start(number)
        self._workers[number].hello()
        return self._workers[number]


class _WorkerHandle:
    """The engine's end of one worker process."""

    killed = False

    def __init__(self, settings: Settings) -> None:
        self._connection, theirs = socket.socketpair()
        self._process = start_clean(ancestor.__file__, theirs)
        theirs.close()
        send(self._connection, settings)

    def fileno(self) -> int:
        return self._connection.fileno()

    def hello(self) -> Hello:
        hello = receive(self._connection, Hello)
        if hello is None:
            raise Fault("a simulator worker died while starting; its message is above")
        if hello.not_isolated:
            raise IsolationUnavailable(hello.not_isolated)
        if hello.refused:
            raise UserError(hello.refused)
        return hello

    def ask(self, request: Request) -> None:
        try:
            send(self._connection, request)
        except ConnectionError:
            pass  # it is dead; the missing answer says so

    def answer(self) -> Answer | None:
        return receive(self._connection, Answer)

    def kill(self) -> None:
        self._process.kill()
        self.killed = True

    def close(self) -> None:
        """Its zygotes and policies die with it."""
        self._process.kill()
        self._process.wait()
        self._connection.close()


def _next(retries: deque[tuple[Episode, int]], source: Iterator[Episode]) -> tuple[Episode, int] | None:
    if retries:
        return retries.popleft()
    episode = next(source, None)
    return None if episode is None else (episode, 1)
