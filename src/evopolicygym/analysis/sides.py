"""Who is compared with whom: the runs below a path, split by entrant, and what two sides have in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evopolicygym.analysis.entrants import entrant
from evopolicygym.analysis.leaderboard.boards import apart
from evopolicygym.analysis.leaderboard.fingerprints import differences
from evopolicygym.analysis.scores import Matrix, RunScore, run_score
from evopolicygym.run_record import RunRecord


@dataclass(frozen=True)
class Side:
    """One entrant's runs, by task and comparable_id. ``missing`` are runs without a score; ``apart`` is what a
    leaderboard would show its runs apart for."""

    label: str
    runs: dict[tuple[str, str], list[RunScore]]
    missing: dict[str, str]
    apart: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Shared:
    """One task that both sides have under the same comparable_id: runs x cases of each."""

    task: str
    comparable_id: str
    first: Matrix
    second: Matrix


def sides(paths: Mapping[str, Sequence[RunRecord]]) -> list[Side]:
    """A path with one entrant is one side, a path with several is one for each. The path joins the label when two
    paths hold the same entrant."""
    found = [(path, who, runs) for path, listed in paths.items() for who, runs in _by_entrant(listed).items()]
    labels = [who for _, who, _ in found]
    return [_side(who if labels.count(who) == 1 else f"{who} ({path})", runs) for path, who, runs in found]


def shared(first: Side, second: Side) -> tuple[list[Shared], dict[str, str]]:
    """What can be compared, and for each task that cannot why not."""
    both = sorted(key for key in first.runs if key in second.runs)
    keys = {task: max((key for key in both if key[0] == task), key=lambda key: _fewer(first, second, key))
            for task, _ in both}  # fmt: skip
    common = [Shared(*key, _matrix(first.runs[key]), _matrix(second.runs[key])) for key in keys.values()]
    rest = sorted({task for task, _ in (*first.runs, *second.runs)} - set(keys))
    unused = {f"{task} ({name})": "under another comparable_id there are more runs"
              for task, name in both if (task, name) != keys[task]}  # fmt: skip
    return common, {task: _why_not(task, first, second) for task in rest} | unused


def _fewer(first: Side, second: Side, key: tuple[str, str]) -> int:
    return min(len(first.runs[key]), len(second.runs[key]))


def _by_entrant(runs: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    found: dict[str, list[RunRecord]] = defaultdict(list)
    for run in runs:
        found[entrant(run)].append(run)
    return dict(sorted(found.items()))


def _side(label: str, runs: Sequence[RunRecord]) -> Side:
    scores = [run_score(run) for run in runs]
    counted: dict[tuple[str, str], list[RunScore]] = defaultdict(list)
    for one in scores:
        if not one.missing:
            counted[(one.run.task.id, one.run.ids.comparable_id)].append(one)
    reasons = dict.fromkeys(reason for run in runs for reason in apart(run))
    return Side(label, dict(counted), {one.run.id: one.missing for one in scores if one.missing}, tuple(reasons))


def _matrix(runs: Sequence[RunScore]) -> Matrix:
    return np.array([one.returns for one in runs], dtype=np.float64)


def _why_not(task: str, first: Side, second: Side) -> str:
    found = [next((runs[0].run for key, runs in side.runs.items() if key[0] == task), None) for side in (first, second)]
    if found[0] is None or found[1] is None:
        return f"{(first if found[0] is None else second).label} has no score"
    return "; ".join(differences(found[0].ids.fingerprint, found[1].ids.fingerprint)) or "the comparable_ids differ"
