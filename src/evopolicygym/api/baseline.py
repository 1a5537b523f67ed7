"""Train baselines with direct access to the simulator, and measure their learning curves."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evopolicygym.api.evaluate import SeedsName, checked_jobs, member
from evopolicygym.errors import UserError

if TYPE_CHECKING:
    from evopolicygym.baselines.curve import CurvePlan, CurveProgress
    from evopolicygym.baselines.trainer import Trainer
    from evopolicygym.reference.curves import CurveRecord

VALIDATION_CASES: Final = 16
HELDOUT_CASES: Final = 32


def baseline_curve(
    task: str,
    algorithm: str,
    *,
    steps: int = 100_000,
    seed: int = 0,
    hidden: int = 0,
    folder: str | os.PathLike[str] = "baselines",
    seeds: SeedsName = "paper",
    seal_key: str | os.PathLike[str] | None = None,
    validation_cases: int = VALIDATION_CASES,
    heldout_cases: int = HELDOUT_CASES,
    jobs: int | None = None,
    progress: Callable[[CurveProgress], object] | None = None,
) -> CurveRecord:
    """Train one algorithm on the train cases of a task, and measure checkpoints on its hidden cases.

    Args:
        task: What ``load_task`` takes.
        algorithm: ``random-search``, ``ars``, ``openes``, ``ga``, ``cma-es``; with the extra `rl` also ``ppo``, ``sac``
            (continuous actions) and ``dqn`` (discrete ones).
        steps: Environment steps to train for.
        seed: Of the learner. The same seed gives the same curve, to the bit.
        hidden: Units of a hidden layer of the search methods; 0 trains a linear policy.
        folder: Where the record and the state of the training are written. The same call continues a training that was
            interrupted, and returns a complete one as it is.
        seeds, seal_key: Which cases, as in ``evaluate``.
        validation_cases, heldout_cases: How many hidden cases every checkpoint plays.
        jobs: Processes that play episodes (default: the cores of this machine). The result does not depend on it. More
            than one are started by importing the calling script again: guard its code by
            ``if __name__ == "__main__":``.
        progress: Called with a ``CurveProgress`` every few seconds.

    Returns:
        The record: ``points``, ``score``, ``selected()``; on disk ``FOLDER/TASK__ALGORITHM__sSEED.curve.json``.

    Raises:
        UserError: An argument is wrong, or the folder holds the record of another training.

    >>> import evopolicygym, tempfile
    >>> record = evopolicygym.baseline_curve(
    ...     "core16/acrobot", "random-search", steps=1000, folder=tempfile.mkdtemp(), validation_cases=1,
    ...     heldout_cases=1, jobs=1,
    ... )
    >>> record.seed, record.points[-1].steps >= 1000
    (0, True)
    """
    from evopolicygym.baselines.curve import CurvePlan, train_curve
    from evopolicygym.baselines.rl import ALGORITHMS, RlTrainer
    from evopolicygym.baselines.trainer import SearchTrainer
    from evopolicygym.execution.engine import LocalEngine
    from evopolicygym.runs.locks import CaseSet, hidden_cases_lock
    from evopolicygym.runs.settings import RunSettings, Seeds
    from evopolicygym.runs.trust import sign_training
    from evopolicygym.tasks.registry import find_task

    _check(algorithm, steps, seed, hidden)
    settings = RunSettings.make(
        task=task, seeds=member(Seeds, seeds, "seeds"), seal_key=Path(seal_key) if seal_key else None
    )
    shown_task, splits, count = settings.seen(find_task(task)), settings.splits(), checked_jobs(jobs)
    command = f"evopolicygym baseline curve {task} --algo {algorithm} --steps {steps} --first-seed {seed} --seeds 1"
    others = {
        "hidden": (hidden, 0),
        "cases": (str(settings.seeds), "paper"),
        "validation-cases": (validation_cases, VALIDATION_CASES),
        "heldout-cases": (heldout_cases, HELDOUT_CASES),
    }
    command += "".join(f" --{name} {value}" for name, (value, default) in others.items() if value != default)
    plan = CurvePlan(shown_task, splits, algorithm, seed, steps, validation_cases, heldout_cases, command, hidden)
    target = record_file(Path(folder), plan)
    target.parent.mkdir(parents=True, exist_ok=True)

    def start(state: Path) -> Trainer:
        if algorithm in ALGORITHMS:
            return RlTrainer(algorithm, shown_task, splits, seed, count, state, sign_training)
        return SearchTrainer(algorithm, shown_task, splits, seed, count, state, hidden)

    def hidden_cases() -> AbstractContextManager[None]:
        remedy = "Ctrl-C ends this; the same command continues it."
        return hidden_cases_lock(CaseSet(shown_task.id, splits.id), f"baseline {algorithm}", remedy)

    with LocalEngine(shown_task, count) as engine:
        return train_curve(plan, target, start, engine, progress or (lambda _: None), hidden_cases)


def record_file(folder: Path, plan: CurvePlan) -> Path:
    """Return the path of a training's record."""
    from evopolicygym.reference.curves import SUFFIX

    name = plan.task.id.replace("/", "-").replace(":", "-")
    return folder / f"{name}__{plan.algorithm}__s{plan.seed}{SUFFIX}"


def _check(algorithm: str, steps: int, seed: int, hidden: int) -> None:
    from evopolicygym.agents.builtin.learners.search_methods import METHODS
    from evopolicygym.baselines.rl import ALGORITHMS, check_installed

    if algorithm not in (*METHODS, *ALGORITHMS):
        raise UserError(f"there is no algorithm {algorithm!r}", f"Choose one of {', '.join((*METHODS, *ALGORITHMS))}.")
    if algorithm in ALGORITHMS:
        check_installed(algorithm)
    if algorithm in ALGORITHMS and hidden:
        text = f"{algorithm} has the network of Stable-Baselines3: --hidden (hidden=) is for search methods"
        raise UserError(text, "Leave it out.")
    for name, value, least in (("steps", steps, 1), ("seed", seed, 0), ("hidden", hidden, 0)):
        if value < least:
            raise UserError(f"{name} is {value}", f"It is at least {least}.")
