"""The runs that a suite consists of, in the order in which they are begun."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from evopolicygym.errors import UserError
from evopolicygym.runs.settings import RunSettings
from evopolicygym.suites.file import Suite
from evopolicygym.tasks.registry import resolve
from evopolicygym.tasks.task import Task


@dataclass(frozen=True)
class PlannedRun:
    """``name`` is that of its folder, so that adding to a suite moves nothing that is there."""

    name: str
    task: Task
    agent: str
    repeat: int
    settings: RunSettings


def plan(suite: Suite) -> list[PlannedRun]:
    """Whole rounds first: what is there after a while compares all agents on all tasks."""
    tasks = {name: resolve(name) for name in dict.fromkeys(suite.tasks)}
    planned = [
        _planned(suite, name, tasks[name], agent, repeat)
        for repeat in range(suite.repeats)
        for name, agent in _round(list(tasks), list(suite.agents))
    ]
    _check_apart(planned)
    return planned


def _round(tasks: list[str], agents: list[str]) -> Iterator[tuple[str, str]]:
    """All tasks once, then all of them once more with the next agent each. So neighbours have different tasks, whose
    hidden scoring need not wait for one another's agents, and different agents, which often means other providers."""
    for turn in range(len(agents)):
        for number, task in enumerate(tasks):
            yield task, agents[(number + turn) % len(agents)]


def _check_apart(planned: Iterable[PlannedRun]) -> None:
    """Two runs in one folder would be one run under two names."""
    first: dict[str, PlannedRun] = {}
    for one in planned:
        other = first.setdefault(one.name, one)
        if other is not one:
            pairs = f"{other.settings.task} with {other.agent} and {one.settings.task} with {one.agent}"
            raise UserError(f"{pairs} would be the same run, {one.name}", "Name each task once, or rename one of them.")


def _planned(suite: Suite, name: str, task: Task, agent: str, repeat: int) -> PlannedRun:
    settings = suite.settings(name, agent, repeat)
    folder = "__".join(part.replace("/", "-").replace(":", "-") for part in (task.id, agent, f"s{suite.seed + repeat}"))
    return PlannedRun(folder, task, agent, repeat, settings)
