"""Serve a run without an agent: a person, a notebook or any program plays it."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from evopolicygym.api.evaluate import IsolationName, SeedsName
from evopolicygym.api.results import Run, load_run
from evopolicygym.api.workspace import Workspace
from evopolicygym.errors import UserError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from evopolicygym.run_progress import RunProgress
    from evopolicygym.runs.open_run import OpenRun

POLL_S: Final = 0.02


class RunIsFinished(UserError):
    """The run accepts no more submissions: it has its outcome."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"{folder} is finished: it accepts no more submissions", "Load it with load_run, or name a new folder."
        )


class _ServerStopped(Exception):
    """The run is not served any more, but is not finished."""


class ServedRun:
    """A run that is served: its API is open until the block is left, or the run is finished.

    ``folder`` is the run's folder, ``task`` the id of its task, ``api`` the address of the HTTP API that submissions go
    to (docs/protocol.md). ``workspace`` is the folder that is submitted from, with a way to submit from Python."""

    def __init__(self, run: OpenRun, folder: Path) -> None:
        from concurrent.futures import Future

        from evopolicygym.runs.progress import RunWatch

        self.folder = folder
        self.task = run.judge.context.task.id
        self._run, self._watch = run, RunWatch(run.judge)
        self._address: Future[str] = Future()
        self._reason: Future[str] = Future()  # why the run is closed; an exception where it stays open
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._serve, name="evopolicygym serve")
        self._thread.start()
        try:
            self.api = self._address.result()
        except BaseException:
            self._stop()
            raise
        self.workspace = Workspace(run.paths.workspace, run.judge.state.budget, 0, self.api)

    @property
    def remaining(self) -> int:
        """The training episodes that are left."""
        return self._run.judge.state.remaining

    @property
    def progress(self) -> RunProgress:
        """The progress of the run."""
        return self._watch.progress()

    def wait(self) -> None:
        """Wait until the run is finished elsewhere, such as by the command `evopolicygym finish`."""
        self._ended.result()

    def finish(self) -> Run:
        """Close the run, select a checkpoint on hidden cases, measure it on others, and return the run."""
        from evopolicygym.runs.serve import FINISHED_BY_HAND

        if not self._reason.done():
            self._reason.set_result(FINISHED_BY_HAND)
        self.wait()
        return load_run(self.folder)

    def _stop(self) -> None:
        """Stop the server, once the submission that is running has its verdict. The run stays open."""
        if not self._reason.done():
            self._reason.set_exception(_ServerStopped(f"{self.folder} is not served any more; finish it again"))
        self._thread.join()

    def _serve(self) -> None:
        import asyncio

        from evopolicygym.runs.serve import serve_run

        try:
            asyncio.run(serve_run(self._run, self._play))
        except _ServerStopped:
            self._ended.set_result(None)
        except BaseException as error:
            if not self._address.done():
                self._address.set_exception(error)
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _play(self, url: str) -> str:
        import asyncio

        self._address.set_result(url)
        try:
            return await asyncio.wrap_future(self._reason)
        except _ServerStopped:
            while self._run.judge.state.running and not self._run.judge.shortage.resource:
                await asyncio.sleep(POLL_S)
            raise


def serve(
    task: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    name: str | None = None,
    budget: int | None = None,
    seeds: SeedsName | None = None,
    seal_key: str | os.PathLike[str] | None = None,
    validation_cases: int | None = None,
    heldout_cases: int | None = None,
    max_candidates: int | None = None,
    text: Literal["brief", "full", "blind"] | None = None,
    variant: Literal["plain", "disguised", "shifted"] | None = None,
    own_models: Literal["allowed", "forbidden"] | None = None,
    feedback: Literal["score", "summary", "trajectory", "video"] | None = None,
    video: Literal["none", "first", "all"] | None = None,
    stock: bool | None = None,
    isolation: IsolationName | None = None,
    jobs: int | None = None,
    notice: Callable[[str], object] | None = None,
) -> AbstractContextManager[ServedRun]:
    """Open a run without an agent, and accept submissions while the block is entered: `with serve(...) as served`.

    Leaving the block stops the server and nothing else. The same call continues the run; ``served.finish()``, or later
    ``finish(folder)``, selects a checkpoint and scores it.

    Args:
        task: What ``load_task`` takes.
        folder: The run's folder. A run that is in it already continues.
        name: The entrant's name in tables, figures and pages (default: "by hand").
        budget, seeds, seal_key, validation_cases, heldout_cases, max_candidates: As in ``run``.
        text, variant, own_models, feedback, video, stock, isolation, jobs: As in ``run``.
        notice: Called with each warning (default: ``warnings.warn``).

    Returns:
        A context manager. In its block there is a ``ServedRun``: ``workspace`` to write the policy and submit it,
        ``api`` for programs in other languages, ``finish()``.

    Raises:
        UserError: An argument is wrong, or the folder holds a run with other settings or one that is finished.
        Fault: The judge itself failed. Nothing is lost: the same call continues the run.

    >>> import evopolicygym, tempfile
    >>> small = {"budget": 2, "validation_cases": 1, "heldout_cases": 1, "seeds": "paper"}
    >>> with evopolicygym.serve("core16/mountain-car-continuous", tempfile.mkdtemp(), **small) as served:
    ...     feedback = served.workspace.submit([0])
    ...     feedback.status, served.remaining
    ...     run = served.finish()
    ('ok', 1)
    >>> run.outcome, run.agent
    ('scored', None)
    """
    options_given = dict(locals())  # by the names of their parameters
    from evopolicygym.runs.options import given_settings

    given = given_settings(task, options_given)
    return _serving(Path(folder), given, notice or warnings.warn)


@contextmanager
def _serving(root: Path, given: dict[str, Any], notify: Callable[[str], object]) -> Iterator[ServedRun]:
    from evopolicygym.judge.state import RunPhase
    from evopolicygym.runs.open_run import open_run

    with open_run(root, **given) as run:
        if run.judge.state.phase is RunPhase.FINISHED:
            raise RunIsFinished(root)
        if run.notice:
            notify(run.notice)
        served = ServedRun(run, root)
        try:
            yield served
        finally:
            served._stop()
            served.wait()
