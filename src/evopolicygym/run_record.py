"""run.json: the record of one run for readers. Derived from the ledger; its schema is docs/schemas/run-1.json.

Numbers that readers compute with are stored in full: JSON floats read back to the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from evopolicygym.errors import UserError
from evopolicygym.files import read_json_file
from evopolicygym.json_schema import publish
from evopolicygym.printable import one_line
from evopolicygym.record_checks import contradiction
from evopolicygym.record_types import (
    Amounts,
    Cases,
    Count,
    Hash,
    Moment,
    RecordModel,
    Seconds,
    SubmissionNumber,
    Undeclared,
    Whole,
)
from evopolicygym.run_paths import RECORD

VERSION: Final = 1
MAX_BYTES: Final = 64 << 20


class RunStatus(StrEnum):
    """``open``: takes submissions. ``closed``: takes none, hidden scoring is not done. ``finished``: has an outcome."""

    OPEN = "open"
    CLOSED = "closed"
    FINISHED = "finished"


class OutcomeKind(StrEnum):
    """``scored``: a checkpoint was selected and measured, whether or not the judge failed later. ``no_ok_submit``: the
    agent worked, and there was none to select. ``agent_never_worked``: no turn of the agent ever succeeded, and nothing
    was submitted: repeat the run. ``judge_fault``: there was none, and the judge failed on every submission, too
    often, or permanently: repeat the run."""

    SCORED = "scored"
    NO_OK_SUBMIT = "no_ok_submit"
    JUDGE_FAULT = "judge_fault"
    NEVER_WORKED = "agent_never_worked"


class Repeat(StrEnum):
    """Whether a second pass of the winner gave the same held-out returns."""

    EQUAL = "equal"
    NONDETERMINISTIC = "nondeterministic"


class TaskScale(RecordModel):
    """Ends of the scale of a generated task, measured when it was drawn: the best trivial policy (0) and the expert
    (1). ``draws``: number of worlds that were drawn, of which the last was accepted."""

    low: float
    high: float
    draws: Annotated[int, Field(ge=1, le=1000)]


class TaskFacts(RecordModel):
    """``scale``: of a generated task; null for all others."""

    id: str
    env_id: str
    version: Whole
    title: str
    family: str
    demand: str
    horizon: Count
    failure_return: float
    scale: TaskScale | None = None


class RunIds(RecordModel):
    """``machine``: CPU features, libc and Python behind the bit_id. ``other_bit_ids``: of other kinds of machines that
    continued the run."""

    splits_id: str
    comparable_id: str
    bit_id: str
    fingerprint: Undeclared
    machine: Undeclared = {}
    other_bit_ids: list[str] = []


class Options(RecordModel):
    """Options of the run beyond task and splits. ``max_candidates``: validation chose among the last so many distinct
    checkpoints; null: among all. Records from before there was a choice of conditions have none: their defaults are
    what was played then."""

    validation_cases: Cases
    heldout_cases: Cases
    validate_when: Literal["after", "eager"]
    video: Literal["none", "first", "all"]
    stock: bool
    max_candidates: int | None = None
    text: Literal["brief", "full", "blind"] = "full"
    variant: Literal["plain", "disguised", "shifted"] = "plain"
    own_models: Literal["allowed", "forbidden"] = "allowed"
    feedback: Literal["score", "summary", "trajectory", "video"] = "trajectory"

    def conditions(self) -> str:
        """Return in words how the conditions differ from the default ones; empty if they do not."""
        return conditions_text(self.text, self.variant, self.own_models, self.feedback)


DEFAULT_CONDITIONS: Final = "brief text"  # what is printed where ``conditions_text`` is empty


def conditions_text(text: str, variant: str, own_models: str = "allowed", feedback: str = "trajectory") -> str:
    """Return in words how conditions differ from the default ones; empty if they do not. A disguised task always has
    the blind text."""
    is_implied = variant == "disguised" and text == "blind"
    parts = (
        f"{text} text" if text != "brief" and not is_implied else "",
        variant if variant != "plain" else "",
        f"own models {own_models}" if own_models != "allowed" else "",
        f"feedback {feedback}" if feedback != "trajectory" else "",
    )
    return ", ".join(part for part in parts if part)


class Agent(RecordModel):
    """The agent. A run that was served by hand has none."""

    name: str
    model: str | None = None
    version: str | None = None
    seed: Whole | None = None
    settings: Undeclared = {}


class NodeRecord(RecordModel):
    """A machine of a cluster. ``refused``: why it got no work; it then has no level."""

    id: str
    host: str
    level: str
    seats: Count
    refused: str


class IsolationRecord(RecordModel):
    """Isolation levels achieved. ``publishable`` is false if one of them is none. ``agent_residues`` and
    ``policy_residues``: what the levels do not stop, in words. ``nodes``: machines of the cluster, used and refused;
    empty on a single machine."""

    policy: str
    nodes: list[NodeRecord] = []
    agent: str
    agent_network: str
    agent_residues: list[str] = []
    policy_residues: list[str] = []
    publishable: bool


class Budget(RecordModel):
    """``total`` = ``charged`` + ``remaining``, at any time. ``refused``: number of free refusals, by reason."""

    total: Count
    charged: Count
    remaining: Whole
    refunds: Count
    refused: dict[str, Count]


class Result(RecordModel):
    """Episodes of one checkpoint on a list of cases, in the order of the cases. Failed ones have an error kind. In an
    imported run, a list is empty where the original has no such values; the mean is there."""

    returns: list[float]
    lengths: list[Count]
    errors: list[str | None]
    mean: float
    std: float


class SubmissionRecord(RecordModel):
    """One accepted submit. ``verdict`` is null while it runs, and stays null if the judge failed and refunded it."""

    number: SubmissionNumber
    checkpoint: Hash
    cases: list[Count]
    charged: Count
    charged_at: Moment
    judged_at: Moment | None
    verdict: str | None
    refunded: bool
    train: Result | None
    clipped_actions: Count
    wall_s: Seconds | None


class TurnRecord(RecordModel):
    """One prompt and what followed. ``submissions``: accepted from the beginning of the run to the end of the turn.
    ``usage``: of this turn alone, null if it was not metered. ``model``: the one that served it, as the client reports
    it. ``price``: where its cost comes from. ``message``: the client's text about a failure. ``calls``: what the model
    gateway says of its calls, null without it."""

    exit_code: Whole | None
    wall_s: Seconds
    submissions: Count
    failure: str | None
    stop: bool
    model: str | None
    usage: Amounts | None
    price: Amounts | None
    message: str | None = None
    calls: Amounts | None = None


def turn_worked(failure: str | None, usage: Mapping[str, Any] | None) -> bool:
    """Return whether the agent worked in a turn, however it ended: its model answered, or no failure is known."""
    return failure in (None, "turn_limit", "limit") or bool((usage or {}).get("output"))


class Suspension(RecordModel):
    """Why a run is suspended, since when, and the last error of the agent's client. `run --resume` continues it."""

    reason: str
    since: Moment
    message: str


