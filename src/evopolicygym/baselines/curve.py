"""Trains one learner on train cases, and measures checkpoints of it on the hidden cases, like any policy."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from evopolicygym import __version__
from evopolicygym.agents.builtin.learners.networks import write_actor
from evopolicygym.agents.builtin.policies.actor import Actor
from evopolicygym.baselines.trainer import Trainer
from evopolicygym.errors import Fault, UserError
from evopolicygym.execution.engine import Engine
from evopolicygym.execution.evaluation import Evaluation, evaluate_folder
from evopolicygym.files import write_atomic
from evopolicygym.reference.curves import KIND, VERSION, CurveRecord, MeasuredPoint, load_curve
from evopolicygym.tasks.ids import comparable_facts, ids, machine_facts
from evopolicygym.tasks.splits import Split, Splits, cases
from evopolicygym.tasks.task import Task

FIRST_POINT: Final = 1000  # steps
RATIO: Final = 2.0**0.5  # of the steps of two points
REPORT_EVERY_S: Final = 2.0


@dataclass(frozen=True)
class CurvePlan:
    """Settings of a training and of its measurements."""

    task: Task
    splits: Splits
    algorithm: str
    seed: int
    steps: int
    validation_cases: int
    heldout_cases: int
    command: str
    hidden: int = 0


@dataclass(frozen=True)
class CurveProgress:
    """The progress of a training. ``point`` is the last one that was measured."""

    plan: CurvePlan
    episodes: int
    steps: int
    steps_per_s: float
    point: MeasuredPoint | None


def point_steps(steps: int) -> list[int]:
    """Return the numbers of steps at which a checkpoint is measured: each about 1.4 times the one before."""
    points, current = [], float(FIRST_POINT)
    while current < 0.99 * steps:
        points.append(round(current))
        current *= RATIO
    return [*points, steps]


def train_curve(
    plan: CurvePlan,
    file: Path,
    start: Callable[[Path], Trainer],
    engine: Engine,
    show: Callable[[CurveProgress], object],
    hidden_cases: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> CurveRecord:
    """Train, and write the record to ``file`` after every measured point. A training that was interrupted continues
    from its last saved state; a complete one is returned as it is. ``start`` makes the trainer from its folder;
    ``hidden_cases`` is entered while checkpoints are measured."""
    record = existing_record(plan, file)
    if record and record.complete:
        return record
    folder = file.with_suffix(".state")
    if folder.is_symlink():
        raise UserError(f"{folder} is a link, which is not followed", "Remove it, or name another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    trainer = start(folder)
    try:
        points = [point for point in record.points if point.steps <= trainer.steps] if record else []
        training = _Training(plan, trainer, points, show)
        for target in point_steps(plan.steps):
            if points and points[-1].steps >= target:
                continue
            training.train(target)
            with hidden_cases():
                points.append(training.measure(engine))
            record = make_record(plan, trainer, engine, points)
            write_atomic(file, record.model_dump_json(indent=1).encode() + b"\n")
            trainer.save()
        assert record
        return record
    finally:
        trainer.close()


def existing_record(plan: CurvePlan, file: Path) -> CurveRecord | None:
    """Return what was measured so far. Raises UserError for a record of another training."""
    if not file.exists():
        return None
    record = load_curve(file)
    recorded = (record.task, record.algorithm, record.seed, record.splits_id, record.comparable_id)
    if recorded != (plan.task.id, plan.algorithm, plan.seed, plan.splits.id, comparable(plan)):
        raise UserError(f"{file} is the record of another training", "Name another folder, or move the file away.")
    numbers = {
        "hidden units": (record.settings.get("hidden", 0), plan.hidden),
        "validation cases": (record.validation_cases, plan.validation_cases),
        "held-out cases": (record.heldout_cases, plan.heldout_cases),
    }
    for name, (before, now) in numbers.items():
        if before != now:
            raise UserError(
                f"{file} is the record of a training with {before} {name}, not {now}",
                f"Continue it with {before}, name another folder, or move the file away.",
            )
    return record if record.steps == plan.steps else record.model_copy(update={"complete": False})


def comparable(plan: CurvePlan) -> str:
    return ids(plan.task, plan.splits.id).comparable_id


class _Training:
    """The clock and the progress of one training."""

    def __init__(
        self, plan: CurvePlan, trainer: Trainer, points: list[MeasuredPoint], show: Callable[[CurveProgress], object]
    ) -> None:
        self._plan, self._trainer, self._points, self._show = plan, trainer, points, show
        self._seconds = points[-1].train_s if points else 0.0
        self._shown = 0.0

    def train(self, target: int) -> None:
        began, first = time.monotonic(), self._trainer.steps

        def report() -> None:
            now = time.monotonic()
            if now - self._shown > REPORT_EVERY_S:
                self._shown = now
                speed = (self._trainer.steps - first) / max(now - began, 1e-9)
                self._show(self._progress(speed))

        self._trainer.train(target, report)
        self._seconds += time.monotonic() - began
        self._show(self._progress((self._trainer.steps - first) / max(time.monotonic() - began, 1e-9)))

    def measure(self, engine: Engine) -> MeasuredPoint:
        """Measure the current actor on validation and held-out cases, in the jail."""
        validation = self._evaluate(engine, Split.VALIDATION, self._plan.validation_cases)
        heldout = self._evaluate(engine, Split.HELDOUT, self._plan.heldout_cases)
        return MeasuredPoint(
            episodes=self._trainer.episodes,
            steps=self._trainer.steps,
            train_s=round(self._seconds, 3),
            checkpoint=validation.checkpoint.hash,
            validation_mean=mean_of(validation),
            heldout_mean=mean_of(heldout),
        )

    def _evaluate(self, engine: Engine, split: Split, count: int) -> Evaluation:
        return evaluate_actor(engine, self._plan.task, self._plan.splits, self._trainer.actor, split, count)

    def _progress(self, speed: float) -> CurveProgress:
        last = self._points[-1] if self._points else None
        return CurveProgress(self._plan, self._trainer.episodes, self._trainer.steps, speed, last)


def evaluate_actor(engine: Engine, task: Task, splits: Splits, actor: Actor, split: Split, count: int) -> Evaluation:
    """Play an actor as a submitted policy on the first cases of a split."""
    chosen = cases(splits, task.id, split, list(range(count)))
    with tempfile.TemporaryDirectory(prefix="evopolicygym-baseline-") as folder:
        write_actor(actor, Path(folder))
        return evaluate_folder(engine, task, Path(folder), chosen, splits.id)


def mean_of(evaluation: Evaluation) -> float:
    if evaluation.faults:
        raise Fault(f"{evaluation.task.id} case {evaluation.faults[0].case.index}: {evaluation.faults[0].text}")
    assert evaluation.mean is not None
    return evaluation.mean


def make_record(plan: CurvePlan, trainer: Trainer, engine: Engine, points: list[MeasuredPoint]) -> CurveRecord:
    identity = ids(plan.task, plan.splits.id)
    facts: dict[str, Any] = comparable_facts(plan.task, plan.splits.id)
    return CurveRecord(
        kind=KIND,
        schema_version=VERSION,
        evopolicygym=__version__,
        task=plan.task.id,
        algorithm=plan.algorithm,
        settings=trainer.settings,
        seed=plan.seed,
        steps=plan.steps,
        complete=points[-1].steps >= plan.steps,
        splits_id=plan.splits.id,
        comparable_id=identity.comparable_id,
        bit_id=identity.bit_id,
        fingerprint=facts,
        machine=machine_facts(),
        implementation=engine.implementation,
        isolation=str(engine.level),
        validation_cases=plan.validation_cases,
        heldout_cases=plan.heldout_cases,
        versions=trainer.versions,
        command=plan.command,
        points=list(points),
    )
