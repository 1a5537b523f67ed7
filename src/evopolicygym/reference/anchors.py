"""Stored anchors: returns of trivial policies on the held-out cases of one splits id."""

from __future__ import annotations

import math
import os
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import ValidationError, model_validator

from evopolicygym.errors import UserError
from evopolicygym.files import read_text_file
from evopolicygym.printable import one_line
from evopolicygym.record_checks import fingerprint_id
from evopolicygym.record_types import MAX_RETURN, Cases, RecordModel, Undeclared

VERSION: Final = 1
MAX_BYTES: Final = 16 << 20
MAX_SHOWN: Final = 200  # characters of a name in a message
NEEDED_FACTS: Final = frozenset({"task", "splits", "env", "horizon", "failure_return"})
FOLDER_VARIABLE: Final = "EVOPOLICYGYM_ANCHORS"


class Anchor(RecordModel):
    """Returns of one trivial policy: a list for each repeat, in the order of the cases. ``action``: of a constant."""

    returns: list[list[float]]
    action: int | list[float] | None = None

    def mean(self, cases: int) -> float:
        """Return the task score over the first ``cases`` cases of every repeat."""
        means = [math.fsum(repeat[:cases]) / cases for repeat in self.returns]
        return math.fsum(means) / len(means)


class TaskAnchors(RecordModel):
    """Anchors of one task. ``constant`` was selected on the first ``train_cases`` train cases. ``fingerprint``: what
    can change a score. ``expert``: a policy of the user, the upper end of a scale of its own; no trivial policy."""

    fingerprint: Undeclared
    heldout_cases: Cases
    train_cases: Cases
    random: Anchor
    zero: Anchor
    constant: Anchor
    starter: Anchor
    expert: Anchor | None = None

    @model_validator(mode="after")
    def _check_returns(self) -> Self:
        for name, anchor in {**self.trivial(), "expert": self.expert}.items():
            for repeat in anchor.returns if anchor else [[0.0] * self.heldout_cases]:
                if len(repeat) != self.heldout_cases or not all(abs(value) <= MAX_RETURN for value in repeat):
                    raise ValueError(f"{name} does not have {self.heldout_cases} returns within bounds in each repeat")
            if anchor and not anchor.returns:
                raise ValueError(f"{name} has no returns")
        return self

    def trivial(self) -> dict[str, Anchor]:
        return {"random": self.random, "zero": self.zero, "constant": self.constant, "starter": self.starter}

    def best_trivial(self, cases: int) -> float:
        """Return the highest score of a policy that takes no notice of what it sees."""
        return max(anchor.mean(cases) for anchor in (self.random, self.zero, self.constant))


class AnchorFile(RecordModel):
    """A file of anchors. ``command`` makes it again."""

    schema_version: Literal[1]
    command: str
    splits_id: str
    tasks: dict[str, TaskAnchors]


def load(path: Path) -> AnchorFile:
    """Read a file of anchors.

    Raises:
        UserError: The file cannot be read, or is not a file of anchors; or it does not say what its anchors were
            measured under, so that they would fit every run.
    """
    try:
        file = AnchorFile.model_validate_json(read_text_file(path, MAX_BYTES))
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror}", "Name a file that `evopolicygym task anchors` wrote."
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a file of anchors: it is not text: {error}") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = one_line(".".join(str(part) for part in first["loc"]))[:MAX_SHOWN] or "the file"
        raise UserError(
            f"{path} is not a file of anchors, version {VERSION}: {where}: {first['msg']}",
            "Delete it, and measure again: `evopolicygym task anchors TASK`.",
        ) from error
    for task, anchors in file.tasks.items():
        if missing := sorted(NEEDED_FACTS - set(anchors.fingerprint)):
            raise UserError(
                f"{path} does not say what the anchors of {one_line(task)[:MAX_SHOWN]} were measured under: "
                + ", ".join(missing),
                "Measure again: `evopolicygym task anchors TASK`.",
            )
    return file


def dump(anchors: AnchorFile) -> str:
    """Write anchors as JSON, one line for each task, so that a changed measurement is one line of a diff."""
    head = anchors.model_dump_json(exclude={"tasks"})[1:-1]
    tasks = ",\n".join(
        f'"{name}":{task.model_dump_json(exclude=None if task.expert else {"expert"})}'
        for name, task in anchors.tasks.items()
    )
    return f'{{{head},\n"tasks":{{\n{tasks}\n}}}}\n'


def own_anchors_folder() -> Path:
    """Return the folder of anchors that the user measured: beside the standard sealing key."""
    if name := os.environ.get(FOLDER_VARIABLE):
        return Path(name)
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "evopolicygym" / "anchors"


def own_anchors() -> list[AnchorFile]:
    """Return all anchors that the user measured, the newest first. Each file has those of one task under one
    fingerprint.

    Raises:
        UserError: A file in the folder is not a file of anchors.
    """
    paths = [path for path in own_anchors_folder().glob("*.json") if path.is_file()]
    return [load(path) for path in sorted(paths, key=lambda path: (-path.stat().st_mtime_ns, path.name))]


def own_anchors_path(task: str, fingerprint: dict[str, Any]) -> Path:
    """Return where the anchors of a task under one fingerprint are kept."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", task).strip("-")[-80:]
    return own_anchors_folder() / f"{name}-{fingerprint_id('a', fingerprint)}.json"


@cache
def stored_anchors() -> AnchorFile:
    """Return the anchors that ship with the package, on the paper's cases."""
    return AnchorFile.model_validate_json(
        (resources.files("evopolicygym.reference") / "anchors-paper.json").read_bytes()
    )
