"""run.json: one run as others read it. Derived from the ledger; published as docs/schemas/run-1.json.

Numbers that readers compute with are stored in full: JSON floats read back to the same bits.
"""

from __future__ import annotations

import json
import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from evopolicygym.errors import UserError
from evopolicygym.files import read_file
from evopolicygym.json_schema import publish

VERSION: Final = 1
NAME: Final = "run.json"
MAX_BYTES: Final = 64 << 20
MAX_DEPTH: Final = 16  # of tables whose keys are not known here
LARGEST: Final = 2**63


def _bounded(value: Any, depth: int = 0) -> Any:
    """Check what nobody has declared: numbers that can be computed with, and no deeper than a person would nest."""
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    is_bounded = not isinstance(value, int) or -LARGEST <= value < LARGEST
    if not is_bounded or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError("a number beyond all bounds")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _bounded(inner, depth + 1)
    return value


# Records come from elsewhere, too: what names a folder or counts something is checked when it is read.
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, lt=2**53)]
Whole = Annotated[int, Field(ge=-LARGEST, lt=LARGEST)]
SubmissionNumber = Annotated[int, Field(ge=1, le=1_000_000)]
Cases = Annotated[int, Field(ge=0, le=100_000)]
Undeclared = Annotated[dict[str, Any], AfterValidator(_bounded)]


class RecordModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="null")


class RunStatus(StrEnum):
    """``open``: submits are taken. ``closed``: no more, hidden scoring is not done. ``finished``: it has an outcome."""

    OPEN = "open"
    CLOSED = "closed"
    FINISHED = "finished"


class OutcomeKind(StrEnum):
    """``scored``: a checkpoint was selected and measured, whether or not the judge failed later. ``no_ok_submit``:
    there was none to select. ``judge_fault``: there was none, and the judge failed on every submission, too often, or
    in a way that does not pass: the run is to be done again."""

    SCORED = "scored"
    NO_OK_SUBMIT = "no_ok_submit"
    JUDGE_FAULT = "judge_fault"


class Repeat(StrEnum):
    """Whether the winner gave the same held-out returns when it was run a second time."""

    EQUAL = "equal"
    NONDETERMINISTIC = "nondeterministic"


class TaskFacts(RecordModel):
    id: str
    env_id: str
    version: Whole
    title: str
    family: str
    demand: str
    horizon: Count
    failure_return: float


class RunIds(RecordModel):
    """``machine``: CPU features, libc and Python behind the bit_id. ``other_bit_ids``: of other kinds of machines on
    which the run was taken up again."""

    splits_id: str
    comparable_id: str
    bit_id: str
    fingerprint: Undeclared
    machine: Undeclared = {}
    other_bit_ids: list[str] = []


class Options(RecordModel):
    """What the run was opened with, beyond task and splits. ``max_candidates``: of so many distinct checkpoints, the
    last that were submitted, validation chose; null: of all."""

    validation_cases: Cases
    heldout_cases: Cases
    validate_when: Literal["after", "eager"]
    video: Literal["none", "first", "all"]
    stock: bool
    max_candidates: int | None = None


class Agent(RecordModel):
    """Who played. A run served by hand knows none of it."""

    name: str
    model: str | None = None
    version: str | None = None
    seed: Whole | None = None
    settings: Undeclared = {}


class NodeRecord(RecordModel):
    """A machine of a cluster. ``refused`` says why it got no work; it has no level then."""

    id: str
    host: str
    level: str
    seats: Count
    refused: str


class IsolationRecord(RecordModel):
    """Levels achieved. ``publishable`` is false as soon as one of them is none. ``agent_residues`` and
    ``policy_residues``: what the levels do not stop, in words. ``nodes``: where policies played, and where they might
    not; empty where a machine was alone."""

    policy: str
    nodes: list[NodeRecord] = []
    agent: str
    agent_network: str
    agent_residues: list[str] = []
    policy_residues: list[str] = []
    publishable: bool


class Budget(RecordModel):
    """``total`` = ``charged`` + ``remaining``, at any time. ``refused``: requests that cost nothing, by reason."""

    total: Count
    charged: Count
    remaining: Whole
    refunds: Count
    refused: dict[str, Count]


class Result(RecordModel):
    """Episodes of one checkpoint on one list of cases, in the order of the cases. A failed one has its error kind."""

    returns: list[float]
    lengths: list[Count]
    errors: list[str | None]
    mean: float
    std: float


class SubmissionRecord(RecordModel):
    """One accepted submit. ``verdict`` is null while it runs, and for ever when the judge failed and refunded it."""

    number: SubmissionNumber
    checkpoint: Hash
    cases: list[Count]
    charged: Count
    charged_at: AwareDatetime
    judged_at: AwareDatetime | None
    verdict: str | None
    refunded: bool
    train: Result | None
    clipped_actions: Count
    wall_s: float | None


