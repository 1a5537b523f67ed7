"""Serve a run: keep its API and its owner's socket open until it is finished, then score it.

`serve_run` is used for every run, whether an agent plays it (runs/agent/loop.py) or `evopolicygym serve` waits for a
person. `finish_run` is the scoring alone, with the inspection of what the agent left.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any, Final

from evopolicygym.errors import Fault, RunSuspended
from evopolicygym.judge import delivery, scoring
from evopolicygym.judge.events import Inspected, Suspended
from evopolicygym.judge.shortage import to_stderr
from evopolicygym.judge.state import RunPhase
from evopolicygym.run_paths import RunPaths
from evopolicygym.run_record import Integrity
from evopolicygym.runs import disk_reserve, integrity, locks, workspace
from evopolicygym.runs.agent.setup import delete_credentials
from evopolicygym.runs.open_run import OpenRun
from evopolicygym.sandbox.limited_process import run_limited
from evopolicygym.server import owner_socket
from evopolicygym.server.app import ServedTask, build_app
from evopolicygym.server.http_server import bind, serve_requests
from evopolicygym.server.submission_queue import SubmissionQueue
from evopolicygym.tasks.conditions import FeedbackLevel

log = logging.getLogger(__name__)
FINISH_COMMAND: Final = "finish"
FINISHED_BY_HAND: Final = "finished_by_hand"
NOT_CHECKED: Final = (
    "commands that the client does not show in its transcript",
    "text in images, archives and compiled files",
    "what the model knew of the task before the run",
)
LONGEST_ERROR: Final = 500
THREADS: Final = 4  # of the agent's loop or hidden scoring, of a submission that is accepted, of refusals
Play = Callable[[str], Awaitable[str]]
Retry = Callable[[Callable[[], Integrity]], Integrity]


async def serve_run(run: OpenRun, play: Play) -> None:
    """Open the API, play, close the run, score it.

    Args:
        run: The run, opened by this process.
        play: Gets the URL of the API, and returns the reason that closes the run, or raises RunSuspended. It is
            cancelled if `evopolicygym finish` asks for the end of the run first.

    Raises:
        RunSuspended: The run is neither closed nor scored; it can be continued.
    """
    asyncio.get_running_loop().set_default_executor(_started_threads())
    queue = SubmissionQueue(run.judge)
    service = _RunService(run, queue)
    context, (listener, address) = run.judge.context, bind(run.paths.root)
    spaces = context.engine.obs_space, context.engine.action_space
    task = ServedTask(context.task, run.task_text, *spaces, context.feedback)
    try:
        async with owner_socket.answer_commands(run.paths.root, service.answer), service.reporting_the_end():
            async with serve_requests(build_app(queue, task, address.token), listener):
                workspace.write_api_address(run.paths, address.url)
                queue.resume()
                try:
                    reason = await service.wait_for_end(play(address.url))
                except RunSuspended as suspension:
                    await queue.drain()
                    if run.judge.state.phase is RunPhase.OPEN:
                        _suspend(run, suspension)
                        raise
                    reason = suspension.reason  # the last submission has spent the budget: nothing is left to continue
                await queue.close(reason)
            await service.score()
    finally:
        queue.stop()


def _started_threads() -> ThreadPoolExecutor:
    """Start the threads of `asyncio.to_thread` now: without memory, none could be started later."""
    threads, all_started = ThreadPoolExecutor(THREADS, "judge"), threading.Barrier(THREADS)
    list(threads.map(lambda _: all_started.wait(), range(THREADS)))
    return threads


def _suspend(run: OpenRun, suspension: RunSuspended) -> None:
    """Record that the run is suspended, in its ledger and in run.json."""
    run.judge.record(Suspended(suspension.reason, suspension.cause), from_reserve=True)
    run.write_record()


class _RunService:
    """Ends a run that is served, and answers the callers that asked for it over the owner's socket."""

    def __init__(self, run: OpenRun, queue: SubmissionQueue) -> None:
        self._run, self._queue = run, queue
        self._finish_requested = asyncio.Event()
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listeners: list[owner_socket.SendMessage] = []

    async def answer(self, command: str, send: owner_socket.SendMessage) -> dict[str, Any]:
        """Return the answer to a command that came over the owner's socket."""
        if command != FINISH_COMMAND:
            return {"error": f"the owner of the run does not understand {command!r}"}
        self._listeners.append(send)
        self._finish_requested.set()
        try:
            await asyncio.shield(self._finished)
        except Exception as error:
            return {"error": str(error)}
        return {"finished": True}

    async def wait_for_end(self, play: Awaitable[str]) -> str:
        """Return the reason that closes the run. Raise what broke the judge, if that comes first."""
        playing = asyncio.ensure_future(play)
        requested = asyncio.ensure_future(self._finish_requested.wait())
        events = [playing, requested, self._queue.broken]
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
        if self._queue.broken.done():
            self._queue.broken.result()
        if playing.done():
            return playing.result()
        playing.cancel()
        await asyncio.wait([playing])
        if not playing.cancelled() and isinstance(fault := playing.exception(), Fault):
            raise fault  # the last turn could not be recorded
        return FINISHED_BY_HAND

    async def score(self) -> None:
        """Play the hidden cases, now that the API is closed."""
        loop, total = asyncio.get_running_loop(), scoring.remaining_episodes(self._run.judge.state)

        def advance() -> None:
            asyncio.run_coroutine_threadsafe(self._send_progress(total), loop)

        def notify(text: str) -> None:
            to_stderr(text)
            asyncio.run_coroutine_threadsafe(self._send({"waiting": text}), loop)

        await self._send_progress(total)
        await asyncio.to_thread(finish_run, self._run, advance, notify)

    @asynccontextmanager
    async def reporting_the_end(self) -> AsyncIterator[None]:
        """Answer the callers that asked to finish the run, also if the judge broke on the way."""
        try:
            yield
        except Exception as error:
            self._finished.set_exception(error)
            self._finished.exception()  # mark it as retrieved: there may be no listener
            raise
        self._finished.set_result(None)

    async def _send_progress(self, total: int) -> None:
        await self._send({"episode": True, "total": total})

    async def _send(self, message: dict[str, Any]) -> None:
        for send in self._listeners:
            await send(message)


