"""The settings of a run: what config.toml holds, enough to start the same run again."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Self, TypeVar

from pydantic import Field, ValidationError

from evopolicygym import config
from evopolicygym.config import StrictModel
from evopolicygym.errors import UserError
from evopolicygym.execution.engine import PUBLISHABLE
from evopolicygym.files import read_file
from evopolicygym.judge.events import MAX_BUDGET
from evopolicygym.judge.judge import Videos
from evopolicygym.judge.protocol import MAX_EPISODES
from evopolicygym.runs.agent_limits import AgentLimits
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.tasks.sealing import load_key
from evopolicygym.tasks.splits import SIZES, PaperSplits, SealedSplits, Split, Splits

Model = TypeVar("Model", bound=StrictModel)
CONFIG: Final = "config.toml"
MAX_BYTES: Final = 1 << 20
MAX_NAME: Final = 4096  # as of a path; a name is compared with all that there are, to say which was meant
SHOWN: Final = 200  # characters of a value that is refused
CORES: Final = len(os.sched_getaffinity(0))
# Between one owner of a run and the next.
MAY_DIFFER: Final = frozenset({"engine", "isolation", "jobs", "ray_address", "seal_key"})


class SettingsAltered(UserError):
    """The settings of a run are not those that it was opened with."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is not what the run was opened with: its hash is not the one in the ledger",
            "Nothing was started. Put the file back as it was; settings of a run that has begun cannot be changed.",
        )


class Seeds(StrEnum):
    PAPER = "paper"
    SEALED = "sealed"

    def splits(self, seal_key: Path | None = None, make_key: bool = True) -> Splits:
        """``make_key`` is for new runs: one that exists has been played with a key that exists."""
        if self is Seeds.PAPER and seal_key:
            raise UserError(
                f"the cases of the paper are public: the sealing key {seal_key} would not be used",
                "Leave the key out, or ask for sealed cases.",
            )
        return PaperSplits() if self is Seeds.PAPER else SealedSplits(load_key(seal_key, make_key))


class IsolationChoice(StrEnum):
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
        """Whoever names a cluster means to play on it."""
        if ray_address and self is not EngineName.RAY:
            raise UserError(f"--ray-address {ray_address} needs Ray", "Add --engine ray, or leave it out.")


class ValidateWhen(StrEnum):
    """Once the agent is gone. Earlier versions could validate eagerly, in idle time: their runs still read, and what is
    left of them is played afterwards."""

    AFTER = "after"
    EAGER = "eager"

    def check_new(self) -> None:
        """Of a run that is to be opened."""
        if self is ValidateWhen.EAGER:
            raise UserError(
                "eager validation was removed: a live agent could feel the load of hidden cases, or read it from what "
                "the kernel counts",
                'Leave it out, or ask for "after": hidden cases are played once the agent is gone.',
            )


class AgentSettings(StrictModel):
    """Who plays, what it is given, and what it may use up beside the budget of episodes. ``variables`` are names: their
    values are secrets, and nowhere but in the agent's environment."""

    name: str = Field(max_length=MAX_NAME)
    model: str | None = None
    base_url: str | None = None
    seed: int = 0
    options: dict[str, str] = {}
    command: list[str] = []
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
    retries: int = Field(default=8, ge=0)
    silent_minutes: float | None = Field(default=60.0, gt=0)
    prices: Path | None = None

    @classmethod
    def make(cls, called: Mapping[str, str], /, **values: Any) -> Self:
        """From what a person gave, who knows some of it by other names."""
        return _made(cls, values, called)

    @property
    def levels(self) -> tuple[AgentLevel, ...]:
        return (AgentLevel.A, AgentLevel.B) if self.isolation == "auto" else (AgentLevel(self.isolation),)

    @property
    def limits(self) -> AgentLimits:
        return AgentLimits(self.turns, self.hours, self.tokens, self.dollars, self.retries, self.silent_minutes)


class RunSettings(StrictModel):
    """Resolved: every default is written out. Without an agent a run is served, and played by whoever comes."""

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
    isolation: IsolationChoice = IsolationChoice.AUTO
    jobs: int = Field(CORES, ge=1)
    engine: EngineName = EngineName.LOCAL
    ray_address: str | None = None
    agent: AgentSettings | None = None

    @classmethod
    def make(cls, **values: Any) -> Self:
        """From what a person gave; what is None takes its default."""
        return _made(cls, {name: value for name, value in values.items() if value is not None})

    @classmethod
    def read(cls, root: Path, digest: str = "") -> Self:
        """From the folder of a run. ``digest`` is what its ledger says of config.toml; empty: nothing."""
        path = root / CONFIG
        try:
            data = read_file(root, CONFIG, MAX_BYTES)
            values = tomllib.loads(data.decode())
        except OSError as error:
            raise UserError(f"cannot read the settings of the run in {path}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:  # no text, no TOML, or a number of too many digits
            raise UserError(f"cannot read the settings of the run in {path}: {str(error)[:SHOWN]}") from error
        if digest and hashlib.sha256(data).hexdigest() != digest:
            raise SettingsAltered(path)
        return cls.make(**values)

    def splits(self, make_key: bool = True) -> Splits:
        return self.seeds.splits(self.seal_key, make_key)

    def toml(self) -> str:
        values = self.model_dump(mode="json", exclude_none=True)
        return config.to_toml(values, "The settings of this run, resolved. Written once.")

    def differences(self, other: RunSettings) -> list[str]:
        """In words; settings that may differ between owners of one run are none."""
        mine, theirs = (flatten(one.model_dump(mode="json", exclude=set(MAY_DIFFER))) for one in (self, other))
        return [
            f"{name} is {mine.get(name)!r} there, {theirs.get(name)!r} here"
            for name in {**mine, **theirs}
            if mine.get(name) != theirs.get(name)
        ]


def _made(kind: type[Model], values: Mapping[str, Any], called: Mapping[str, str] = MappingProxyType({})) -> Model:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        given = "" if first["type"] == "missing" else f", not {first['input']!r:.{SHOWN}}"
        name = ".".join(map(str, first["loc"]))
        raise UserError(f"{called.get(name, name)}: {first['msg']}{given}") from error


def flatten(values: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    """Nested tables by dotted names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flatten(value, f"{within}{name}.") if isinstance(value, dict) else {f"{within}{name}": value}
    return found
