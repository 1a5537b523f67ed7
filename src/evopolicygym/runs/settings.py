"""Settings of a run: what its config.toml holds, enough to start the same run again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Self, TypeVar

from pydantic import Field, ValidationError, field_validator

from evopolicygym import config
from evopolicygym.config import StrictModel
from evopolicygym.errors import UserError
from evopolicygym.execution.engine import PUBLISHABLE
from evopolicygym.files import read_file
from evopolicygym.judge.events import MAX_BUDGET
from evopolicygym.judge.judge import Videos
from evopolicygym.judge.protocol import MAX_EPISODES
from evopolicygym.run_paths import CONFIG
from evopolicygym.runs.agent.limits import AgentLimits
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.conditions import (
    UNSTATED,
    FeedbackLevel,
    OwnModels,
    TaskView,
    TextLevel,
    Variant,
    variant_key,
)
from evopolicygym.tasks.novel.generate import generated, is_novel
from evopolicygym.tasks.registry import find_task
from evopolicygym.tasks.sealing import load_key
from evopolicygym.tasks.splits import SIZES, PaperSplits, SealedSplits, Split, Splits
from evopolicygym.tasks.task import Task

Model = TypeVar("Model", bound=StrictModel)
MAX_BYTES: Final = 1 << 20
MAX_NAME: Final = 4096  # as of a path; an unknown name is compared with all known ones, to suggest one
SHOWN: Final = 200  # characters of a refused value in a message
MAX_ENTRANT_NAME: Final = 80
# Errors of pydantic about numbers that are out of range: where the limit is in their context, and words for it.
BOUNDS: Final = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "greater than"),
    "less_than_equal": ("le", "at most"),
}
CORES: Final = len(os.sched_getaffinity(0))
# Settings of an agent that can change what it does, beside its program, model and options.
BEHAVIOUR: Final = (
    *("turns", "hours", "tokens", "dollars", "requests", "patience_minutes", "retries", "silent_minutes"),
    *("network", "json_lines", "headers"),
)
# Settings that may change when a run is resumed.
MAY_DIFFER: Final = frozenset({"engine", "isolation", "jobs", "ray_address", "seal_key"})


class SettingsAltered(UserError):
    """The settings of a run are not those that it was opened with."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is not what the run was opened with: its hash is not the one in the ledger",
            "Nothing was started. Put the file back as it was; settings of a run that has begun cannot be changed.",
        )


class Seeds(StrEnum):
    """Source of the cases: the public list of the paper, or a sealing key."""

    PAPER = "paper"
    SEALED = "sealed"

    def splits(self, seal_key: Path | None = None, make_key: bool = True) -> Splits:
        """Return the splits. ``make_key`` is for new runs: an existing run was played with a key that exists."""
        if self is Seeds.PAPER and seal_key:
            raise UserError(
                f"the cases of the paper are public: the sealing key {seal_key} would not be used",
                "Leave the key out, or ask for sealed cases.",
            )
        return PaperSplits() if self is Seeds.PAPER else SealedSplits(load_key(seal_key, make_key))


class IsolationChoice(StrEnum):
    """Isolation that a user asks for: ``auto`` is the best of A and B."""

    AUTO = "auto"
    A = "A"
    B = "B"
    NONE = "none"

    def levels(self) -> tuple[Level, ...]:
        return PUBLISHABLE if self is IsolationChoice.AUTO else (Level(self.value),)


class EngineName(StrEnum):
    """Episodes on this machine, or on the nodes of a Ray cluster."""

    LOCAL = "local"
    RAY = "ray"

    def check_address(self, ray_address: str | None) -> None:
        """Raise UserError if a Ray cluster is named but not used."""
        if ray_address and self is not EngineName.RAY:
            raise UserError(
                f"--ray-address (ray_address=) {ray_address} needs Ray",
                "Add --engine ray (engine='ray'), or leave it out.",
            )


class ValidateWhen(StrEnum):
    """When hidden cases are played: after the agent has ended. Earlier versions could also play them while the agent
    was idle; their runs can still be read, and their remaining cases are played afterwards."""

    AFTER = "after"
    EAGER = "eager"

    def check_new(self) -> None:
        """Raise UserError for a new run that asks for eager validation."""
        if self is ValidateWhen.EAGER:
            raise UserError(
                "eager validation was removed: a live agent could notice the load of hidden cases, or read it from the "
                "kernel's counters",
                'Leave it out, or ask for "after": hidden cases are played once the agent is gone.',
            )


