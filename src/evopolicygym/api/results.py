"""Runs on disk: one, or all below a folder, with tidy tables for pandas.

A run folder may come from another person. Only run.json is read here: no link is followed, and what is too large, too
deep or contradicts itself is refused."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from evopolicygym.errors import UserError
from evopolicygym.printable import one_line
from evopolicygym.run_paths import RECORD

if TYPE_CHECKING:
    import pandas

    from evopolicygym.analysis.loading import Skipped
    from evopolicygym.analysis.scores import RunScore
    from evopolicygym.run_record import RunRecord
    from evopolicygym.runs.import_runs import ImportResult


@dataclass(frozen=True)
class Run:
    """One run: where it is, and what its run.json says (``record``; docs/schemas/run-1.json has every field)."""

    folder: Path
    record: RunRecord

    def __repr__(self) -> str:
        from evopolicygym.run_record import DEFAULT_CONDITIONS

        return (
            f"Run({str(self.folder)!r}, task={self.task!r}, agent={self.agent!r}, "
            f"conditions={self.record.options.conditions() or DEFAULT_CONDITIONS!r}, score={self.score!r}, "
            f"outcome={self.outcome!r}, closed_because={self.record.times.closed_because!r})"
        )

    @property
    def id(self) -> str:
        """The id that the judge gave the run."""
        return self.record.id

    @property
    def task(self) -> str:
        """The id of the task that was played."""
        return self.record.task.id

    @property
    def agent(self) -> str | None:
        """The name of the agent; None for a run that was played by hand."""
        return self.record.agent.name if self.record.agent else None

    @property
    def name(self) -> str:
        """The name of the entrant: the one that was given, else the agent's with the model that served it."""
        from evopolicygym.analysis.entrants import name_alone

        return name_alone(self.record)

    @property
    def status(self) -> str:
        """``open``, ``closed`` or ``finished``. Only a finished run has an outcome."""
        return self.record.status.value

    @property
    def outcome(self) -> str | None:
        """``scored``, ``no_ok_submit``, ``agent_never_worked`` or ``judge_fault``; None before the run is finished."""
        return self.record.outcome.kind.value if self.record.outcome else None

    @property
    def returns(self) -> tuple[float, ...]:
        """The held-out returns that count on a leaderboard, by case: the failure return for each case of a run without
        a submission that could be scored. Empty where ``missing`` says why there are none."""
        return self._score().returns

    @property
    def score(self) -> float | None:
        """The mean of ``returns``: the run's score on a leaderboard. None where it counts as missing."""
        from evopolicygym.analysis.scores import mean

        return mean(self.returns) if self.returns else None

    @property
    def missing(self) -> str | None:
        """Why the run has no score, in words; None where it has one."""
        return self._score().missing

    @property
    def publishable(self) -> bool:
        """Whether policies and agent were isolated at level A or B throughout."""
        return self.record.isolation.publishable

    @cached_property
    def submissions(self) -> pandas.DataFrame:
        """One row per submission, as in ``Runs.submissions``."""
        return Runs(str(self.folder), (self,), ()).submissions

    @cached_property
    def episodes(self) -> pandas.DataFrame:
        """One row per episode, as in ``Runs.episodes``."""
        return Runs(str(self.folder), (self,), ()).episodes

    def _score(self) -> RunScore:
        from evopolicygym.analysis.scores import run_score

        return run_score(self.record)


@dataclass(frozen=True)
class Runs(Sequence[Run]):
    """All runs at or below ``path``, in the order of their folders, and the folders that could not be read.

    A sequence of ``Run``; ``runs``, ``submissions`` and ``episodes`` are data frames (docs/python.md has the columns).
    """

    path: str
    items: tuple[Run, ...]
    skipped: tuple[Skipped, ...]

    def __repr__(self) -> str:
        return f"Runs({self.path!r}, {len(self.items)} runs, {len(self.skipped)} skipped)"

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Run, ...]: ...

    def __getitem__(self, index: int | slice) -> Run | tuple[Run, ...]:
        return self.items[index]

    @cached_property
    def runs(self) -> pandas.DataFrame:
        """One row per run: who played what, its score as on the leaderboard, isolation, ids and cost."""
        from evopolicygym.api import tables
        from evopolicygym.reference.anchors import own_anchors

        files = own_anchors()
        return self._table(tables.RUN, lambda run: [tables.run_row(run, files)])

    @cached_property
    def submissions(self) -> pandas.DataFrame:
        """One row per submission: its verdict, and its mean return on train, validation and held-out cases."""
        from evopolicygym.api import tables

        return self._table(tables.SUBMISSION, tables.submission_rows)

    @cached_property
    def episodes(self) -> pandas.DataFrame:
        """One row per episode on train, validation and held-out cases: what statistics of your own start from."""
        import pandas

        from evopolicygym.api import tables

        return pandas.DataFrame(tables.episode_columns(self._named))

    def _table(self, columns: Sequence[str], rows: Callable[[Run], Iterable[dict[str, Any]]]) -> pandas.DataFrame:
        import pandas

        return pandas.DataFrame([row for run in self._named for row in rows(run)], columns=list(columns))

    @cached_property
    def _named(self) -> tuple[Run, ...]:
        """The runs with the unique names of their entrants."""
        from evopolicygym.analysis.entrants import name_runs

        named, _ = name_runs([run.record for run in self.items])
        return tuple(replace(run, record=record) for run, record in zip(self.items, named, strict=True))


