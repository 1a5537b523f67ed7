"""run.json: one run as others read it. Derived from the ledger; published as docs/schemas/run-1.json.

Numbers that readers compute with are stored in full: JSON floats read back to the same bits.
"""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from evopolicygym.errors import UserError

VERSION: Final = 1


class Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="null")


class Status(StrEnum):
    """``open``: submits are taken. ``closed``: no more, hidden scoring is not done. ``finished``: it has an outcome."""

    OPEN = "open"
    CLOSED = "closed"
    FINISHED = "finished"


class OutcomeKind(StrEnum):
    """``scored``: a checkpoint was selected and measured. ``no_ok_submit``: there was none to select. ``judge_fault``:
    the judge failed on every submission, too often, or in a way that does not pass, and the run is to be done again;
    what there was is scored all the same."""

    SCORED = "scored"
    NO_OK_SUBMIT = "no_ok_submit"
    JUDGE_FAULT = "judge_fault"


class Repeat(StrEnum):
    """Whether the winner gave the same held-out returns when it was run a second time."""

    EQUAL = "equal"
    NONDETERMINISTIC = "nondeterministic"


class TaskFacts(Facts):
    id: str
    env_id: str
    version: int
    title: str
    family: str
    demand: str
    horizon: int
    failure_return: float


class Ids(Facts):
    """``machine``: CPU features, libc and Python behind the bit_id. ``other_bit_ids``: of other kinds of machines on
    which the run was taken up again."""

    splits_id: str
    comparable_id: str
    bit_id: str
    fingerprint: dict[str, Any]
    machine: dict[str, Any] = {}
    other_bit_ids: list[str] = []


class Options(Facts):
    """What the run was opened with, beyond task and splits. ``max_candidates``: of so many distinct checkpoints, the
    last that were submitted, validation chose; null: of all."""

    validation_cases: int
    heldout_cases: int
    validate_when: Literal["after", "eager"]
    video: Literal["none", "first", "all"]
    stock: bool
    max_candidates: int | None = None


class Agent(Facts):
    """Who played. A run served by hand knows none of it."""

    name: str
    model: str | None = None
    version: str | None = None
    seed: int | None = None
    settings: dict[str, Any] = {}


class Node(Facts):
    """A machine of a cluster. ``refused`` says why it got no work; it has no level then."""

    id: str
    host: str
    level: str
    seats: int
    refused: str


class Isolation(Facts):
    """Levels achieved. ``publishable`` is false as soon as one of them is none. ``agent_residues`` and
    ``policy_residues``: what the levels do not stop, in words. ``nodes``: where policies played, and where they might
    not; empty where a machine was alone."""

    policy: str
    nodes: list[Node] = []
    agent: str
    agent_network: str
    agent_residues: list[str] = []
    policy_residues: list[str] = []
    publishable: bool


class Budget(Facts):
    """``total`` = ``charged`` + ``remaining``, at any time. ``refused``: requests that cost nothing, by reason."""

    total: int
    charged: int
    remaining: int
    refunds: int
    refused: dict[str, int]


class Result(Facts):
    """Episodes of one checkpoint on one list of cases, in the order of the cases. A failed one has its error kind."""

    returns: list[float]
    lengths: list[int]
    errors: list[str | None]
    mean: float
    std: float


class Submission(Facts):
    """One accepted submit. ``verdict`` is null while it runs, and for ever when the judge failed and refunded it."""

    number: int
    checkpoint: str
    cases: list[int]
    charged: int
    charged_at: datetime
    judged_at: datetime | None
    verdict: str | None
    refunded: bool
    train: Result | None
    clipped_actions: int
    wall_s: float | None


class Turn(Facts):
    """The agent was prompted once. ``submissions`` counts those accepted until its end; ``usage`` is of this turn
    alone, null where nobody metered it; ``model`` served it, by the client's word; ``price`` says where its cost comes
    from; ``message`` what failed, in the words of the client."""

    exit_code: int | None
    wall_s: float
    submissions: int
    failure: str | None
    stop: bool
    model: str | None
    usage: dict[str, Any] | None
    price: dict[str, Any] | None
    message: str | None = None


class Sign(Facts):
    kind: str
    count: int
    where: str
    example: str


class Integrity(Facts):
    """Signs that a reader should look at, by fixed patterns over transcript and workspace; and what nobody checked.
    ``renamed``: what the agent left that a program could run by itself, such as `.git`, made inert. ``error``: why this
    could not be done, or not to the end."""

    signs: list[Sign]
    not_checked: list[str]
    renamed: list[str] = []
    error: str | None = None


class Code(Facts):
    """What the policy's source looks like; docs/diagnostics.md has the rules. ``bundle`` is policy.py and the local
    files that it reaches by import, ``bundle_hash`` the hash of their paths and bytes. ``tree`` is the hash of their
    syntax trees, ``topology`` the same without numeric constants; both are null when the source could not be read at
    all, and ``error`` says what could not be parsed and why. ``unresolved`` names imports that are known only when they
    run. ``lines`` are not blank; the counts that follow are of the files that parse."""

    bundle: list[str]
    bundle_hash: str
    tree: str | None
    topology: str | None
    unresolved: list[str]
    error: str | None
    lines: int
    functions: int
    branches: int
    loops: int
    depth: int
    state: int


class Checkpoint(Facts):
    """``heldout`` is there for the winner and, after ``score --all-checkpoints``, for all: it never selects."""

    hash: str
    files: int
    bytes: int
    code: Code | None
    validation: Result | None
    heldout: Result | None


class Outcome(Facts):
    """``submission`` and what follows are null when there was nothing to select. ``cause``: of a ``judge_fault``, in
    the judge's words."""

    kind: OutcomeKind
    submission: int | None
    checkpoint: str | None
    validation_mean: float | None
    heldout: Result | None
    repeat: Repeat | None
    stopped_early: bool
    budget_left: int
    cause: str | None = None


class Times(Facts):
    opened: datetime
    closed: datetime | None
    finished: datetime | None
    closed_because: str | None
    train_s: float
    hidden_s: float


class Run(Facts):
    """One agent on one task under one budget. ``randomness_salt``: the secret from which the randomness of its policies
    follows; null while the run is open, and for runs from before there was one."""

    schema_version: Literal[1]
    evopolicygym: str
    id: str
    status: Status
    task: TaskFacts
    ids: Ids
    options: Options
    agent: Agent | None
    isolation: Isolation
    implementation: str
    budget: Budget
    submissions: list[Submission]
    checkpoints: list[Checkpoint]
    outcome: Outcome | None
    times: Times
    integrity: Integrity | None = None
    randomness_salt: str | None = None
    turns: list[Turn] = []
    usage: dict[str, Any] | None
    ledger_head: str


def schema() -> dict[str, Any]:
    """The published JSON Schema."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Run.model_json_schema()}


def load(path: Path) -> Run:
    """From a run folder or its run.json."""
    file = path / "run.json" if path.is_dir() else path
    try:
        return Run.model_validate_json(file.read_bytes())
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}", "Name the folder of a run.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UserError(f"{file} is not a run record of version {VERSION}: {where}: {first['msg']}") from error


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
