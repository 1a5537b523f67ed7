"""Which runs may share a table: those of one comparable_id for each task, under the same conditions.

What does not fit goes to a board of its own, which says what it differs in. Isolation below B, an open network of the
agent, and hosts or files that it was given are apart by themselves.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from evopolicygym.analysis.scores import RunScore, entrant, run_score
from evopolicygym.run_record import RunRecord

Fingerprint = Mapping[str, Any]
OF_THE_TASK: Final = frozenset(
    {
        "task",
        "env",
        "task_version",
        "horizon",
        "failure_return",
        "limits",
        "packages",
        "pygame",
        "env_options",
        "sources",
    }
)
OF_THE_MACHINE: Final = "on"
ABSENT: Final = "nothing"


def conditions(fingerprint: Fingerprint) -> dict[str, Any]:
    """What is the same for all tasks of one table: protocol, splits, budget and the like."""
    left_out = OF_THE_TASK | {OF_THE_MACHINE}
    return {name: value for name, value in fingerprint.items() if name not in left_out}


def differences(this: Fingerprint, other: Fingerprint) -> list[str]:
    """``budget: 64, not 128``, for whatever can move a score. The machine moves only last bits."""
    mine, theirs = (dict(_flat(facts)) for facts in (this, other))
    names = [name for name in {**mine, **theirs} if name.split(".")[0] != OF_THE_MACHINE]
    pairs = [(name, mine.get(name, ABSENT), theirs.get(name, ABSENT)) for name in names]
    return [f"{name}: {here}, not {there}" for name, here, there in pairs if here != there]


def _flat(facts: Fingerprint, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


OPEN: Final = "open"
GIVEN: Final = {"hosts": "the agent could reach more hosts", "shown": "the agent was shown more files"}


@dataclass(frozen=True)
class TaskRuns:
    """All runs of one comparable_id, and so of one task."""

    task: str
    comparable_id: str
    runs: tuple[RunScore, ...]

    @property
    def sample(self) -> RunRecord:
        return self.runs[0].run

    def by_entrant(self) -> dict[str, list[RunScore]]:
        found: dict[str, list[RunScore]] = defaultdict(list)
        for one in self.runs:
            found[entrant(one.run)].append(one)
        return dict(sorted(found.items()))


@dataclass(frozen=True)
class Board:
    """``apart`` and ``differs`` say why it is not part of the first board."""

    groups: dict[str, TaskRuns]
    apart: tuple[str, ...]
    differs: tuple[str, ...] = ()

    @property
    def sample(self) -> RunRecord:
        return next(iter(self.groups.values())).sample

    @property
    def size(self) -> int:
        return sum(len(group.runs) for group in self.groups.values())


def boards(runs: Iterable[RunRecord]) -> list[Board]:
    """The largest publishable board first; every other one names its difference from it."""
    alike: dict[tuple[tuple[str, ...], str], list[RunRecord]] = defaultdict(list)
    for run in runs:
        shared = json.dumps(conditions(run.ids.fingerprint), sort_keys=True, default=str)
        alike[(separate_reasons(run), shared)].append(run)
    made = [board for (reasons, _), members in alike.items() for board in _layers(members, reasons)]
    made.sort(key=lambda board: (len(board.apart), -board.size))
    return [made[0], *(_compared(board, made[0]) for board in made[1:])] if made else []


def separate_reasons(run: RunRecord) -> tuple[str, ...]:
    """Why a run shares a table only with its like, whatever its comparable_id."""
    got = run.isolation
    below = () if got.publishable else (f"isolation below B (policy {got.policy}, agent {got.agent})",)
    return (*below, *(("the agent's network was open",) if got.agent_network == OPEN else ()), *_given(run))


def _given(run: RunRecord) -> Iterable[str]:
    """What an agent was given beyond what every agent has: nobody knows what is there."""
    settings = run.agent.settings if run.agent else {}
    for name, words in GIVEN.items():
        if extra := settings.get(name):
            yield f"{words}: {', '.join(map(str, extra))}"


def _layers(runs: list[RunRecord], reasons: tuple[str, ...]) -> Iterable[Board]:
    """One comparable_id for each task at a time, the one with most runs first."""
    left = _groups(runs)
    while left:
        layer: dict[str, TaskRuns] = {}
        for group in left:
            layer.setdefault(group.task, group)
        left = [group for group in left if group not in layer.values()]
        yield Board(dict(sorted(layer.items())), reasons)


def _groups(runs: list[RunRecord]) -> list[TaskRuns]:
    members: dict[tuple[str, str], list[RunScore]] = defaultdict(list)
    for run in runs:
        members[(run.task.id, run.ids.comparable_id)].append(run_score(run))
    groups = [TaskRuns(task, name, tuple(scores)) for (task, name), scores in members.items()]
    return sorted(groups, key=lambda group: (-len(group.runs), group.comparable_id))


def _compared(board: Board, first: Board) -> Board:
    found: dict[str, None] = dict.fromkeys(
        differences(conditions(board.sample.ids.fingerprint), conditions(first.sample.ids.fingerprint))
    )
    for task, group in board.groups.items():
        if task in first.groups:
            found |= dict.fromkeys(differences(group.sample.ids.fingerprint, first.groups[task].sample.ids.fingerprint))
    return Board(board.groups, board.apart, tuple(found))
