"""Task: one environment with its contract text, spaces, horizon, failure return and limits."""

from __future__ import annotations

import hmac
import math
import re
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from evopolicygym.errors import UserError
from evopolicygym.limits import Limits
from evopolicygym.tasks.conditions import TaskView, Variant
from evopolicygym.tasks.shift import ShiftParameter

LARGEST_ROUNDED: Final = 1e300  # the next round number must be finite
GENERATED: Final = "novel/"  # ids of generated tasks begin so
ANONYMOUS: Final = ("task", "task", 1)  # env, task and env_version of a task whose name is not told
SHOWN_HORIZONS: Final = 3  # round numbers that the horizon of a disguised task is drawn from


@dataclass(frozen=True)
class FailureReturn:
    """The highest score of a failed episode, and why no way of playing on can score less."""

    value: float
    derivation: str

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"value must be a finite number, not {self.value}: it is averaged with other returns")


@dataclass(frozen=True)
class BriefText:
    """One sentence for each part of a task: the text that an agent of the paper could read."""

    objective: str
    observation: str
    action: str
    reward: str


@dataclass(frozen=True)
class SpaceEntry:
    """One row of the observation or action table; ``names`` covers several consecutive indices."""

    index: str
    unit: str
    range: str
    meaning: str
    name: str = ""
    names: tuple[str, ...] = ()
    key: str = ""

    def all_names(self) -> tuple[str, ...]:
        return self.names or (self.name,)


@dataclass(frozen=True)
class Task:
    """The facts of a task, from a task file or a Gymnasium id. ``simulator.make`` makes its environment. ``view`` is
    chosen by a run, not by the task file."""

    id: str
    env_id: str
    title: str
    family: str
    horizon: int
    observation_space: str
    action_space: str
    objective: str
    reward: str
    termination: str
    failure_return: FailureReturn
    version: int = 1
    demand: str = ""
    requires: tuple[str, ...] = ()
    env_options: dict[str, Any] = field(default_factory=dict)
    start: str = ""
    dynamics: str = ""
    observation_notes: str = ""
    action_notes: str = ""
    brief: BriefText | None = None
    observation: tuple[SpaceEntry, ...] = ()
    action: tuple[SpaceEntry, ...] = ()
    limits: Limits = field(default_factory=Limits)
    shift: tuple[ShiftParameter, ...] = ()
    disguise: dict[str, Literal["grid", "picture", "numbers"]] = field(default_factory=dict)
    view: TaskView = field(default_factory=TaskView)

    def __post_init__(self) -> None:
        if not 0 < self.horizon < 2**63:
            raise ValueError(f"horizon must be a number of steps from 1 to 2**63 - 1, not {self.horizon}")
        for module in self.requires:
            if not all(part.isidentifier() for part in module.split(".")):
                raise ValueError(f"requires must hold names of modules (got: {module!r})")
        if len({parameter.name for parameter in self.shift}) < len(self.shift):
            raise ValueError("every shift needs a name of its own")

    def env_meta(self) -> dict[str, Any]:
        """Return what a policy is given about its environment: the same in every split."""
        names = {"env": self.env_id, "task": self.id, "env_version": self.version}
        if self.view.is_blind:
            names = dict(zip(names, ANONYMOUS, strict=True))
        return {**names, "max_episode_steps": self.shown_horizon}

    @property
    def shown_horizon(self) -> int:
        """The horizon that an agent reads. For a disguised task it is one of the next round numbers above the true one,
        drawn by the key."""
        if self.view.variant is not Variant.DISGUISED:
            return self.horizon
        drawn = hmac.digest(self.view.key, f"shown horizon|{self.id}".encode(), "sha256")[0]
        return _round_above(self.horizon)[drawn % SHOWN_HORIZONS]

    @property
    def shown_failure_return(self) -> float:
        """The failure return at the scale of the returns that an agent sees: of a disguised task the next round number
        below it, since a power of two leaves its digits recognisable."""
        value = self.failure_return.value * self.view.reward_scale
        return value if self.view.variant is not Variant.DISGUISED else _round_below(value)

    def check_variant(self, variant: Variant) -> None:
        """Refuse a variant that this task does not have."""
        if variant is Variant.SHIFTED and not self.shift and self.id.startswith(GENERATED):
            raise UserError(
                f"{self.id}: a generated task has no shifted variant",
                "Its rules are drawn from your sealing key as they are; the Core16 tasks have a shifted variant.",
            )
        if variant is Variant.SHIFTED and not self.shift:
            raise UserError(
                f"{self.id} has no shifted variant: its task file has no table [[shift]]",
                "`evopolicygym docs shifted` shows how to write one; the Core16 tasks have it.",
            )

    def names(self) -> frozenset[str]:
        """Return the names that give this task away, in lower case: its own, its environment's in several spellings,
        its family and its packages."""
        environment = self.env_id.rpartition("/")[2].rpartition(":")[2].partition("-v")[0]
        own = (self.id.rpartition("/")[2], environment, re.sub(r"(?<=[a-z])(?=[A-Z])", "-", environment))
        spelled = (name.replace("-", between) for name in own for between in ("-", "_", " ", ""))
        return frozenset(name.lower() for name in (*spelled, self.id, self.env_id, self.family, *self.requires))

    def seen(self, view: TaskView) -> Task:
        """Return this task as a run shows and plays it."""
        self.check_variant(view.variant)
        return replace(self, view=view)

    def failed_score(self, return_so_far: float) -> float:
        """Return the score of a failed episode: crashing early never scores more than playing on."""
        return min(return_so_far, self.failure_return.value)


def _round_above(number: int) -> list[int]:
    """Return the next of 1, 2, 5, 10, 20, 50, ... above a number."""
    scale = int("1".ljust(len(str(number)), "0"))
    return [factor * scale for factor in (1, 2, 5, 10, 20, 50) if factor * scale > number][:SHOWN_HORIZONS]


def _round_below(number: float) -> float:
    """Return the next of 0, 1, 2, 5, 10, 20, 50, ... and their negatives that is not above a number."""
    if not 0.0 < abs(number) < LARGEST_ROUNDED:
        return number
    exponent = math.floor(math.log10(abs(number)))
    near = [float(f"{digit}e{exponent + shift}") for shift in (-1, 0, 1) for digit in (1, 2, 5)]
    return max(signed for value in near for signed in (value, -value) if signed <= number)
