"""Measures the anchors of a task: random, zero action, the best constant action, the contract's example policy.

The constant is chosen on train cases and measured on held-out cases, like any checkpoint. Candidates: every action of a
Discrete space; for a Box the middle (zero), each entry alone at its lowest and highest, all lowest, all highest.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from evopolicygym.errors import Fault, UserError
from evopolicygym.execution.conformance import probe_folder
from evopolicygym.execution.engine import Engine
from evopolicygym.execution.evaluation import evaluate_folder
from evopolicygym.reference.anchors import Anchor, TaskAnchors
from evopolicygym.tasks.contract import starter
from evopolicygym.tasks.ids import comparable_facts
from evopolicygym.tasks.spaces import Schema
from evopolicygym.tasks.splits import Case, Split, Splits, cases
from evopolicygym.tasks.task import Task

HELDOUT_CASES: Final = 32
TRAIN_CASES: Final = 32
REPEATS: Final = 10

Action = int | list[float]
FillFolder = Callable[[Path], object]


def measure(
    engine: Engine,
    task: Task,
    splits: Splits,
    heldout_cases: int = HELDOUT_CASES,
    train_cases: int = TRAIN_CASES,
    repeats: int = REPEATS,
) -> TaskAnchors:
    """Measure all anchors of one task, on any splits."""
    heldout = cases(splits, task.id, Split.HELDOUT, list(range(heldout_cases)))
    train = cases(splits, task.id, Split.TRAIN, list(range(train_cases)))

    def play(on: list[Case], fill: FillFolder) -> list[float]:
        return _returns(engine, task, splits.id, on, fill)

    def train_score(action: Action) -> float:
        return math.fsum(play(train, constant(action)))

    chosen = max(candidates(engine.action_space), key=train_score)
    return TaskAnchors(
        fingerprint=comparable_facts(task, splits.id),
        heldout_cases=heldout_cases,
        train_cases=train_cases,
        random=Anchor(returns=[play(heldout, random(repeat)) for repeat in range(repeats)]),
        zero=Anchor(returns=[play(heldout, lambda folder: probe_folder(folder, "zero"))]),
        constant=Anchor(returns=[play(heldout, constant(chosen))], action=chosen),
        starter=Anchor(returns=[play(heldout, example(engine.action_space))]),
    )


def random(repeat: int) -> FillFolder:
    """Return a policy that draws actions uniformly, from a stream keyed by the repeat and the case."""
    return lambda folder: probe_folder(folder, "random", repeat=repeat)


def constant(action: Action) -> FillFolder:
    return lambda folder: probe_folder(folder, "constant", action=action)


def example(space: Schema) -> FillFolder:
    return lambda folder: (folder / "policy.py").write_text(starter(space))


def candidates(space: Schema) -> list[Action]:
    """Return the constant actions that are tried. Ties go to the earlier one."""
    if space["type"] == "Discrete":
        return list(range(space["start"], space["start"] + space["n"]))
    if space["type"] != "Box" or len(space["shape"]) != 1:
        raise UserError(
            f"there are no constant actions to try for a {space['type']} action space",
            "Anchors need a Discrete or a one-dimensional Box space.",
        )
    low, high = (_bounds(space, name) for name in ("low", "high"))
    zero = [min(max(0.0, least), most) for least, most in zip(low, high, strict=True)]
    corners = [[*zero[:i], bound[i], *zero[i + 1 :]] for i in range(len(zero)) for bound in (low, high)]
    return [zero, *corners, low, high]


def _bounds(space: Schema, name: str) -> list[float]:
    """Return a bound as a list: the schema has one number for all entries, or a list."""
    bound: Any = space[name]
    size: int = space["shape"][0]
    return [float(value) for value in bound] if isinstance(bound, list) else [float(bound)] * size


def _returns(engine: Engine, task: Task, splits_id: str, on: list[Case], fill: FillFolder) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        report = evaluate_folder(engine, task, Path(folder), on, splits_id)
    if report.faults:
        raise Fault(f"{task.id} case {report.faults[0].case.index}: {report.faults[0].text}")
    return list(report.returns)