class AgentSettings(StrictModel):
    """Which agent plays, what it is given, and its limits beside the budget of episodes. ``variables`` are names: the
    values are secrets, which are in the agent's environment only. ``headers`` of calls to the model have the names of
    variables as their values, for the same reason. ``patience_minutes``: how long the gateway waits out passing errors
    of the provider in one call. ``replay``: the folder of a run whose recorded calls answer in place of the provider,
    ``replay_speed`` times as fast as they were (default: 1)."""

    name: str = Field(max_length=MAX_NAME)
    model: str | None = None
    base_url: str | None = None
    seed: int = 0
    options: dict[str, str] = {}
    command: list[str] = []
    gateway: bool = True
    ca_file: Path | None = None
    headers: dict[str, str] = {}
    variables: list[str] = []
    hosts: list[str] = []
    shown: list[Path] = []
    json_lines: bool = False
    isolation: Literal["auto", "A", "B", "none"] = "auto"
    network: NetworkAccess = NetworkAccess.ALLOWED
    turns: int | None = Field(default=None, ge=1)
    hours: float | None = Field(default=24.0, gt=0)
    tokens: int | None = Field(default=None, ge=1)
    dollars: float | None = Field(default=None, gt=0)
    requests: int | None = Field(default=None, ge=1)
    patience_minutes: float = Field(default=10.0, ge=0)
    retries: int = Field(default=8, ge=0)
    silent_minutes: float | None = Field(default=60.0, gt=0)
    prices: Path | None = None
    replay: Path | None = None
    replay_speed: float | None = Field(default=None, gt=0, le=1e9)

    @classmethod
    def make(cls, called: Mapping[str, str], /, **values: Any) -> Self:
        """Return settings from what a user gave. ``called`` are the user's names of settings, for messages."""
        return _validated(cls, values, called)

    def behaviour(self) -> dict[str, Any]:
        """Return the settings beside program, model and options that can change what the agent does, where they differ
        from the default: they make another entrant. A limit that was removed is "none"."""
        values = self.model_dump(mode="json", include=set(BEHAVIOUR))
        return {
            name: "none" if value is None else value
            for name, value in values.items()
            if getattr(self, name) != type(self).model_fields[name].default
        }

    @property
    def levels(self) -> tuple[AgentLevel, ...]:
        return (AgentLevel.A, AgentLevel.B) if self.isolation == "auto" else (AgentLevel(self.isolation),)

    @property
    def limits(self) -> AgentLimits:
        names = ("turns", "hours", "tokens", "dollars", "requests", "retries", "silent_minutes")
        return AgentLimits(**{name: getattr(self, name) for name in names})


