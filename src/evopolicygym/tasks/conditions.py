"""Conditions of a run beside its budget: what the agent reads, may do and gets back, and which variant it plays. Each
is a setting of a run, and part of its comparable_id."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class TextLevel(StrEnum):
    """How much an agent reads about its task: about as much as in the paper, all we know, or the spaces alone."""

    BRIEF = "brief"
    FULL = "full"
    BLIND = "blind"


class Variant(StrEnum):
    """Which version of a task is played: the plain one, the plain one behind an invertible transformation, or one with
    changed rules."""

    PLAIN = "plain"
    DISGUISED = "disguised"
    SHIFTED = "shifted"


class OwnModels(StrEnum):
    """Whether an agent may use a model of the task that it wrote itself, in the policy or offline."""

    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"


class FeedbackLevel(StrEnum):
    """How much an agent gets back for a submission; each level includes the ones before it."""

    SCORE = "score"
    SUMMARY = "summary"
    TRAJECTORY = "trajectory"
    VIDEO = "video"


# Conditions of runs from before there was a choice. They are left out of comparable_id, so that such runs keep theirs.
UNSTATED = {
    "text": TextLevel.FULL,
    "variant": Variant.PLAIN,
    "own_models": OwnModels.ALLOWED,
    "feedback": FeedbackLevel.TRAJECTORY,
}


# Shown to an agent at the blind text in place of an error of the judge.
ERROR_WITHHELD: Final = "its text is in the judge's log, since it may name the task"
REWARD_SCALES: Final = (0.25, 0.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # their number divides 256


@dataclass(frozen=True)
class TaskView:
    """How a task is shown to agent and policy, and which variant of it is played. ``key`` is the secret that a variant
    is drawn from; the plain one needs none. ``world_key`` is the secret of a generated task."""

    text: TextLevel = TextLevel.BRIEF
    variant: Variant = Variant.PLAIN
    key: bytes = field(default=b"", repr=False)
    world_key: bytes = field(default=b"", repr=False)

    @property
    def is_blind(self) -> bool:
        return self.text is TextLevel.BLIND

    @property
    def reward_scale(self) -> float:
        """Return the factor of the rewards and returns that an agent sees. It is a power of two: nothing is rounded."""
        if self.variant is not Variant.DISGUISED:
            return 1.0
        return REWARD_SCALES[hmac.digest(self.key, b"reward scale", "sha256")[0] % len(REWARD_SCALES)]

    def world_id(self) -> str:
        """Return the hash that names the key of a generated task; empty if it is not generated."""
        return hashlib.sha256(b"evopolicygym world key|" + self.world_key).hexdigest() if self.world_key else ""

    @property
    def shows_info(self) -> bool:
        """Whether recordings hold the environment's ``info``: its names and numbers tell what a blind text hides."""
        return not self.is_blind and self.variant is not Variant.DISGUISED

    def key_id(self) -> str:
        """Return the hash that names the key without revealing it."""
        return hashlib.sha256(b"evopolicygym variant key|" + self.key).hexdigest()


def variant_key(sealing_key: bytes, task: str, variant: Variant) -> bytes:
    """Return the key of a variant of a task: the same for all cases and runs under one sealing key."""
    return hmac.new(sealing_key, f"evopolicygym variant|{task}|{variant}".encode(), hashlib.sha256).digest()
