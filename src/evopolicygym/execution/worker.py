"""A worker: a judge process that plays episodes in its simulator, on one core that it shares with its policies.

It starts in ``worker_entry``. Its engine kills it when it is no longer needed; if the engine itself is killed, the
worker removes the temporary folder of checkpoints and ends.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from evopolicygym.errors import Fault, IsolationUnavailable, UserError, fault_text, is_permanent
from evopolicygym.execution.episode import (
    EpisodeProgress,
    SimulatorError,
    TranslatedPolicy,
    TranslatedRecorder,
    play,
)
from evopolicygym.execution.messages import WorkerAnswer, WorkerHello, WorkerRequest, WorkerSettings, receive, send
from evopolicygym.execution.recording import Recorders
from evopolicygym.execution.records import Episode, EpisodeError, EpisodeResult, LoadResult
from evopolicygym.sandbox import kernel
from evopolicygym.sandbox.checkpoints import Checkpoint, remove_tree
from evopolicygym.sandbox.policy.codec import action_size, size_of
from evopolicygym.sandbox.policy.policy_process import (
    PolicyArguments,
    PolicyProcess,
    ProcessResult,
    RecordedActions,
    TimedPolicy,
)
from evopolicygym.sandbox.policy.protocol import ErrorKind, PolicyFailure
from evopolicygym.sandbox.policy.zygote import NUMPY, SCIPY
from evopolicygym.sandbox.policy.zygote_client import Zygote, ZygoteForker, start_by_exec
from evopolicygym.tasks import simulator
from evopolicygym.tasks.spaces import json_safe
from evopolicygym.tasks.translation import translation_of

ERROR_IN_EPISODE = {ErrorKind.DENIED_IMPORT: ErrorKind.IMPORT_ERROR, ErrorKind.INIT_TIMEOUT: ErrorKind.TIMEOUT}


class Worker:
    """Plays episodes one after another. Zygotes come from ``forker``; without one each is started by exec."""

    def __init__(self, settings: WorkerSettings, forker: ZygoteForker | None = None) -> None:
        self._settings, self._task, self._checkpoints = settings, settings.task, Path(settings.checkpoints)
        self._checkpoints.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._start_zygote = forker.start if forker else start_by_exec
        best = Zygote.best(settings.levels, self._checkpoints, self._start_zygote)
        self._zygotes: dict[tuple[str, ...], Zygote] = {NUMPY: best}
        self.level = self._zygotes[NUMPY].level
        env = self._make()
        observation, action = simulator.own_schemas(self._task, env)
        env.close()
        try:
            size_of(observation), action_size(action)
        except ValueError as error:
            raise UserError(f"{self._task.id} cannot be played: {error}") from error
        self._translation = translation_of(self._task, observation, action)
        if self._translation:
            observation, action = self._translation.obs_space, self._translation.action_space
        self.policy_arguments = PolicyArguments(observation, action, self._task.env_meta())

    def load(self, checkpoint: Checkpoint) -> LoadResult:
        """Import and construct the policy, without an environment."""
        policy = self._start(checkpoint, bytes(32))
        try:
            policy.wait_ready()
            process = policy.close()
            return LoadResult(None, process.stdout, process.stderr)
        except PolicyFailure as failure:
            process = policy.close()
            error = EpisodeError(failure.kind, failure.text)
            return LoadResult(error, process.stdout, process.stderr)

    def play(self, episode: Episode) -> EpisodeResult:
        """Play one episode. The policy starts before the environment, whose caches are then warm for the first step."""
        began = time.perf_counter()
        policy = self._start(episode.checkpoint, episode.case.randomness_key())
        try:
            policy.wait_ready()
            progress = self._rollout(episode, policy)
        except PolicyFailure as failure:
            progress = EpisodeProgress(failure=failure)
        except SimulatorError as error:
            policy.close()
            progress = self._repeat(episode, policy.recorded(), error)
        finally:
            process = policy.close()
        return self._result(episode, progress, process, policy.clipped_actions, time.perf_counter() - began)

    def _repeat(self, episode: Episode, actions: RecordedActions | None, error: SimulatorError) -> EpisodeProgress:
        """Repeat the actions at which the simulator raised. If it raises again, the policy caused the error; if not, it
        is a fault of the judge.

        The policy itself is not run again: one that depends on the clock would act differently, and its own error would
        count as a fault. For the same reason an error after more actions than were kept is blamed on the policy."""
        text = f"{error}; its actions take too much memory to be repeated"
        if actions is not None:
            once = f"{error}, but not when the episode was repeated"
            try:
                self._rollout(episode, actions)
                raise Fault("the episode ended without an error")
            except Fault as fault:
                raise Fault(f"{once}: {fault}", fault.permanent) from error
            except SimulatorError as again:
                error, text = again, f"{again}; it does so whenever these actions are repeated"
        if self._task.view.is_blind:
            text = "the simulator raised an error for these actions; its text is not shown, since it may name the task"
        progress = error.progress or EpisodeProgress()
        progress.failure = PolicyFailure(ErrorKind.SIMULATOR_ERROR, text)
        return progress

    def _make(self) -> Any:
        return simulator.make(self._task, self._settings.video, self._settings.stock)

    def _rollout(self, episode: Episode, policy: PolicyProcess | RecordedActions) -> EpisodeProgress:
        env = self._make()
        try:
            if episode.recording is None:
                player = TranslatedPolicy(policy, self._translation) if self._translation else policy
                return play(self._task, env, episode.case.seed, player)
            timed = TimedPolicy(policy)
            spaces = self.policy_arguments.obs_space, self.policy_arguments.action_space
            seed = episode.case.seed if self._task.view.shows_info else None
            with Recorders(episode.recording, env, *spaces, seed) as recorders:
                if self._translation:
                    translated = TranslatedPolicy(timed, self._translation)
                    recorder = TranslatedRecorder(recorders, translated, self._task.view.reward_scale)
                    progress = play(self._task, env, episode.case.seed, translated, recorder)
                else:
                    progress = play(self._task, env, episode.case.seed, timed, recorders)
            progress.left_out, progress.longest_act_cpu_s = recorders.left_out, timed.longest_cpu_s
            return progress
        finally:
            env.close()

    def _start(self, checkpoint: Checkpoint, key: bytes) -> PolicyProcess:
        preload = SCIPY if checkpoint.uses_scipy else NUMPY
        if preload not in self._zygotes:
            self._zygotes[preload] = Zygote(self.level, self._checkpoints, preload, start=self._start_zygote)
        return PolicyProcess(self._zygotes[preload], checkpoint.hash, self.policy_arguments, self._task.limits, key)

    def _result(
        self, episode: Episode, progress: EpisodeProgress, process: ProcessResult, clipped: int, wall_s: float
    ) -> EpisodeResult:
        failure = progress.failure
        kind = ERROR_IN_EPISODE.get(failure.kind, failure.kind) if failure else None
        return EpisodeResult(
            number=episode.number,
            case=episode.case,
            score=self._task.failed_score(progress.total) if failure else progress.total,
            return_so_far=progress.total,
            length=progress.length,
            terminated=progress.terminated,
            truncated=progress.truncated,
            clipped_actions=clipped,
            error=EpisodeError(kind, failure.text) if failure and kind else None,
            stdout=process.stdout,
            stderr=process.stderr,
            wall_s=wall_s,
            rollout_s=progress.seconds,
            policy_cpu_s=process.ended.cpu_s,
            left_out=progress.left_out,
            policy_wall_s=process.waited_s,
            act_cpu_s=max(0.0, process.ended.cpu_s - process.init_cpu_s) / max(1, progress.length),
            longest_act_cpu_s=progress.longest_act_cpu_s,
        )


def serve(connection: socket.socket, worker: Worker) -> None:
    """Answer requests until the engine is gone."""
    while (request := receive(connection, WorkerRequest)) is not None:
        try:
            if request.episode is None:
                answer = WorkerAnswer(load=worker.load(request.checkpoint))
            else:
                answer = WorkerAnswer(result=worker.play(request.episode))
        except Exception as error:  # an error here is the judge's fault, never the policy's
            answer = WorkerAnswer(fault=fault_text(error), permanent=is_permanent(error))
        send(connection, answer)


def main(connection: socket.socket, forker: ZygoteForker) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = receive(connection, WorkerSettings)
    if settings is None:
        sys.exit(0)
    _exit_with_engine(settings)
    os.sched_setaffinity(0, {settings.core})
    _set_environment(settings.environment)
    try:
        worker = Worker(settings, forker)
        arguments = worker.policy_arguments
        spaces = (json_safe(space) for space in (arguments.obs_space, arguments.action_space))
        send(connection, WorkerHello(worker.level, *spaces))
        serve(connection, worker)
    except IsolationUnavailable as error:
        _refuse(connection, WorkerHello(not_isolated=error.reasons, errno=error.errno))
    except UserError as error:
        _refuse(connection, WorkerHello(refused=str(error)))
    except ConnectionError:
        pass  # the engine is gone
    except OSError as error:
        _refuse(connection, WorkerHello(refused=f"a simulator worker cannot start: {error}", errno=error.errno))
    _exit(settings)


def _refuse(connection: socket.socket, hello: WorkerHello) -> None:
    """Report why this worker cannot work, and wait until the engine ends it or is itself gone."""
    with suppress(ConnectionError):
        send(connection, hello)
        receive(connection, WorkerRequest)


def _set_environment(environment: tuple[tuple[bytes, bytes], ...]) -> None:
    """Take over the engine's environment variables, which ``worker_entry`` starts without."""
    os.environb.clear()
    os.environb.update(environment)
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def _exit_with_engine(settings: WorkerSettings) -> None:
    """Exit when the engine's process is gone. The kernel sends the signal whenever the thread ends that started this
    process, so the parent tells whether the engine itself has ended."""
    engine = os.getppid()

    def on_signal(*_: object) -> None:
        if os.getppid() != engine:
            _exit(settings)

    signal.signal(signal.SIGTERM, on_signal)
    kernel.die_with_parent(signal.SIGTERM)


def _exit(settings: WorkerSettings) -> NoReturn:
    """End at once, because the engine was killed. Zygotes and policies die with this process."""
    if settings.stage_is_temporary:
        remove_tree(settings.checkpoints)
    os._exit(0)
