"""Scores of trivial policies and experts on the held-out cases of a task, which tables compare with."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from evopolicygym.errors import UserError

if TYPE_CHECKING:
    from evopolicygym.reference.anchors import TaskAnchors

LEAST_CASES: Final = 8  # held-out cases of a run whose anchors are measured without being asked for


@dataclass(frozen=True)
class MeasuredAnchors:
    """Anchors of one task, and the file that keeps them."""

    task: str
    splits_id: str
    anchors: TaskAnchors
    file: Path

    def means(self) -> dict[str, float]:
        """Return the mean return of each trivial policy, and of the expert if there is one."""
        named = self.anchors.trivial() | ({"expert": self.anchors.expert} if self.anchors.expert else {})
        return {name: anchor.mean(self.anchors.heldout_cases) for name, anchor in named.items()}


def measure_anchors(
    task: str | os.PathLike[str],
    *,
    variant: Literal["plain", "disguised", "shifted"] | None = None,
    seeds: Literal["sealed", "paper"] = "sealed",
    seal_key: str | os.PathLike[str] | None = None,
    heldout_cases: int | None = None,
    expert: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    output: str | os.PathLike[str] | None = None,
) -> MeasuredAnchors:
    """Measure trivial policies on the held-out cases of a task, and keep them where `leaderboard` and `report` look.

    Args:
        task: What ``load_task`` takes.
        variant: ``plain`` (default) or ``shifted``. A disguised task has the anchors of the plain one.
        seeds, seal_key: The cases, as in ``run``; the key also draws the shift.
        heldout_cases: How many (default 32): at least as many as the runs have.
        expert: The folder of a policy that is measured, too. Scores of a task that has no stored scale then go from the
            random policy (0) to this one (1).
        jobs: Episodes at a time (default: one per core).
        output: A file of your own instead. It is continued: anchors of its other tasks stay.

    Raises:
        UserError: There is no such task or variant, the expert fails, or the file cannot be written.

    >>> import evopolicygym, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "anchors.json")
    >>> measured = evopolicygym.measure_anchors(
    ...     "core16/mountain-car-continuous", seeds="paper", heldout_cases=1, output=file
    ... )
    >>> measured.means()["zero"], sorted(measured.means()), file.exists()
    (0.0, ['constant', 'random', 'starter', 'zero'], True)
    """
    from evopolicygym.execution.anchors import measure
    from evopolicygym.execution.engine import LocalEngine
    from evopolicygym.reference.anchors import own_anchors_path
    from evopolicygym.runs.locks import CaseSet, hidden_cases_lock
    from evopolicygym.runs.settings import RunSettings
    from evopolicygym.tasks.conditions import Variant

    given = {
        "seeds": seeds,
        "seal_key": Path(seal_key) if seal_key else None,
        "heldout_cases": heldout_cases,
        "jobs": jobs,
    }
    settings = RunSettings.make(task=os.fspath(task), variant=variant, **given)
    if settings.variant is Variant.DISGUISED:
        raise UserError(
            "a disguised task has the returns of the plain one, and so its anchors",
            "Leave --variant disguised (variant=) out.",
        )
    folder = Path(expert) if expert else None
    if folder and not (folder / "policy.py").is_file():
        raise UserError(f"there is no policy.py in {folder}", "Name the folder of a policy with --expert (expert=).")
    if output is not None:
        _continued(Path(output), settings.splits().id)
    played, splits = settings.played_task(), settings.splits()
    lock = hidden_cases_lock(CaseSet(played.id, splits.id), "evopolicygym task anchors", "Ctrl-C keeps what is there.")
    with lock, LocalEngine(played, settings.jobs) as engine:
        anchors = measure(engine, played, splits, settings.heldout_cases, expert=folder)
    path = own_anchors_path(played.id, anchors.fingerprint) if output is None else Path(output)
    _keep(path, played.id, splits.id, anchors, output is not None)
    return MeasuredAnchors(played.id, splits.id, anchors, path)


def measure_missing_anchors(
    folder: str | os.PathLike[str],
    *,
    task: str | os.PathLike[str] | None = None,
    seal_key: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    started: Callable[[str], object] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> MeasuredAnchors | None:
    """Measure trivial policies on the held-out cases of a finished run if none are kept that fit it, as the command
    `run` does at its end: boards get their rows. They are kept for all runs of the task on the same cases, so this
    happens once.

    Args:
        folder: The run's folder.
        task: The run's task. It is needed if the task is not an installed one and another installation opened the run:
            its code runs with all your rights.
        seal_key: File with the sealing key, if it is not the one that the run was opened with.
        jobs: Parallel episodes (default: as in the run).
        started: Called with the id of the task before episodes are played.
        progress: Called with the number of finished episodes and their total.

    Returns:
        What was measured; None if nothing was missing, or the run is a trial of fewer than eight held-out cases.

    Raises:
        UserError: The folder holds no run, its task is not given but must be, or its cases are those of another key.

    >>> import evopolicygym
    >>> evopolicygym.measure_missing_anchors("examples/runs/acrobot__starter__s0") is None
    True
    """
    from evopolicygym.analysis.anchors import NoAnchors, fitting_anchors
    from evopolicygym.execution.anchors import QUICK_REPEATS, QUICK_TRAIN_CASES, measure
    from evopolicygym.execution.engine import LocalEngine
    from evopolicygym.reference.anchors import own_anchors, own_anchors_path, stored_anchors
    from evopolicygym.run_paths import RunPaths
    from evopolicygym.run_record import load
    from evopolicygym.runs.locks import CaseSet, hidden_cases_lock
    from evopolicygym.runs.run_status import read_state
    from evopolicygym.runs.trust import settings_here
    from evopolicygym.tasks.conditions import TextLevel, Variant
    from evopolicygym.tasks.novel.generate import is_novel
    from evopolicygym.tasks.registry import absolute_name

    run, paths = load(Path(folder)), RunPaths(Path(folder))
    is_trial = run.outcome is None or run.options.heldout_cases < LEAST_CASES
    if is_trial or is_novel(run.task.id):
        return None
    if not isinstance(fitting_anchors([*own_anchors(), stored_anchors()], run), NoAnchors):
        return None
    given = {"task": task and absolute_name(os.fspath(task)), "seal_key": seal_key and Path(seal_key).resolve()}
    settings = settings_here(paths, read_state(paths.root).opened, given | {"jobs": jobs})
    if settings.isolation == "none":
        return None
    if settings.variant is Variant.DISGUISED:  # it has the anchors of the plain task
        settings = settings.model_copy(update={"variant": Variant.PLAIN, "text": TextLevel.BRIEF})
    played, splits = settings.played_task(make_key=False), settings.splits(make_key=False)
    if (played.id, splits.id) != (run.task.id, run.ids.splits_id):
        raise UserError(
            f"{folder} was scored on other cases than the key here draws",
            "Name the key that it was opened with: --seal-key (seal_key=).",
        )
    if started:
        started(played.id)
    lock = hidden_cases_lock(CaseSet(played.id, splits.id), "anchors of a run", "Ctrl-C leaves them out.")
    with lock, LocalEngine(played, settings.jobs) as engine:
        anchors = measure(
            engine,
            played,
            splits,
            settings.heldout_cases,
            QUICK_TRAIN_CASES,
            QUICK_REPEATS,
            progress=progress or (lambda done, total: None),
        )
    path = own_anchors_path(played.id, anchors.fingerprint)
    _keep(path, played.id, splits.id, anchors, is_named=False)
    return MeasuredAnchors(played.id, splits.id, anchors, path)


def _continued(path: Path, splits_id: str) -> dict[str, TaskAnchors]:
    """Return the anchors in a file that is continued; nothing if there is none."""
    from evopolicygym.reference.anchors import load

    if not path.exists():
        return {}
    file = load(path)
    if file.splits_id != splits_id:
        raise UserError(
            f"{path} has anchors of other cases ({file.splits_id[:16]}, not {splits_id[:16]})",
            "Name another file with --output (output=).",
        )
    return file.tasks


def _keep(path: Path, task: str, splits_id: str, anchors: TaskAnchors, is_named: bool) -> None:
    from evopolicygym.files import write_atomic
    from evopolicygym.reference.anchors import VERSION, AnchorFile, dump

    tasks = _continued(path, splits_id) if is_named else {}
    file = AnchorFile(
        schema_version=VERSION,
        command="evopolicygym task anchors",
        splits_id=splits_id,
        tasks={**tasks, task: anchors},
    )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, dump(file).encode())
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}", "Name another file with --output (output=)."
        ) from error