class TurnRecord(RecordModel):
    """The agent was prompted once. ``submissions`` counts those accepted until its end; ``usage`` is of this turn
    alone, null where nobody metered it; ``model`` served it, by the client's word; ``price`` says where its cost comes
    from; ``message`` what failed, in the words of the client."""

    exit_code: Whole | None
    wall_s: float
    submissions: Count
    failure: str | None
    stop: bool
    model: str | None
    usage: Undeclared | None
    price: Undeclared | None
    message: str | None = None


class Sign(RecordModel):
    kind: str
    count: Count
    where: str
    example: str


class Integrity(RecordModel):
    """Signs that a reader should look at, by fixed patterns over transcript and workspace; and what nobody checked.
    ``renamed``: what the agent left that a program could run by itself, such as `.git`, made inert. ``error``: why this
    could not be done, or not to the end."""

    signs: list[Sign]
    not_checked: list[str]
    renamed: list[str] = []
    error: str | None = None


class Code(RecordModel):
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
    lines: Count
    functions: Count
    branches: Count
    loops: Count
    depth: Count
    state: Count


class CheckpointRecord(RecordModel):
    """``heldout`` is there for the winner and, after ``score --all-checkpoints``, for all: it never selects."""

    hash: Hash
    files: Count
    bytes: Count
    code: Code | None
    validation: Result | None
    heldout: Result | None


class Outcome(RecordModel):
    """``submission`` and what follows are null when there was nothing to select. ``cause``: why the
    judge failed, where that ended the run, in its own words; also of a run that is ``scored``."""

    kind: OutcomeKind
    submission: SubmissionNumber | None
    checkpoint: Hash | None
    validation_mean: float | None
    heldout: Result | None
    repeat: Repeat | None
    stopped_early: bool
    budget_left: Whole
    cause: str | None = None


class Times(RecordModel):
    opened: AwareDatetime
    closed: AwareDatetime | None
    finished: AwareDatetime | None
    closed_because: str | None
    train_s: float
    hidden_s: float


class RunRecord(RecordModel):
    """One agent on one task under one budget. ``randomness_salt``: the secret from which the randomness of its policies
    follows; null while the run is open, and for runs from before there was one."""

    schema_version: Literal[1]
    evopolicygym: str
    id: str
    status: RunStatus
    task: TaskFacts
    ids: RunIds
    options: Options
    agent: Agent | None
    isolation: IsolationRecord
    implementation: str
    budget: Budget
    submissions: list[SubmissionRecord]
    checkpoints: list[CheckpointRecord]
    outcome: Outcome | None
    times: Times
    integrity: Integrity | None = None
    randomness_salt: str | None = None
    turns: list[TurnRecord] = []
    usage: Undeclared | None
    ledger_head: Hash


# Under which names they are in the published schema: a class may get another name, its schema does not.
NAMES: Final[dict[type, str]] = {
    RunRecord: "Run",
    CheckpointRecord: "Checkpoint",
    RunIds: "Ids",
    IsolationRecord: "Isolation",
    NodeRecord: "Node",
    RunStatus: "Status",
    SubmissionRecord: "Submission",
    TurnRecord: "Turn",
}


def schema() -> dict[str, Any]:
    """The published JSON Schema."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **publish(RunRecord.model_json_schema(), NAMES)}


def load(path: Path) -> RunRecord:
    """Read a run folder's record, or the record itself. Raises UserError where it is none, or contradicts itself."""
    root, name = (path, NAME) if path.is_dir() else (path.parent, path.name)
    file = root / name
    try:
        run = RunRecord.model_validate_json(read_file(root, name, MAX_BYTES))
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}", "Name the folder of a run.") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UserError(f"{file} is not a run record of version {VERSION}: {where}: {first['msg']}") from error
    if problem := contradiction(run):
        raise UserError(f"{file} contradicts itself: {problem}")
    return run


def contradiction(run: RunRecord) -> str | None:
    """What no judge would have written, in words; readers rely on the rest."""
    if run.status is RunStatus.FINISHED and run.outcome is None:
        return "it is finished, but has no outcome"
    numbers = [submission.number for submission in run.submissions]
    if numbers != sorted(set(numbers)):
        return "its submissions are out of order"
    known = {checkpoint.hash for checkpoint in run.checkpoints}
    for submission in run.submissions:
        if submission.checkpoint not in known:
            return f"submission {submission.number} names a checkpoint that is not recorded"
    if run.outcome and run.outcome.checkpoint and run.outcome.checkpoint not in known:
        return "its outcome names a checkpoint that is not recorded"
    made = [turn.submissions for turn in run.turns]
    if made != sorted(made) or (made and made[-1] > len(numbers)):
        return "its turns count other submissions than there are"
    return _uneven(run)


def _uneven(run: RunRecord) -> str | None:
    """A result has a return, a length and an error or none for each of its episodes, and at least one."""
    results = [submission.train for submission in run.submissions]
    results += [result for checkpoint in run.checkpoints for result in (checkpoint.validation, checkpoint.heldout)]
    for result in (*results, run.outcome.heldout if run.outcome else None):
        if result and not 0 < len(result.returns) == len(result.lengths) == len(result.errors):
            return "a result has not one return, length and error for each episode"
    return None


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
