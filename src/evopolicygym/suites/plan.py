"""Plan the runs of a suite, in the order in which they start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from evopolicygym.errors import UserError
from evopolicygym.runs.settings import RunSettings
from evopolicygym.suites.file import Suite
from evopolicygym.tasks.registry import find_task
from evopolicygym.tasks.task import Task


@dataclass(frozen=True)
class PlannedRun:
    """One run of a suite. ``name`` is its folder, and does not depend on other runs: a suite can grow."""

    name: str
    task: Task
    agent: str
    repeat: int
    settings: RunSettings


def plan(suite: Suite) -> list[PlannedRun]:
    """List the runs round by round: after each round, all agents have played all tasks once more."""
    tasks = {name: find_task(name) for name in dict.fromkeys(suite.tasks)}
    planned = [
        _planned(suite, name, tasks[name], agent, repeat)
        for repeat in range(suite.repeats)
        for name, agent in _round(list(tasks), list(suite.agents))
    ]
    _check_names(planned)
    return planned


def _round(tasks: list[str], agents: list[str]) -> Iterator[tuple[str, str]]:
    """Pair all tasks with an agent each, then all tasks with the next agent each.

    So neighbours have different tasks, whose hidden scoring need not wait for one another's agents, and different
    agents, which often have different providers.
    """
    for turn in range(len(agents)):
        for number, task in enumerate(tasks):
            yield task, agents[(number + turn) % len(agents)]


def _check_names(planned: Iterable[PlannedRun]) -> None:
    """Refuse two runs that would share one folder."""
    first: dict[str, PlannedRun] = {}
    for run in planned:
        other = first.setdefault(run.name, run)
        if other is not run:
            pairs = f"{other.settings.task} with {other.agent} and {run.settings.task} with {run.agent}"
            raise UserError(f"{pairs} would be the same run, {run.name}", "Name each task once, or rename one of them.")


def _planned(suite: Suite, name: str, task: Task, agent: str, repeat: int) -> PlannedRun:
    settings = suite.settings(name, agent, repeat)
    folder = "__".join(part.replace("/", "-").replace(":", "-") for part in (task.id, agent, f"s{suite.seed + repeat}"))
    return PlannedRun(folder, task, agent, repeat, settings)
