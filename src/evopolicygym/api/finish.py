"""End, score and verify a run after its agent."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evopolicygym.api.evaluate import EngineChoice, IsolationName, checked_jobs, counter, member
from evopolicygym.api.results import Run
from evopolicygym.errors import Fault, UserError

if TYPE_CHECKING:
    from evopolicygym.runs.verify import Verification

PathLike = str | os.PathLike[str]
Progress = Callable[[int, int], object]
Notice = Callable[[str], object]
POLL_S: Final = 0.2


def finish(
    folder: PathLike,
    *,
    task: PathLike | None = None,
    jobs: int | None = None,
    engine: EngineChoice | None = None,
    isolation: IsolationName | None = None,
    progress: Progress | None = None,
    notice: Notice | None = None,
) -> Run:
    """Close a run, select a checkpoint on hidden validation cases, measure it on held-out cases, and return the run.

    What an earlier attempt has done is not repeated; a run that has its outcome is returned as it is. If another
    process plays or serves the run, that process is asked to finish it, and this function waits for it.

    Args:
        folder: The run's folder.
        task: The run's task, if its code is your own module or file: naming it says that you trust it.
        jobs: Episodes at a time (default: the cores of this machine).
        engine: ``local`` or ``ray`` (default: as the run was opened).
        isolation: Isolation of policies (default: as the run was opened).
        progress: Called with the number of finished hidden episodes and their total.
        notice: Called with each warning, and if another process works on the run (default: ``warnings.warn``).

    Returns:
        The ``Run``: ``score`` is None where ``missing`` says why.

    Raises:
        UserError: There is no run in the folder, or it cannot continue here.
        Fault: The judge failed. Nothing is lost: call it again.

    >>> import evopolicygym, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> small = {"validation_cases": 1, "heldout_cases": 1, "seeds": "paper"}
    >>> with evopolicygym.serve("core16/mountain-car-continuous", folder, **small) as served:
    ...     feedback = served.workspace.submit([0])
    >>> evopolicygym.load_run(folder).status
    'open'
    >>> evopolicygym.finish(folder).outcome
    'scored'
    """
    from evopolicygym.runs.locks import RunIsOwned
    from evopolicygym.runs.run_status import has_outcome

    root, notify = Path(folder), notice or warnings.warn
    given = _given(task, jobs, engine, isolation)
    is_waiting = False
    while not has_outcome(root):
        try:
            _finish(root, given, progress, notify)
            _check_has_outcome(root)
        except RunIsOwned:
            if not is_waiting:
                notify(f"waiting: another process works on {root}")
            is_waiting = True
            time.sleep(POLL_S)
    return _run(root)


def score(
    folder: PathLike,
    *,
    all_checkpoints: bool = False,
    task: PathLike | None = None,
    jobs: int | None = None,
    engine: EngineChoice | None = None,
    isolation: IsolationName | None = None,
    progress: Progress | None = None,
    notice: Notice | None = None,
) -> Run:
    """Return a finished run with the scores of its submissions; measure other candidates too, if asked to.

    Args:
        folder: The folder of a finished run.
        all_checkpoints: Measure also candidates that are neither the selected one nor the first: for analysis, it
            never selects.
        task, jobs, engine, isolation, progress, notice: As in ``finish``.

    Returns:
        The ``Run``. ``record.checkpoints`` have ``validation`` and, where it was measured, ``heldout``.

    Raises:
        UserError: There is no run in the folder, it is not finished, or it cannot be played here.
        Fault: The judge failed. Nothing is lost: call it again.

    >>> import evopolicygym
    >>> run = evopolicygym.score("examples/runs/acrobot__tuner__s0")
    >>> measured = [checkpoint for checkpoint in run.record.checkpoints if checkpoint.heldout]
    >>> measured[-1].heldout.mean == run.score
    True
    """
    from evopolicygym.judge import scoring
    from evopolicygym.judge.state import RunPhase
    from evopolicygym.runs.locks import hidden_cases_lock
    from evopolicygym.runs.open_run import open_run
    from evopolicygym.runs.run_status import has_outcome, read_state
    from evopolicygym.tasks.splits import Split

    root = Path(folder)
    state = read_state(root)
    if state.phase is not RunPhase.FINISHED:
        raise UserError(f"{root} has no outcome yet", f"Finish it first: evopolicygym finish {root}")
    missing = scoring.unmeasured(state)
    if (all_checkpoints and missing) or not has_outcome(root):
        with open_run(root, **_given(task, jobs, engine, isolation)) as run:
            if run.notice:
                (notice or warnings.warn)(run.notice)
            if all_checkpoints and missing:
                advance = counter(progress, len(missing) * scoring.count(state, Split.HELDOUT))
                with hidden_cases_lock(run.case_set, str(root), "Ctrl-C loses nothing: score it later."):
                    for checkpoint in missing:
                        scoring.score(run.judge, checkpoint, advance)
            run.write_record()
    return _run(root)


def _run(root: Path) -> Run:
    """Return the run. Returns that are too large for statistics are no reason to fail here: the run is finished."""
    from evopolicygym.run_record import load

    return Run(root, load(root))


def verify(
    folder: PathLike,
    *,
    task: PathLike | None = None,
    jobs: int | None = None,
    isolation: IsolationName = "auto",
) -> Verification:
    """Recompute everything about a run that can be recomputed, and report what does not match. Nothing is written.

    The winner and the first submission are played again on the held-out cases. Policies run isolated whatever the
    run's own settings say.

    Args:
        folder: The run's folder, which may come from another person.
        task: The run's task, if its code is a module or file of your own: naming it says that you trust it.
        jobs: Episodes at a time (default: the cores of this machine).
        isolation: ``auto`` is the best of levels A and B; ``none`` runs the policy without a jail.

    Returns:
        A ``Verification``: ``ok``, and ``findings``, each with ``what`` was checked, whether it is ``ok``, and a
        ``detail`` in words.

    Raises:
        UserError: There is no run in the folder, or an argument is wrong. What is wrong with the run is a finding.

    >>> import evopolicygym, tempfile
    >>> def agent(workspace):
    ...     workspace.submit([0])
    >>> small = {"budget": 1, "validation_cases": 1, "heldout_cases": 1, "seeds": "paper"}
    >>> run = evopolicygym.run("core16/mountain-car-continuous", agent, folder=tempfile.mkdtemp(), **small)
    >>> verification = evopolicygym.verify(run.folder)
    >>> verification.ok, verification.findings[-1].what
    (True, 'replay')
    """
    from evopolicygym.execution.slots import check_jobs
    from evopolicygym.run_paths import RunPaths
    from evopolicygym.runs import verify as checks
    from evopolicygym.runs.run_status import refuse_imported
    from evopolicygym.runs.settings import IsolationChoice

    root, paths = Path(folder), RunPaths(Path(folder))
    refuse_imported(paths)
    if not os.path.lexists(paths.ledger) and not os.path.lexists(paths.record):
        raise UserError(f"{root} holds no run", "Name the folder of a run: the one with run.json and ledger.jsonl.")
    count = checked_jobs(jobs)
    check_jobs(count)
    return checks.verify(root, count, member(IsolationChoice, isolation, "isolation"), _task_name(task))


def _given(task: PathLike | None, jobs: int | None, engine: str | None, isolation: str | None) -> dict[str, Any]:
    from evopolicygym.runs.settings import EngineName, IsolationChoice

    return {
        "task": _task_name(task),
        "jobs": checked_jobs(jobs),
        "engine": engine and member(EngineName, engine, "engine"),
        "isolation": isolation and member(IsolationChoice, isolation, "isolation"),
    }


def _task_name(task: PathLike | None) -> str | None:
    from evopolicygym.tasks.registry import absolute_name

    return None if task is None else absolute_name(os.fspath(task))


def _finish(root: Path, given: dict[str, Any], progress: Progress | None, notify: Notice) -> None:
    from evopolicygym.runs.serve import FINISH_COMMAND
    from evopolicygym.server import owner_socket

    try:
        _follow_owner(root, owner_socket.send_command(root, FINISH_COMMAND), progress, notify)
    except owner_socket.NoOwner:
        _finish_here(root, given, progress, notify)


def _follow_owner(root: Path, messages: Iterator[dict[str, Any]], progress: Progress | None, notify: Notice) -> None:
    """Follow the reports of the process that owns the run, until it has finished the run."""
    from evopolicygym.runs.run_status import has_outcome

    first = next(messages, {})
    advance = counter(progress, first.get("total", 0))
    for message in chain([first], messages):
        if "error" in message:
            raise Fault(message["error"])
        if message.get("finished"):
            return
        if waiting := message.get("waiting"):
            notify(waiting)
        elif message is not first:
            advance()
    if not has_outcome(root):
        raise UserError(
            f"the process that worked on {root} died", f"Nothing is lost. Try again: evopolicygym finish {root}"
        )


def _finish_here(root: Path, given: dict[str, Any], progress: Progress | None, notify: Notice) -> None:
    from evopolicygym.judge import scoring, submission
    from evopolicygym.runs import serve
    from evopolicygym.runs.open_run import open_run

    with open_run(root, **given) as run:
        if run.notice:
            notify(run.notice)
        if interrupted := run.judge.state.running:
            run.judge.shortage.retry(lambda: submission.execute(run.judge, interrupted))
        scoring.close(run.judge, serve.FINISHED_BY_HAND)
        serve.finish_run(run, counter(progress, scoring.remaining_episodes(run.judge.state)))


def _check_has_outcome(root: Path) -> None:
    """Raise if the record of a run that was just finished cannot be read: the caller would try to finish it forever."""
    from evopolicygym.run_record import load
    from evopolicygym.runs.run_status import has_outcome

    if has_outcome(root):
        return
    try:
        load(root)
    except UserError as error:
        raise UserError(
            f"{root} is finished, but its ledger contradicts itself: no valid record follows from it ({error})",
            "It cannot be repaired. `evopolicygym verify` names what does not match; repeat the run in a new folder.",
        ) from error
    raise Fault(f"{root} has no outcome after it was finished")
