"""Episodes as an engine is given them, their results, and the nodes that play them: facts that cross processes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from evopolicygym.sandbox.checkpoints import Checkpoint
from evopolicygym.sandbox.policy.protocol import ErrorKind
from evopolicygym.tasks.splits import Case


@dataclass(frozen=True)
class Recording:
    """The parts of an episode to record, and where. ``folder`` must not exist yet or be empty. ``max_bytes`` bounds the
    trajectory (before compression) and the video; both stop when they reach it."""

    folder: str
    trajectory: bool = True
    video: bool = False
    max_bytes: int = 32 << 20


@dataclass(frozen=True)
class Episode:
    """One rollout of one checkpoint on one case, to be played. ``number`` is the caller's own, and comes back."""

    number: int
    checkpoint: Checkpoint
    case: Case
    recording: Recording | None = None


@dataclass(frozen=True)
class EpisodeError:
    """The cause for which an episode or a load failed, with the policy's own traceback."""

    kind: ErrorKind
    text: str


@dataclass(frozen=True)
class EpisodeResult:
    """One rollout, played. ``score`` is the return, or what a failed episode scores instead. ``left_out`` names what
    is missing from its recording. ``policy_wall_s`` is the wall time that the judge waited for the policy,
    ``act_cpu_s`` the mean CPU time of an action, ``longest_act_cpu_s`` that of the longest one, measured where the
    episode is recorded."""

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
    act_cpu_s: float = 0.0
    longest_act_cpu_s: float = 0.0


def not_played(episode: Episode, score: float, error: EpisodeError) -> EpisodeResult:
    """Return the result of an episode that failed without a step."""
    return EpisodeResult(episode.number, episode.case, score, 0.0, 0, False, False, 0, error, "", "", 0.0, 0.0, 0.0)


def mean(scores: Sequence[float]) -> float:
    """Return the mean, exactly rounded and independent of order. Finite scores have a finite mean, even if their sum
    overflows."""
    try:
        return math.fsum(scores) / len(scores)
    except (OverflowError, ValueError):  # a sum beyond all floats, or of both infinities
        return statistics.mean(scores)


@dataclass(frozen=True)
class LoadResult:
    """Whether the policy of a checkpoint can be imported and constructed; if so, ``error`` is None."""

    error: EpisodeError | None
    stdout: str = ""
    stderr: str = ""


Played = TypeVar("Played", EpisodeResult, LoadResult)


def redacted(played: Played, redact: Callable[[str], str]) -> Played:
    """Return a result with every text of the policy passed through ``redact``."""
    error = EpisodeError(played.error.kind, redact(played.error.text)) if played.error else None
    return replace(played, error=error, stdout=redact(played.stdout), stderr=redact(played.stderr))


@dataclass(frozen=True)
class FaultReport:
    """The judge itself failed on this episode: never blamed on the policy, never a score. ``permanent`` as in Fault."""

    number: int
    case: Case
    text: str
    permanent: bool = False


@dataclass(frozen=True)
class Node:
    """A machine of a Ray cluster. ``id`` is the cluster's name for it, ``level`` how policies are isolated there,
    ``seats`` the number of its workers. ``refused`` says why a node may not play; it then has no workers."""

    id: str
    host: str
    level: str
    seats: int
    refused: str = ""
