"""Checks the generated tasks of many keys: which draws are refused and why, and what is scored on the accepted one.

Keys are the hashes of 0, 1, 2, ..., so that every person can repeat the numbers; runs use secret ones."""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from evopolicygym.errors import UserError
from evopolicygym.files import write_atomic
from evopolicygym.tasks.novel.generate import (
    MOST_DRAWS,
    NOVEL,
    Drawn,
    draw_world,
    family_version,
    measure,
    novel,
    remember,
    rounded,
    task_parts,
    world_key,
)
from evopolicygym.tasks.novel.measure import margin_problem
from evopolicygym.tasks.novel.world import World

CHECKED: Final = "check"  # the part of a file of results that has key checks; `benchmarks/novel.py` adds others
ONE_THREAD: Final = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

KeyJob = tuple[str, int]  # a task's id, and the number of a key
JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class KeyCheck:
    """Measurements of the draws of one key; the last one was accepted, unless there is an ``error``. A draw has
    the means of the best trivial policy, the search and the expert, the standard error of the expert's lead, the spread
    of trivial policies, and the objection to it or None. The search is None where the draw was refused without it."""

    task: str
    key: int
    version: int
    cpu_s: float
    draws: list[dict[str, Any]]
    error: str | None = None

    @property
    def is_current(self) -> bool:
        """Whether the same would be found today: the version is that of the generator, and the margin holds."""
        if self.task not in novel() or self.version != family_version(task_parts(self.task)[0]):
            return False
        last = {name: value for name, value in self.draws[-1].items() if name != "objection"} if self.draws else {}
        return self.error is not None or margin_problem(**last) is None

    @property
    def searched(self) -> float:
        """Where the search ends, from the best trivial policy at 0 to the expert at 1."""
        last = self.draws[-1]
        return float((last["search"] - last["trivial"]) / (last["expert"] - last["trivial"]))

    def world(self) -> World:
        """Return the world that was accepted."""
        return draw_world(*task_parts(self.task), public_key(self.task, self.key), len(self.draws) - 1)

    def drawn(self) -> Drawn:
        last, objections = self.draws[-1], tuple(draw["objection"] for draw in self.draws[:-1])
        return Drawn(len(self.draws) - 1, last["trivial"], last["expert"], objections)

    def remember(self) -> None:
        """Put the draw into the cache, so that a run under this key need not search for it."""
        remember(self.task, public_key(self.task, self.key), self.drawn())

    def normalised(self, score: float) -> float:
        last = self.draws[-1]
        return float((score - last["trivial"]) / (last["expert"] - last["trivial"]))


@dataclass(frozen=True)
class TaskKeys:
    """The checked keys of one task, in numbers."""

    task: str
    keys: int
    draws: int
    trivial: float
    search: float
    expert: float
    searched: float
    cpu_s: float
    refused: dict[str, int]
    errors: dict[int, str]

    @property
    def accepted(self) -> float:
        """The share of draws that were accepted."""
        return (self.keys - len(self.errors)) / self.draws if self.draws else 0.0


def sealing_key(number: int) -> bytes:
    return hashlib.sha256(f"evopolicygym benchmark key {number}".encode()).digest()


def public_key(task_id: str, number: int) -> bytes:
    """Return the secret of a task under the sealing key of a number, which is no secret."""
    return world_key(task_id, sealing_key(number))


def check_key(job: KeyJob) -> KeyCheck:
    """Draw the world of a key, and keep what every draw was measured with."""
    (task_id, number), draws, error = job, list[dict[str, Any]](), None
    (family, level), began, key = task_parts(task_id), time.process_time(), public_key(*job)
    try:
        for draw in range(MOST_DRAWS):
            measured = measure(family, level, key, draw)
            means = {name: None if mean is None else rounded(mean) for name, mean in measured.means().items()}
            draws.append({**means, "objection": measured.objection()})
            if draws[-1]["objection"] is None:
                break
        else:
            error = f"none of {MOST_DRAWS} draws was accepted"
    except Exception as failure:  # the other keys are checked all the same
        error = f"draw {len(draws)}: {failure!r}"
    return KeyCheck(task_id, number, family_version(family), round(time.process_time() - began, 1), draws, error)


