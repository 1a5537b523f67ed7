"""Serving a run: the door and the owner's socket are open until somebody finishes the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any, Final

from evopolicygym.judge import scoring
from evopolicygym.judge.events import Inspected
from evopolicygym.judge.state import RunPhase
from evopolicygym.runs import disk_reserve, integrity, locks, workspace
from evopolicygym.runs.agent_setup import delete_credentials
from evopolicygym.runs.open_run import OpenRun
from evopolicygym.server import owner_socket
from evopolicygym.server.app import ServedTask, build_app
from evopolicygym.server.http_server import bind, serve_requests
from evopolicygym.server.submission_queue import SubmissionQueue

FINISH_COMMAND: Final = "finish"
FINISHED_BY_HAND: Final = "finished_by_hand"


Play = Callable[[str], Awaitable[str]]


async def serve_run(owner: OpenRun, play: Play) -> None:
    """From the open door to the outcome. ``play`` is told the URL of the door, and returns why it ended; somebody who
    asks to finish the run ends it, too."""
    desk = SubmissionQueue(owner.judge)
    service = _Service(owner, desk)
    means, listener = owner.judge.context, bind(owner.paths.root)
    facts = ServedTask(means.task, owner.task_text, means.engine.obs_space, means.engine.action_space)
    async with owner_socket.answer_commands(owner.paths.root, service.answer), service.telling_how_it_ends():
        async with serve_requests(build_app(desk, facts, listener[1].token), listener[0]):
            workspace.write_door(owner.paths, listener[1].url)
            desk.resume()
            await desk.close(await service.played(play(listener[1].url)))
        await service.score()


class _Service:
    def __init__(self, owner: OpenRun, desk: SubmissionQueue) -> None:
        self._owner, self._desk = owner, desk
        self._asked = asyncio.Event()
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tell: list[owner_socket.SendMessage] = []

    async def answer(self, command: str, tell: owner_socket.SendMessage) -> dict[str, Any]:
        """What the owner's socket understands."""
        if command != FINISH_COMMAND:
            return {"error": f"the owner of the run does not understand {command!r}"}
        self._tell.append(tell)
        self._asked.set()
        try:
            await asyncio.shield(self._finished)
        except Exception as error:
            return {"error": str(error)}
        return {"finished": True}

    async def played(self, play: Awaitable[str]) -> str:
        """Why the run is to be closed. Raises what broke the judge, if that comes first."""
        playing = asyncio.ensure_future(play)
        asked = asyncio.ensure_future(self._asked.wait())
        await asyncio.wait([playing, asked, self._desk.broken], return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
        if self._desk.broken.done():
            self._desk.broken.result()
        if playing.done():
            return playing.result()
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        return FINISHED_BY_HAND

    async def score(self) -> None:
        """Hidden scoring, with the door shut."""
        loop, left = asyncio.get_running_loop(), scoring.left_to_play(self._owner.judge.state)

        def advance() -> None:
            asyncio.run_coroutine_threadsafe(self._progress(left), loop)

        def tell(text: str) -> None:
            locks.to_stderr(text)
            asyncio.run_coroutine_threadsafe(self._send({"waiting": text}), loop)

        await self._progress(left)
        await asyncio.to_thread(finish_run, self._owner, advance, tell)

    @asynccontextmanager
    async def telling_how_it_ends(self) -> AsyncIterator[None]:
        """Whoever asked us to finish gets an answer, also when the judge broke on the way."""
        try:
            yield
        except Exception as error:
            self._finished.set_exception(error)
            self._finished.exception()  # nobody may have asked
            raise
        self._finished.set_result(None)

    async def _progress(self, total: int) -> None:
        await self._send({"episode": True, "total": total})

    async def _send(self, message: dict[str, Any]) -> None:
        for tell in self._tell:
            await tell(message)


def finish_run(owner: OpenRun, advance: scoring.Advance = lambda: None, tell: locks.Notify | None = None) -> None:
    """Selection and score of a closed run, and its record. Waits for agents on the same cases; ``tell`` is told so."""
    disk_reserve.release(owner.paths)
    if owner.judge.state.phase is RunPhase.CLOSED:  # from here on nothing is written there: hidden cases are played
        workspace.write_closed(owner.paths)
    if owner.judge.state.phase is not RunPhase.FINISHED:
        owner.write_record()
        with _hidden_cases(owner, tell) if scoring.left_to_play(owner.judge.state) else nullcontext():
            scoring.finish(owner.judge, advance, lambda: _inspect(owner))
    if owner.settings.agent:
        delete_credentials(owner.paths, owner.settings.agent.name)
    owner.write_record()


def _hidden_cases(owner: OpenRun, tell: locks.Notify | None) -> AbstractContextManager[None]:
    root = owner.paths.root
    remedy = f"Ctrl-C loses nothing: `evopolicygym finish {root}` scores the run later."
    return locks.hidden_cases_lock(owner.case_set, str(root), remedy, tell)


def _inspect(owner: OpenRun) -> None:
    """What an agent left, once. A workspace without one is a person's own."""
    if owner.settings.agent and owner.judge.state.inspected is None:
        owner.judge.record(Inspected(_redacted(integrity.inspect(owner.paths), owner.judge.redact)))


def _redacted(note: Any, redact: Callable[[str], str]) -> Any:
    """Every text in a note, wherever it is."""
    if isinstance(note, dict):
        return {name: _redacted(value, redact) for name, value in note.items()}
    if isinstance(note, list):
        return [_redacted(value, redact) for value in note]
    return redact(note) if isinstance(note, str) else note
