"""Measures the anchors of a task: random, zero action, the best constant action, the contract's example policy.

The constant is chosen on train cases and measured on held-out cases, like any checkpoint. Candidates: every action of a
Discrete space; for a Box the middle (zero), each entry alone at its lowest and highest, all lowest, all highest.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Final

from evopolicygym.errors import Fault, UserError
from evopolicygym.execution.conformance import probe_folder
from evopolicygym.execution.engine import Engine
from evopolicygym.execution.evaluation import evaluate_folder
from evopolicygym.reference.anchors import Anchor, TaskAnchors
from evopolicygym.tasks.contract import starter
from evopolicygym.tasks.ids import comparable_facts
from evopolicygym.tasks.spaces import Action, Schema, constant_actions
from evopolicygym.tasks.splits import Case, Split, Splits, cases
from evopolicygym.tasks.task import Task

HELDOUT_CASES: Final = 32
TRAIN_CASES: Final = 32
REPEATS: Final = 10
QUICK_TRAIN_CASES: Final = 8  # of anchors that are measured at the end of a run
QUICK_REPEATS: Final = 3

FillFolder = Callable[[Path], object]


def measure(
    engine: Engine,
    task: Task,
    splits: Splits,
    heldout_cases: int = HELDOUT_CASES,
    train_cases: int = TRAIN_CASES,
    repeats: int = REPEATS,
    expert: Path | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> TaskAnchors:
    """Measure all anchors of one task, on any splits. ``expert`` is the folder of a policy for the upper end.
    ``progress`` is called with the number of finished episodes and their total."""
    heldout = cases(splits, task.id, Split.HELDOUT, list(range(heldout_cases)))
    train = cases(splits, task.id, Split.TRAIN, list(range(train_cases)))

    candidates = constant_actions(engine.action_space)
    total, done = train_cases * len(candidates) + heldout_cases * (repeats + 3), count(1)
    progress(0, total)

    def play(on: list[Case], fill: FillFolder) -> list[float]:
        return _returns(engine, task, splits.id, on, fill, lambda: progress(next(done), total))

    def train_score(action: Action) -> float:
        return math.fsum(play(train, constant(action)))

    chosen = max(candidates, key=train_score)
    return TaskAnchors(
        fingerprint=comparable_facts(task, splits.id),
        heldout_cases=heldout_cases,
        train_cases=train_cases,
        random=Anchor(returns=[play(heldout, random(repeat)) for repeat in range(repeats)]),
        zero=Anchor(returns=[play(heldout, lambda folder: probe_folder(folder, "zero"))]),
        constant=Anchor(returns=[play(heldout, constant(chosen))], action=chosen),
        starter=Anchor(returns=[play(heldout, example(engine.action_space))]),
        expert=None if expert is None else Anchor(returns=[_expert_returns(engine, task, splits.id, heldout, expert)]),
    )


def _expert_returns(engine: Engine, task: Task, splits_id: str, on: list[Case], folder: Path) -> list[float]:
    report = evaluate_folder(engine, task, folder, on, splits_id)
    if report.faults:
        raise Fault(f"{task.id} case {report.faults[0].case.index}: {report.faults[0].text}")
    if failed := [episode.error for episode in report.episodes if episode.error]:
        raise UserError(
            f"the expert {folder} failed in {len(failed)} of {len(on)} episodes: {failed[0].text.strip()[-300:]}",
            "Fix it; `evopolicygym evaluate` plays it alone.",
        )
    return list(report.returns)


def random(repeat: int) -> FillFolder:
    """Return a policy that draws actions uniformly, from a stream keyed by the repeat and the case."""
    return lambda folder: probe_folder(folder, "random", repeat=repeat)


def constant(action: Action) -> FillFolder:
    return lambda folder: probe_folder(folder, "constant", action=action)


def example(space: Schema) -> FillFolder:
    return lambda folder: (folder / "policy.py").write_text(starter(space))


def _returns(
    engine: Engine, task: Task, splits_id: str, on: list[Case], fill: FillFolder, advance: Callable[[], object]
) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        report = evaluate_folder(engine, task, Path(folder), on, splits_id, advance=advance)
    if report.faults:
        raise Fault(f"{task.id} case {report.faults[0].case.index}: {report.faults[0].text}")
    return list(report.returns)
