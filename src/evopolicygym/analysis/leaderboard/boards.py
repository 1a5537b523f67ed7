"""Boards: sets of runs that may share tables. Each has one comparable_id per task and one set of conditions.

Other runs go to boards of their own, which say what differs. Runs with isolation below B, with an open network of the
agent, or with extra hosts or files for the agent are always on separate boards.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from evopolicygym.analysis.entrants import entrant
from evopolicygym.analysis.scores import RunScore, run_score
from evopolicygym.run_record import RunRecord

Fingerprint = Mapping[str, Any]
TASK_FIELDS: Final = frozenset(
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
        "world",
    }
)
MACHINE_FIELD: Final = "on"
# Conditions that a fingerprint leaves out where they are as they were before there was a choice.
UNSTATED: Final = {"text": "full", "own_models": "allowed", "feedback": "trajectory", "variant": {"name": "plain"}}
ABSENT: Final = "nothing"
VARIANT: Final = "variant"
HASH: Final = re.compile("(?:sealed:)?[0-9a-f]{64}")
# Limits of a search whose work would grow with the cube of the number of comparable_ids of a task.
MOST_VERSIONS: Final = 50  # sets of versions of packages that are compared, those of most runs
MOST_PACKAGES: Final = 100  # of one set
MOST_CHOICES: Final = 50  # sets of runs that are put together by their versions
LEFT_OUT_DIGITS: Final = 52  # of a hash, so that 12 are shown
LONGEST: Final = 200  # characters of one fact in a message


def conditions(fingerprint: Fingerprint) -> dict[str, Any]:
    """Return what is equal for all tasks of one board: protocol, splits, budget and the like."""
    left_out = TASK_FIELDS | {MACHINE_FIELD}
    stated = UNSTATED | {name: value for name, value in fingerprint.items() if name not in left_out}
    return stated | {"variant": stated["variant"]["name"]}  # its key is another one for each task


def differences(first: Fingerprint, second: Fingerprint) -> list[str]:
    """List differences that can change a score, as ``budget: 64, not 128``. The machine changes only last bits."""
    facts, others = _flat_facts(first), _flat_facts(second)
    names = [name for name in {**facts, **others} if name.split(".")[0] != MACHINE_FIELD]
    pairs = [
        (name, facts.get(name, ABSENT), others.get(name, ABSENT))
        for name in names
        if not name.startswith(f"{VARIANT}.") or (name in facts and name in others)  # else the variants differ
    ]
    return [f"{_short(name)}: {_short(fact)}, not {_short(other)}" for name, fact, other in pairs if fact != other]


def _flat_facts(fingerprint: Fingerprint) -> dict[str, Any]:
    """Return facts by dotted names, the variant by its name alone, with or without further facts about it."""
    facts = dict(_flat(UNSTATED | dict(fingerprint)))
    return {(VARIANT if name == f"{VARIANT}.name" else name): value for name, value in facts.items()}


def _short(value: Any) -> Any:
    """Return a hash by its first digits, and the beginning of a long text: facts of others may be of any length."""
    if isinstance(value, str) and HASH.fullmatch(value):
        return value[:-LEFT_OUT_DIGITS]
    text = str(value)
    return value if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _flat(fingerprint: Fingerprint, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fingerprint.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


OPEN_NETWORK: Final = "open"
EXTRA_ACCESS: Final = {"hosts": "the agent could reach more hosts", "shown": "the agent was shown more files"}


@dataclass(frozen=True)
class TaskRuns:
    """All runs with one comparable_id, and so of one task."""

    task: str
    comparable_id: str
    runs: tuple[RunScore, ...]

    @property
    def sample(self) -> RunRecord:
        return self.runs[0].run

    def by_entrant(self) -> dict[str, list[RunScore]]:
        by_entrant: dict[str, list[RunScore]] = defaultdict(list)
        for score in self.runs:
            by_entrant[entrant(score.run)].append(score)
        return dict(sorted(by_entrant.items()))


@dataclass(frozen=True)
class SameId:
    """Number of runs of a task that have one comparable_id, and the versions of the packages that played them."""

    task: str
    comparable_id: str
    runs: int
    packages: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, run: RunRecord, runs: int) -> SameId:
        packages = run.ids.fingerprint.get("packages")
        versions = sorted((name, str(version)) for name, version in packages.items()) if packages else []
        return cls(run.task.id, run.ids.comparable_id, runs, tuple(versions[:MOST_PACKAGES]))


def one_id_per_task(groups: Iterable[SameId]) -> list[SameId]:
    """Choose one comparable_id for each task: of the versions of packages with most runs as far as there are some, and
    then that with most runs. Chosen for each task alone, a table over tasks would be a patchwork of versions."""
    listed = sorted(groups, key=lambda group: (-group.runs, group.comparable_id))
    runs: dict[tuple[tuple[str, str], ...], int] = defaultdict(int)
    for group in listed:
        runs[group.packages] += group.runs
    common = sorted(runs, key=lambda packages: (-runs[packages], packages))[:MOST_VERSIONS]
    together = {
        packages: sum(runs[others] for others in common if _agree(dict(packages), others)) for packages in common
    }
    chosen: dict[str, SameId] = {}
    versions: dict[str, str] = {}
    for group in sorted(listed, key=lambda group: (-together.get(group.packages, 0), group.packages)):
        if group.task not in chosen and _agree(versions, group.packages):
            chosen[group.task] = group
            versions |= dict(group.packages)
    for group in listed:
        chosen.setdefault(group.task, group)
    return list(chosen.values())


def split_by_id(groups: Iterable[SameId]) -> Iterator[set[tuple[str, str]]]:
    """Yield sets of task and comparable_id with one comparable_id per task each; that of most runs comes first."""
    remaining = list(groups)
    for _ in range(MOST_CHOICES):
        if not remaining:
            return
        chosen = {(group.task, group.comparable_id) for group in one_id_per_task(remaining)}
        yield chosen
        remaining = [group for group in remaining if (group.task, group.comparable_id) not in chosen]
    by_rank: dict[int, set[tuple[str, str]]] = defaultdict(set)
    ranks: Counter[str] = Counter()
    for group in sorted(remaining, key=lambda group: (-group.runs, group.comparable_id)):
        by_rank[ranks[group.task]].add((group.task, group.comparable_id))
        ranks[group.task] += 1
    yield from by_rank.values()


def _agree(versions: Mapping[str, str], packages: Iterable[tuple[str, str]]) -> bool:
    return all(versions.get(name, version) == version for name, version in packages)


@dataclass(frozen=True)
class Board:
    """Runs that may share tables, by task. ``apart`` and ``differs`` say why they are not part of the first board."""

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
    """Sort runs into boards: the largest publishable one first, the others with their difference from it."""
    by_conditions: dict[tuple[tuple[str, ...], str], list[RunRecord]] = defaultdict(list)
    for run in runs:
        shared = json.dumps(conditions(run.ids.fingerprint), sort_keys=True, default=str)
        by_conditions[(separate_reasons(run), shared)].append(run)
    ordered = [board for (reasons, _), members in by_conditions.items() for board in _boards(members, reasons)]
    ordered.sort(key=lambda board: (len(board.apart), -board.size))
    return [ordered[0], *(_with_differences(board, ordered[0]) for board in ordered[1:])] if ordered else []


def separate_reasons(run: RunRecord) -> tuple[str, ...]:
    """Return why a run shares a board only with runs like it, whatever its comparable_id."""
    isolation = run.isolation
    if run.imported:
        return (f"imported from the {run.imported.words}, which does not isolate",)
    reasons = []
    if not isolation.publishable:
        reasons.append(f"isolation below B (policy {isolation.policy}, agent {isolation.agent})")
    if isolation.agent_network == OPEN_NETWORK:
        reasons.append("the agent's network was open")
    if run.agent and (original := run.agent.settings.get("replay_of")):
        reasons.append(f"answers of the model replayed from {original}")
    return (*reasons, *_extra_access(run))


def _extra_access(run: RunRecord) -> Iterable[str]:
    """Yield what an agent could reach beyond what every agent has: its content is not recorded."""
    settings = run.agent.settings if run.agent else {}
    for name, words in EXTRA_ACCESS.items():
        if extra := settings.get(name):
            yield f"{words}: {', '.join(map(str, extra))}"


def _boards(runs: list[RunRecord], reasons: tuple[str, ...]) -> Iterable[Board]:
    members: dict[tuple[str, str], list[RunScore]] = defaultdict(list)
    for run in runs:
        members[run.task.id, run.ids.comparable_id].append(run_score(run))
    for chosen in split_by_id(SameId.of(scores[0].run, len(scores)) for scores in members.values()):
        yield Board({key[0]: TaskRuns(*key, tuple(members[key])) for key in sorted(chosen)}, reasons)


def _with_differences(board: Board, first: Board) -> Board:
    differing: dict[str, None] = dict.fromkeys(
        differences(conditions(board.sample.ids.fingerprint), conditions(first.sample.ids.fingerprint))
    )
    for task, group in board.groups.items():
        if task in first.groups:
            differing |= dict.fromkeys(
                differences(group.sample.ids.fingerprint, first.groups[task].sample.ids.fingerprint)
            )
    return Board(board.groups, board.apart, tuple(differing))