class RunSettings(StrictModel):
    """Settings with every default written out. A run without an agent is served, and played by a person. ``name`` is
    the name of the entrant in tables and figures; it changes no id. Without it, the entrant is named after the agent
    and its model."""

    name: str | None = Field(None, max_length=MAX_ENTRANT_NAME)
    task: str = Field(max_length=MAX_NAME)
    seeds: Seeds = Seeds.SEALED
    seal_key: Path | None = None
    budget: int = Field(MAX_EPISODES, ge=1, le=MAX_BUDGET)
    validation_cases: int = Field(16, ge=1, le=SIZES[Split.VALIDATION])
    heldout_cases: int = Field(32, ge=1, le=SIZES[Split.HELDOUT])
    validate_when: ValidateWhen = ValidateWhen.AFTER
    video: Videos = Videos.NONE
    stock: bool = False
    max_candidates: int | None = Field(None, ge=1)
    text: TextLevel = TextLevel.BRIEF
    variant: Variant = Variant.PLAIN
    own_models: OwnModels = OwnModels.ALLOWED
    feedback: FeedbackLevel = FeedbackLevel.TRAJECTORY
    isolation: IsolationChoice = IsolationChoice.AUTO
    jobs: int = Field(CORES, ge=1)
    engine: EngineName = EngineName.LOCAL
    ray_address: str | None = None
    agent: AgentSettings | None = None

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str | None) -> str | None:
        """Refuse names that would not read the same in a table, a file name and `--label OLD=NEW`."""
        if value is not None and (not value.strip() or value != value.strip() or not value.isprintable()):
            raise ValueError("a name has visible characters, and no spaces around them")
        if value and "=" in value:
            raise ValueError("a name has no =")
        return value

    @classmethod
    def make(cls, **values: Any) -> Self:
        """Return settings from what a user gave; None takes the default. A disguised task has the blind text."""
        given = {name: value for name, value in values.items() if value is not None}
        if given.get("variant") == Variant.DISGUISED:
            given.setdefault("text", TextLevel.BLIND)
        settings = _validated(cls, given)
        settings._check_text()
        return settings

    @property
    def is_blind(self) -> bool:
        return self.text is TextLevel.BLIND

    def _check_text(self) -> None:
        if self.is_blind and self.feedback is FeedbackLevel.VIDEO:
            raise UserError(
                "a video would show what the blind text hides",
                "Choose feedback trajectory (--video records videos for you alone), or another text.",
            )
        if self.variant is Variant.DISGUISED and self.text is not TextLevel.BLIND:
            raise UserError(
                f"a disguised task has no text {self.text}: it would reveal what the disguise hides",
                "Leave the text out, or choose blind.",
            )

    @property
    def videos(self) -> Videos:
        """The train episodes that are recorded as video: all of them at feedback level video."""
        return Videos.ALL if self.feedback is FeedbackLevel.VIDEO else self.video

    @classmethod
    def read(cls, root: Path, digest: str = "") -> Self:
        """Read the settings of a run's folder. ``digest`` is the hash of config.toml in its ledger, empty if
        unknown."""
        path = root / CONFIG
        try:
            data = read_file(root, CONFIG, MAX_BYTES)
            if digest and hashlib.sha256(data).hexdigest() != digest:
                raise SettingsAltered(path)
            values = config.parse_toml(data.decode())
        except OSError as error:
            raise UserError(f"cannot read the settings of the run in {path}: {error.strerror}") from error
        except ValueError as error:  # not text, not TOML, or a number with too many digits
            raise UserError(f"cannot read the settings of the run in {path}: {str(error)[:SHOWN]}") from error
        return cls.make(**UNSTATED | values)

    def splits(self, make_key: bool = True) -> Splits:
        is_drawn = self.variant is not Variant.PLAIN or is_novel(self.task)  # from the key, even on public cases
        return self.seeds.splits(None if is_drawn and self.seeds is Seeds.PAPER else self.seal_key, make_key)

    def played_task(self, make_key: bool = True, recorded: Mapping[str, Any] | None = None) -> Task:
        """Return the task as it is shown and played under these settings. ``recorded`` is the fingerprint of an
        existing run: its generated task is not drawn anew."""
        return self.seen(find_task(self.task), make_key, recorded)

    def seen(self, task: Task, make_key: bool = True, recorded: Mapping[str, Any] | None = None) -> Task:
        """Return a task as it is shown and played under these settings."""
        task.check_variant(self.variant)
        key = b""
        if self.variant is not Variant.PLAIN:
            key = variant_key(load_key(self.seal_key, make_key), task.id, self.variant)
        played = task.seen(TaskView(self.text, self.variant, key))
        if not is_novel(task.id):
            return played
        draw = None if recorded is None else recorded.get("env_options") or {}
        return generated(played, load_key(self.seal_key, make_key), draw)

    def conditions(self) -> dict[str, str]:
        """Return text, own models and feedback where they differ from the only values that early runs could have. The
        variant is not among them: it is a fact of the task that is played."""
        names = ("text", "own_models", "feedback")
        return {name: value for name in names if (value := getattr(self, name)) != UNSTATED[name]}

    def toml(self) -> str:
        values = self.model_dump(mode="json", exclude_none=True)
        return config.to_toml(values, "The settings of this run, resolved. Written once.")

    def differences(self, other: RunSettings) -> list[str]:
        """Return in words how settings differ, apart from those that may change when a run is resumed."""
        if self.agent is None and other.agent is not None:
            return [f"agent is none there (it was opened to be served), {other.agent.name} here"]
        both = (self, other)
        own, others = (flatten(settings.model_dump(mode="json", exclude=set(MAY_DIFFER))) for settings in both)
        return [
            f"{name} is {own.get(name)!r} there, {others.get(name)!r} here"
            for name in {**own, **others}
            if own.get(name) != others.get(name)
        ]


def _validated(kind: type[Model], values: Mapping[str, Any], called: Mapping[str, str] = MappingProxyType({})) -> Model:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        value = _shown(first["input"])
        given = "" if first["type"] == "missing" else f", not {value}"
        name = ".".join(map(str, first["loc"]))
        shown = called.get(name, name)
        if bound := BOUNDS.get(first["type"]):
            limit = first["ctx"][bound[0]]
            raise UserError(f"{shown} must be {bound[1]} {limit:.15g} (got: {value})") from error
        raise UserError(f"{shown}: {first['msg'].removeprefix('Value error, ')}{given}") from error


def _shown(value: Any) -> str:
    """Return a refused value for a message."""
    try:
        return repr(value)[:SHOWN]
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "a number of more than 4,300 digits"


def flatten(values: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Return the values of nested tables by dotted names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= flatten(value, f"{within}{name}.") if isinstance(value, dict) else {f"{within}{name}": value}
    return flat
