"""What the engine is asked and what it answers: plain facts that cross process borders as JSON."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from evopolicygym.sandbox.checkpoints import Checkpoint
from evopolicygym.sandbox.policy.failures import ErrorKind
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.splits import Case


@dataclass(frozen=True)
class Recording:
    """What to write of an episode, and where. ``folder`` must not exist yet or be empty. The trajectory, before it is
    compressed, and the video end where ``max_bytes`` end."""

    folder: str
    trajectory: bool = True
    video: bool = False
    max_bytes: int = 32 << 20


@dataclass(frozen=True)
class Episode:
    """One rollout of one checkpoint on one case, to be done. ``number`` is the asker's own, and comes back."""

    number: int
    checkpoint: Checkpoint
    case: Case
    recording: Recording | None = None


@dataclass(frozen=True)
class EpisodeError:
    kind: ErrorKind
    text: str


@dataclass(frozen=True)
class EpisodeResult:
    """One rollout, done. ``score`` is the return, or what a failed episode scores instead. ``left_out`` names what its
    recording does not hold. ``policy_wall_s`` is the wall time in which the judge waited for the policy."""

    number: int
    case: Case
    score: float
    return_so_far: float
    length: int
    terminated: bool
    truncated: bool
    clipped_actions: int
    error: EpisodeError | None
    stdout: str
    stderr: str
    wall_s: float
    rollout_s: float
    policy_cpu_s: float
    left_out: tuple[str, ...] = ()
    policy_wall_s: float = 0.0


def not_played(episode: Episode, score: float, error: EpisodeError) -> EpisodeResult:
    """Return the result of an episode that failed without a step."""
    return EpisodeResult(episode.number, episode.case, score, 0.0, 0, False, False, 0, error, "", "", 0.0, 0.0, 0.0)


def mean(scores: Sequence[float]) -> float:
    """Exactly rounded, and independent of order; finite scores have a finite mean, even where their sum is not."""
    try:
        return math.fsum(scores) / len(scores)
    except (OverflowError, ValueError):  # a sum beyond all floats, or of both infinities
        return statistics.mean(scores)


@dataclass(frozen=True)
class LoadResult:
    """Whether a checkpoint imports and constructs. ``error`` is None when it does."""

    error: EpisodeError | None
    stdout: str = ""
    stderr: str = ""


Played = TypeVar("Played", EpisodeResult, LoadResult)


def redacted(played: Played, redact: Callable[[str], str]) -> Played:
    """Return it with every text of the policy passed through ``redact``."""
    error = EpisodeError(played.error.kind, redact(played.error.text)) if played.error else None
    return replace(played, error=error, stdout=redact(played.stdout), stderr=redact(played.stderr))


@dataclass(frozen=True)
class FaultReport:
    """The judge itself failed on this episode: never the policy's doing, never a score. ``permanent`` as in Fault."""

    number: int
    case: Case
    text: str
    permanent: bool = False


@dataclass(frozen=True)
class WorkerHello:
    """What a new worker says: the level achieved and the live spaces, or why it cannot work; ``errno`` is the system's
    number for that, if it has one."""

    level: Level = Level.NONE
    obs_space: dict[str, Any] = field(default_factory=dict)
    action_space: dict[str, Any] = field(default_factory=dict)
    not_isolated: dict[str, str] = field(default_factory=dict)
    refused: str = ""
    errno: int | None = None


@dataclass(frozen=True)
class WorkerRequest:
    """To a worker: play an episode or, without one, only load the checkpoint."""

    checkpoint: Checkpoint
    episode: Episode | None = None


@dataclass(frozen=True)
class WorkerAnswer:
    """From a worker: a result, a load or a fault, which may be ``permanent``."""

    result: EpisodeResult | None = None
    load: LoadResult | None = None
    fault: str | None = None
    permanent: bool = False


@dataclass(frozen=True)
class Node:
    """``id`` is the cluster's name for it. ``level``: how policies are isolated there. One that is ``refused``, in
    words, has no seats."""

    id: str
    host: str
    level: str
    seats: int
    refused: str = ""