class Sign(RecordModel):
    kind: str
    count: Count
    where: str
    example: str


class Integrity(RecordModel):
    """Signs that a reader should look at, found by fixed patterns in transcript and workspace; and what was not
    checked.
    ``renamed``: files of the agent that other programs would run by themselves, such as `.git`, made inert. ``error``:
    why the inspection is missing or incomplete."""

    signs: list[Sign]
    not_checked: list[str]
    renamed: list[str] = []
    error: str | None = None


class Code(RecordModel):
    """Metrics of the policy's source; docs/diagnostics.md has the rules. ``bundle``: policy.py and the local files that
    it imports; ``bundle_hash``: hash of their paths and bytes. ``tree``: hash of their syntax trees; ``topology``: the
    same without numeric constants. Both are null if the source could not be read at all; ``error`` says what could not
    be parsed and why. ``unresolved``: imports that are known only at run time. ``lines``: lines that are not blank. The
    counts after it cover the files that parse."""

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
    """``heldout``: for the winner, for the first ``ok`` submission (not in older runs) and, after ``score
    --all-checkpoints``, for all candidates; it never affects the selection."""

    hash: Hash
    files: Count
    bytes: Count
    code: Code | None
    validation: Result | None
    heldout: Result | None


class Outcome(RecordModel):
    """``submission`` and the fields after it are null if there was nothing to select. ``cause``: the judge's message,
    if its failure ended the run; also for a ``scored`` run."""

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
    opened: Moment
    closed: Moment | None
    finished: Moment | None
    closed_because: str | None
    train_s: Seconds
    hidden_s: Seconds


class ImportedFrom(RecordModel):
    """Where an imported run comes from. ``format``: the code that wrote it. ``folder``: the name of its folder.
    ``not_recorded``: what that code did not write down; lists of such results are empty."""

    format: Literal["reference-0.1", "reference-0.3"]
    folder: str
    not_recorded: list[str]

    @property
    def words(self) -> str:
        return self.format.replace("-", " code ")


class RunRecord(RecordModel):
    """One agent on one task under one budget. ``name``: the entrant's, if the user gave one. ``randomness_salt``: the
    secret from which the random seeds of its policies are derived; null while the run is open, and in older runs.
    ``imported``: of a run that another judge played; it has no ledger, and ``ledger_head`` is the hash of the file that
    was imported. ``entered``: of a policy that was made elsewhere and was only measured; no agent took part."""

    schema_version: Literal[1]
    evopolicygym: str
    id: str
    status: RunStatus
    task: TaskFacts
    ids: RunIds
    options: Options
    name: str | None = None
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
    suspended: Suspension | None = None
    usage: Amounts | None
    ledger_head: Hash
    imported: ImportedFrom | None = None
    entered: bool = False


# Published names of the schemas, where they differ from the class: renaming a class must not rename its schema.
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
    """Return the published JSON Schema."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **publish(RunRecord.model_json_schema(), NAMES)}


def load(path: Path) -> RunRecord:
    """Read a run folder's record, or the record itself. Raises UserError where it is none, or contradicts itself."""
    root, name = (path, RECORD) if path.is_dir() else (path.parent, path.name)
    shown = one_line(root / name)
    try:
        run = RunRecord.model_validate_json(read_json_file(root, name, MAX_BYTES))
    except OSError as error:
        raise UserError(f"cannot read {shown}: {error.strerror}", "Name the folder of a run.") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = one_line(".".join(str(part) for part in first["loc"])) or "the file"
        raise UserError(f"{shown} is not a run record of version {VERSION}: {where}: {first['msg']}") from error
    if problem := contradiction(run):
        raise UserError(f"{shown} contradicts itself: {problem}")
    return run


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
