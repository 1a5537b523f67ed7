"""Evaluating one policy folder on a list of cases: snapshot, load once, play all, summarise."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evopolicygym.execution.engine import Engine
from evopolicygym.execution.records import Episode, EpisodeError, EpisodeResult, FaultReport, Recording, mean
from evopolicygym.reference.paper import HELDOUT_CASES
from evopolicygym.sandbox.checkpoints import Checkpoint
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.ids import Ids, comparable_facts, ids, machine_facts
from evopolicygym.tasks.splits import Case, Split
from evopolicygym.tasks.task import Task


class PolicyNotLoaded(Exception):
    """The policy cannot be imported or constructed, so there is nothing to play."""

    def __init__(self, error: EpisodeError, stdout: str, stderr: str) -> None:
        super().__init__(error.text)
        self.error, self.stdout, self.stderr = error, stdout, stderr


@dataclass(frozen=True)
class Evaluation:
    """Results in the order of the cases asked for, and statistics of them."""

    task: Task
    splits_id: str
    checkpoint: Checkpoint
    level: Level
    implementation: str
    indices: tuple[int, ...]
    split: Split
    results: tuple[EpisodeResult, ...]
    faults: tuple[FaultReport, ...]
    wall_s: float
    salt: str = ""

    @property
    def scores(self) -> list[float]:
        return [result.score for result in self.results]

    @property
    def mean(self) -> float | None:
        """The mean score; None if a fault left an episode without a score."""
        return mean(self.scores) if self.results and not self.faults else None

    @property
    def std(self) -> float | None:
        return statistics.pstdev(self.scores) if self.results and not self.faults else None

    @property
    def failed(self) -> int:
        return sum(result.error is not None for result in self.results)

    @property
    def steps(self) -> int:
        return sum(result.length for result in self.results)

    @property
    def steps_per_s(self) -> float:
        return self.steps / self.wall_s if self.wall_s else 0.0

    @property
    def ids(self) -> Ids:
        return ids(self.task, self.splits_id)

    def as_dict(self) -> dict[str, Any]:
        """Return the evaluation as JSON for scripts. Cases are named by index; a seed is never shown."""
        return {
            "loaded": True,
            "task": self.task.id,
            "env_id": self.task.env_id,
            "split": self.split,
            "splits_id": self.splits_id,
            "randomness_salt": self.salt or None,
            "policy": asdict(self.checkpoint),
            "isolation": {"level": self.level, "publishable": self.level is not Level.NONE},
            "implementation": self.implementation,
            "mean": self.mean,
            "std": self.std,
            "min": min(self.scores, default=None),
            "max": max(self.scores, default=None),
            "failed": self.failed,
            "steps": self.steps,
            "wall_s": self.wall_s,
            "steps_per_s": self.steps_per_s,
            "episodes": [_episode(result) for result in self.results],
            "faults": [{"case": fault.case.index, "text": fault.text} for fault in self.faults],
            **asdict(self.ids),
            "fingerprint": comparable_facts(self.task, self.splits_id) | {"on": machine_facts()},
        }


def evaluate_folder(
    engine: Engine,
    task: Task,
    folder: Path,
    cases: list[Case],
    splits_id: str,
    record: Path | None = None,
    video: bool = False,
    advance: Callable[[], object] = lambda: None,
    salt_of: Callable[[Checkpoint], str] = lambda _: "",
) -> Evaluation:
    """Snapshot a policy folder and play it. Raises SnapshotRefused or PolicyNotLoaded when there is nothing to play.

    ``salt_of`` gives the secret from which the policy's randomness follows; without it that follows from public facts,
    as for the published anchors."""
    checkpoint = engine.store.snapshot(folder)
    load = engine.load(checkpoint)
    if load.error:
        raise PolicyNotLoaded(load.error, load.stdout, load.stderr)
    salt, began = salt_of(checkpoint), time.perf_counter()
    cases = [replace(case, salt=salt) for case in cases]
    outcomes: dict[int, EpisodeResult | FaultReport] = {}
    for outcome in engine.run(_episodes(checkpoint, cases, record, video)):
        outcomes[outcome.number] = outcome
        advance()
    wall_s = time.perf_counter() - began
    ordered = [outcomes[number] for number in range(len(cases))]
    return Evaluation(
        task=task,
        splits_id=splits_id,
        checkpoint=checkpoint,
        level=engine.level,
        implementation=engine.implementation,
        indices=tuple(case.index for case in cases),
        split=cases[0].split,
        results=tuple(outcome for outcome in ordered if isinstance(outcome, EpisodeResult)),
        faults=tuple(outcome for outcome in ordered if isinstance(outcome, FaultReport)),
        wall_s=wall_s,
        salt=salt,
    )


def _episodes(checkpoint: Checkpoint, cases: list[Case], record: Path | None, video: bool) -> list[Episode]:
    return [Episode(number, checkpoint, case, _recording(record, number, video)) for number, case in enumerate(cases)]


def _recording(record: Path | None, number: int, video: bool) -> Recording | None:
    return None if record is None else Recording(str(record.resolve() / f"ep_{number:03}"), video=video)


def _episode(result: EpisodeResult) -> dict[str, Any]:
    facts = asdict(result)
    del facts["case"], facts["number"]
    return {"case": result.case.index, **facts}


def are_paper_heldout_cases(splits_id: str, split: Split, indices: tuple[int, ...]) -> bool:
    return are_among_paper_heldout_cases(splits_id, split, indices) and indices == tuple(range(HELDOUT_CASES))


def are_among_paper_heldout_cases(splits_id: str, split: Split, indices: tuple[int, ...]) -> bool:
    """Whether all cases are among those of the paper's rows."""
    return splits_id == "paper" and split is Split.HELDOUT and set(indices) <= set(range(HELDOUT_CASES))