def finish_run(run: OpenRun, advance: scoring.Advance = lambda: None, notify: locks.Notify | None = None) -> None:
    """Select and score the checkpoints of a closed run, and write its record.

    Waits until no agent on the same cases is alive on this machine. ``advance`` is called after each hidden episode,
    ``notify`` with a message if there is a wait. During a shortage of disk space and the like, it pauses."""
    disk_reserve.release(run.paths)
    run.judge.shortage.retry(lambda: _finish(run, advance, notify))


def _finish(run: OpenRun, advance: scoring.Advance, notify: locks.Notify | None) -> None:
    """Do the remaining steps until the outcome. It can be called again after an error."""
    if run.judge.state.phase is RunPhase.CLOSED:  # nothing is written to the workspace once hidden cases are played
        _remove_videos(run)
        workspace.write_closed(run.paths)
    if run.judge.state.phase is not RunPhase.FINISHED:
        run.write_record()
        with _hidden_cases(run, notify) if scoring.remaining_episodes(run.judge.state) else nullcontext():
            scoring.finish(run.judge, advance, lambda: _inspect(run))
    if run.settings.agent:
        delete_credentials(run.paths, run.settings.agent.name)
    run.write_record()


def _remove_videos(run: OpenRun) -> None:
    """Remove the agent's copies of videos, which are large. The judge keeps one copy of each in feedback/."""
    for submitted in run.judge.state.submissions.values() if run.settings.feedback is FeedbackLevel.VIDEO else ():
        try:
            delivery.remove_large_files(run.paths.feedback / submitted.name, run.paths.workspace, delivery.VIDEO_FILES)
        except delivery.DeliveryFailed as error:
            log.warning("%s", error)


def _hidden_cases(run: OpenRun, notify: locks.Notify | None) -> AbstractContextManager[None]:
    root = run.paths.root
    remedy = f"Ctrl-C loses nothing: `evopolicygym finish {root}` scores the run later."
    return locks.hidden_cases_lock(run.case_set, str(root), remedy, notify)


def _inspect(run: OpenRun) -> None:
    """Record the integrity note, once. A run without an agent was played by a person and gets none."""
    if run.settings.agent and run.judge.state.inspected is None:
        note = inspect_leftovers(run.paths, run.judge.shortage.retry)
        run.judge.record(Inspected(_redacted(note, run.judge.redact)))


def inspect_leftovers(paths: RunPaths, retry: Retry = lambda scan: scan()) -> dict[str, Any]:
    """Return the integrity note of a run: signs in what its agent left, and what was renamed.

    What an agent left is hostile input, so it is scanned in a limited process (runs/integrity.py). Never raises: a run
    ends with its outcome, and whatever goes wrong here becomes a sentence in the record. ``retry`` waits out a
    shortage."""
    try:
        note = retry(lambda: _integrity_note(paths))
    except Exception as error:
        log.warning("what the agent left cannot be inspected", exc_info=True)
        text = f"could not be inspected: {type(error).__name__}: {error}"
        note = Integrity(signs=[], not_checked=list(NOT_CHECKED), error=text[:LONGEST_ERROR])
    return note.model_dump(mode="json")


def _integrity_note(paths: RunPaths) -> Integrity:
    scan = run_limited(integrity.__name__, str(paths.root), cpu_s=integrity.CPU_S)
    complete_lines = scan.output.split(b"\n")[:-1]  # lines that were complete when the process ended
    parts = [Integrity.model_validate(json.loads(line)) for line in complete_lines]
    failure = scan.failure and f"could not be inspected: the process that did it {scan.failure}"
    return Integrity(
        signs=[sign for part in parts for sign in part.signs],
        not_checked=[*NOT_CHECKED, *(text for part in parts for text in part.not_checked)],
        renamed=[name for part in parts for name in part.renamed],
        error=failure,
    )


def _redacted(note: Any, redact: Callable[[str], str]) -> Any:
    """Return a note with every text in it redacted."""
    if isinstance(note, dict):
        return {name: _redacted(value, redact) for name, value in note.items()}
    if isinstance(note, list):
        return [_redacted(value, redact) for value in note]
    return redact(note) if isinstance(note, str) else note
