"""Evaluating one policy folder on a list of cases: snapshot, load once, play all, summarise."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from evopolicygym.execution.records import Episode, EpisodeError, EpisodeResult, FaultReport, Recording, mean
from evopolicygym.sandbox.checkpoints import Checkpoint
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.splits import Case, Split
from evopolicygym.tasks.task import Task

if TYPE_CHECKING:  # this module is part of the public API, which must be light to import
    import pandas

    from evopolicygym.execution.engine import Engine
    from evopolicygym.tasks.ids import Ids


class PolicyNotLoaded(Exception):
    """The policy does not import or construct, so no episode was played. ``error`` says why; ``stdout`` and ``stderr``
    are what it printed."""

    def __init__(self, error: EpisodeError, stdout: str, stderr: str) -> None:
        super().__init__(error.text)
        self.error, self.stdout, self.stderr = error, stdout, stderr


@dataclass(frozen=True)
class Evaluation:
    """A policy played on a list of cases, in the order in which they were asked for.

    ``episodes`` are the results of the episodes, ``faults`` the episodes that the judge itself failed to play (no
    score). ``level`` is the isolation level that was achieved, ``salt`` the secret from which the policy's random
    numbers follow: pass it to ``evaluate`` to repeat the draws."""

    task: Task
    splits_id: str
    checkpoint: Checkpoint
    level: Level
    implementation: str
    indices: tuple[int, ...]
    split: Split
    episodes: tuple[EpisodeResult, ...]
    faults: tuple[FaultReport, ...]
    wall_s: float
    salt: str = ""

    def __repr__(self) -> str:
        return (
            f"Evaluation(task={self.task.id!r}, split={self.split.value!r}, splits_id={self.splits_id!r}, "
            f"mean={self.mean!r}, episodes={len(self.episodes)}, failed={self.failed}, faults={len(self.faults)})"
        )

    @property
    def returns(self) -> tuple[float, ...]:
        """The score of each episode: its return; of a failed one, the lower of its return so far and the task's failure
        return."""
        return tuple(episode.score for episode in self.episodes)

    @property
    def mean(self) -> float | None:
        """The mean return, or None where an episode is missing."""
        return mean(self.returns) if self.episodes and not self.faults else None

    @property
    def std(self) -> float | None:
        """The population standard deviation of the returns, or None where an episode is missing."""
        return statistics.pstdev(self.returns) if self.episodes and not self.faults else None

    @property
    def failed(self) -> int:
        """The number of episodes that ended with an error of the policy."""
        return sum(episode.error is not None for episode in self.episodes)

    @property
    def steps(self) -> int:
        """Environment steps of all episodes."""
        return sum(episode.length for episode in self.episodes)

    @property
    def steps_per_s(self) -> float:
        """Environment steps per second of wall time."""
        return self.steps / self.wall_s if self.wall_s else 0.0

    @property
    def ids(self) -> Ids:
        """The comparable_id and bit_id of these returns."""
        from evopolicygym.tasks.ids import ids

        return ids(self.task, self.splits_id)

    def to_pandas(self) -> pandas.DataFrame:
        """Return one row per episode: case, return, length, terminated, truncated, clipped_actions, error, ..."""
        import pandas

        return pandas.DataFrame(map(_row, self.episodes), columns=list(ROW))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as `evaluate --json` prints it. Cases are named by index, not by seed."""
        from evopolicygym.tasks.ids import comparable_facts, machine_facts

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
            "min": min(self.returns, default=None),
            "max": max(self.returns, default=None),
            "failed": self.failed,
            "steps": self.steps,
            "wall_s": self.wall_s,
            "steps_per_s": self.steps_per_s,
            "episodes": [_episode(episode) for episode in self.episodes],
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
        episodes=tuple(outcome for outcome in ordered if isinstance(outcome, EpisodeResult)),
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
    """Whether the cases are exactly those of the paper's rows."""
    from evopolicygym.reference.paper import HELDOUT_CASES

    return are_among_paper_heldout_cases(splits_id, split, indices) and indices == tuple(range(HELDOUT_CASES))


def are_among_paper_heldout_cases(splits_id: str, split: Split, indices: tuple[int, ...]) -> bool:
    """Whether all cases are among those of the paper's rows."""
    from evopolicygym.reference.paper import HELDOUT_CASES

    return splits_id == "paper" and split is Split.HELDOUT and set(indices) <= set(range(HELDOUT_CASES))


ROW: Final = (
    *("case", "return", "length", "terminated", "truncated", "clipped_actions", "error"),
    *("wall_s", "policy_cpu_s", "stdout", "stderr"),
)


def _row(episode: EpisodeResult) -> dict[str, Any]:
    facts = asdict(episode) | {"case": episode.case.index, "return": episode.score}
    return {name: facts[name] for name in ROW} | {"error": episode.error.kind.value if episode.error else None}