def check_keys(
    tasks: Iterable[str], keys: int, processes: int = 1, seconds: float | None = None, path: Path | None = None
) -> Iterator[KeyCheck]:
    """Check keys 0 to ``keys`` - 1 of tasks, and yield each key when it is checked. First key 0 of every task, then
    key 1, so that a time limit cuts all tasks alike. What ``path`` has of the same versions is not checked again; what
    is checked is added to it at once."""
    stored = {} if path is None else read_checks(path)
    wanted = [(task, number) for number in range(keys) for task in tasks]
    yield from (stored[job] for job in wanted if job in stored)
    for checked in in_parallel(check_key, [job for job in wanted if job not in stored], processes, seconds):
        stored[checked.task, checked.key] = checked
        if path is not None:
            _write_checks(path, stored.values())
        yield checked


def in_parallel(
    function: Callable[[JobT], ResultT], jobs: list[JobT], processes: int, seconds: float | None = None
) -> Iterator[ResultT]:
    """Yield results as they come. After ``seconds`` the others are given up, also those that have begun."""
    if not jobs:
        return
    end = math.inf if seconds is None else time.monotonic() + seconds
    with _one_thread(), multiprocessing.get_context("spawn").Pool(min(processes, len(jobs))) as pool:
        results = pool.imap_unordered(function, jobs)
        for _ in jobs:
            try:
                yield results.next(None if seconds is None else max(0.0, end - time.monotonic()))
            except multiprocessing.TimeoutError:
                return


def summarise(checks: Iterable[KeyCheck]) -> list[TaskKeys]:
    """Return one summary for each task, in the order of the collection."""
    by_task: dict[str, list[KeyCheck]] = {}
    for checked in checks:
        by_task.setdefault(checked.task, []).append(checked)
    return [_summary(task, by_task[task]) for task in novel() if task in by_task]


def _summary(task: str, checks: list[KeyCheck]) -> TaskKeys:
    accepted = [checked for checked in checks if checked.error is None]

    def mean(values: Iterable[float]) -> float:
        return math.fsum(values) / len(accepted) if accepted else math.nan

    refused = Counter(draw["objection"] for checked in checks for draw in checked.draws if draw["objection"])
    trivial, search, expert = (
        mean(checked.draws[-1][name] for checked in accepted) for name in ("trivial", "search", "expert")
    )
    return TaskKeys(
        task=task,
        keys=len(checks),
        draws=sum(max(1, len(checked.draws)) for checked in checks),
        trivial=trivial,
        search=search,
        expert=expert,
        searched=mean(checked.searched for checked in accepted),
        cpu_s=math.fsum(checked.cpu_s for checked in checks) / len(checks),
        refused=dict(refused.most_common()),
        errors={checked.key: checked.error for checked in checks if checked.error is not None},
    )


def read_checks(path: Path) -> dict[KeyJob, KeyCheck]:
    """Read the key checks of a file of results, those of other versions of the generator left out."""
    checks = [KeyCheck(**entry) for entry in read_results(path).get(CHECKED, [])]
    return {(checked.task, checked.key): checked for checked in checks if checked.is_current}


def read_results(path: Path) -> dict[str, Any]:
    """Read a file of results, which need not exist."""
    try:
        results = json.loads(path.read_text()) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}", "Name another file, or a new one.") from error
    if not isinstance(results, dict):
        raise UserError(f"{path} is not a file of results", "Name another file, or a new one.")
    return results


def write_results(path: Path, part: str, values: list[dict[str, Any]]) -> None:
    """Write one part of a file of results, a line for each entry, and keep the other parts."""
    results = read_results(path) | {part: values}
    parts = []
    for name, entries in sorted(results.items()):
        lines = ",\n".join(f"  {json.dumps(entry)}" for entry in entries)
        parts.append(f' "{name}": [\n{lines}\n ]')
    write_atomic(path, ("{\n" + ",\n".join(parts) + "\n}\n").encode())


def _write_checks(path: Path, checks: Iterable[KeyCheck]) -> None:
    ordered = sorted(checks, key=lambda checked: (checked.task, checked.key))
    write_results(path, CHECKED, [asdict(checked) for checked in ordered])


@contextmanager
def _one_thread() -> Iterator[None]:
    """Start processes whose numpy uses one thread: there is one process for each core."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def chosen_tasks(names: Iterable[str]) -> list[str]:
    """Return the ids of generated tasks; ``novel`` is all of them."""
    tasks = [task for name in names for task in (list(novel()) if name == NOVEL else [name])]
    for task in tasks:
        if task not in novel():
            raise UserError(
                f"--keys needs generated tasks (got: {task})", f"Name {NOVEL}/FAMILY-LEVEL, or {NOVEL} for all of them."
            )
    return list(dict.fromkeys(tasks))
