"""The settings of a run: what config.toml holds, enough to start the same run again."""

from __future__ import annotations

import json
import os
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evopolicygym.errors import UserError
from evopolicygym.judge.judge import Videos
from evopolicygym.judge.requests import MAX_EPISODES
from evopolicygym.rollout.engine import PUBLISHABLE
from evopolicygym.sandbox.jail import Level
from evopolicygym.tasks.sealing import load_key
from evopolicygym.tasks.splits import SIZES, PaperSplits, SealedSplits, Split, Splits

CORES: Final = len(os.sched_getaffinity(0))
MAY_DIFFER: Final = frozenset({"jobs", "isolation", "seal_key"})  # between one owner of a run and the next


class Seeds(StrEnum):
    PAPER = "paper"
    SEALED = "sealed"

    def splits(self, seal_key: Path | None = None) -> Splits:
        return PaperSplits() if self is Seeds.PAPER else SealedSplits(load_key(seal_key))


class Isolation(StrEnum):
    AUTO = "auto"
    A = "A"
    B = "B"
    NONE = "none"

    def levels(self) -> tuple[Level, ...]:
        return PUBLISHABLE if self is Isolation.AUTO else (Level(self.value),)


class ValidateWhen(StrEnum):
    """Once the agent is gone; or eagerly, in idle time, which lets the agent feel the load: a side channel."""

    AFTER = "after"
    EAGER = "eager"


class Settings(BaseModel):
    """Resolved: every default is written out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    seeds: Seeds = Seeds.SEALED
    seal_key: Path | None = None
    budget: int = Field(MAX_EPISODES, ge=1, le=100_000)
    validation_cases: int = Field(16, ge=1, le=SIZES[Split.VALIDATION])
    heldout_cases: int = Field(32, ge=1, le=SIZES[Split.HELDOUT])
    validate_when: ValidateWhen = ValidateWhen.AFTER
    video: Videos = Videos.NONE
    stock: bool = False
    isolation: Isolation = Isolation.AUTO
    jobs: int = Field(CORES, ge=1)

    @classmethod
    def make(cls, **values: Any) -> Self:
        """From what a person gave; what is None takes its default."""
        try:
            return cls.model_validate({name: value for name, value in values.items() if value is not None})
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            return cls.make(**tomllib.loads(path.read_text()))
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read the settings of the run in {path}: {error}") from error

    def toml(self) -> str:
        values = self.model_dump(mode="json", exclude_none=True)
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in values.items()]
        return "# The settings of this run, resolved. Written once.\n" + "".join(lines)

    def differences(self, other: Settings) -> list[str]:
        """In words; settings that may differ between owners of one run are none."""
        mine, theirs = self.model_dump(mode="json"), other.model_dump(mode="json")
        return [
            f"{name} is {mine[name]!r} there, {theirs[name]!r} here"
            for name in mine
            if name not in MAY_DIFFER and mine[name] != theirs[name]
        ]