RunsLike = str | os.PathLike[str] | Run | Iterable[Run]


def load_run(path: str | os.PathLike[str]) -> Run:
    """Return the run in a folder, finished or not.

    Args:
        path: The folder of a run, or its run.json.

    Raises:
        UserError: There is no run.json, or it is not the record of a run.

    >>> import evopolicygym
    >>> run = evopolicygym.load_run("examples/runs/acrobot__tuner__s0")
    >>> run.task, run.agent, run.outcome
    ('core16/acrobot', 'tuner', 'scored')
    >>> len(run.returns)
    32
    """
    from evopolicygym.analysis.loading import read_record, run_folders

    folder = Path(path)
    if not os.path.lexists(folder / RECORD) and any(below != folder for below in run_folders(folder)):
        raise UserError(
            f"{folder} is not a run: it holds no run.json, but there are runs below it",
            f"Load them with load_runs({str(folder)!r}).",
        )
    return _run(folder, read_record(folder))


def load_runs(path: str | os.PathLike[str]) -> Runs:
    """Return all runs at or below a folder, at any depth. Unfinished runs are among them, without a score.

    Args:
        path: A folder of runs, or one run.

    Raises:
        UserError: ``path`` does not exist, or there is no run below it.

    Warns:
        UserWarning: A run cannot be read. It is left out, and ``skipped`` names it.

    >>> import evopolicygym
    >>> runs = evopolicygym.load_runs("examples/runs")
    >>> len(runs), runs.runs["task"].nunique()
    (12, 2)
    >>> runs.episodes.groupby("split")["return"].count().loc["heldout"] > 0
    np.True_
    """
    runs = read_runs(Path(path))
    for skipped in runs.skipped:
        warnings.warn(one_line(f"{skipped.path} is left out: {skipped.why}"), stacklevel=2)
    return runs


def read_runs(path: Path) -> Runs:
    """Return all runs at or below ``path``. Those that cannot be read are in ``skipped``."""
    from evopolicygym.analysis.loading import CopyCheck, read_record, run_folders, skip_unreadable, split_by_size

    if not path.exists():
        raise UserError(f"{path} does not exist", "Name a run or a folder of runs.")
    folders = [path] if path.is_file() else sorted(run_folders(path))
    if not folders:
        raise UserError(f"there is no run below {path}", "A run is a folder with run.json.")
    runs, copies = [], CopyCheck()
    folders, skipped = split_by_size(folders)
    for folder in folders:
        try:
            record = read_record(folder)
        except UserError as error:
            skipped.append(skip_unreadable(folder, error))
            continue
        if copy := copies.find(folder, record):
            skipped.append(copy)
        else:
            runs.append(_run(folder, record))
    return Runs(str(path), tuple(runs), tuple(skipped))


def gather(runs: RunsLike) -> Runs:
    """Return runs in any form that the API takes as ``Runs``: a path, a run, or several runs.

    Raises:
        UserError: Two of several runs are copies of one.
    """
    if isinstance(runs, Runs):
        return runs
    if isinstance(runs, str | os.PathLike):
        return read_runs(Path(runs))
    items = (runs,) if isinstance(runs, Run) else tuple(_checked(runs))
    refuse_copies(items)
    return Runs(os.path.commonpath([run.folder for run in items]) if items else "", items, ())


def refuse_copies(runs: Iterable[Run]) -> None:
    """Raise UserError if a run is among the runs twice: a copy would count as another run."""
    from evopolicygym.analysis.loading import CopyCheck

    copies = CopyCheck()
    for run in runs:
        if copy := copies.find(run.folder, run.record):
            raise UserError(f"{copy.path} is a copy of a run that is given, too: {copy.reason}", "Name each run once.")


def _checked(runs: Iterable[Run]) -> Iterator[Run]:
    for run in runs:
        if not isinstance(run, Run):
            raise UserError(f"{run!r} is not a run", "Pass a path, what load_run returned, or several of those.")
        yield run


def _run(path: Path, record: RunRecord) -> Run:
    return Run(path.parent if path.is_file() else path, record)


def import_runs(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> list[ImportResult]:
    """Import runs that the public reference code (versions 0.1 and 0.3) has played, for `load_runs`, `analyze`,
    `leaderboard` and `write_report`.

    Args:
        path: A run folder of that code, or a folder that holds some at any depth. Nothing in it is changed.
        folder: Where the imported runs are written, a folder each. A run that is there already is left as it is.

    Returns:
        One result for each folder: ``target`` is None where ``reason`` says why it was refused.

    Raises:
        UserError: There is no run at or below ``path``.

    >>> import evopolicygym
    >>> evopolicygym.import_runs("no such folder", "imported")
    Traceback (most recent call last):
    evopolicygym.errors.UserError: no such folder is not a folder
    Name a run folder, or a folder that holds some.
    """
    from evopolicygym.runs.import_runs import import_folders

    return import_folders(Path(path), Path(folder))
