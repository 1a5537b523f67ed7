"""Events of a run: one frozen class for each kind of ledger line."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Annotated, Any, Final

from msgspec import Meta

from evopolicygym.execution.records import EpisodeResult, Node, mean
from evopolicygym.sandbox.checkpoints import Checkpoint
from evopolicygym.tasks.splits import SALT, SIZES, Split

# A ledger may have been forged: these bounds are checked when a line is read, and when one is written.
Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Number = Annotated[int, Meta(ge=1, le=1_000_000)]
Count = Annotated[int, Meta(ge=0, lt=2**53)]
TrainCase = Annotated[int, Meta(ge=0, lt=SIZES[Split.TRAIN])]
MAX_BUDGET: Final = 100_000


@dataclass(frozen=True)
class EpisodeStats:
    """Return, length and error kind of each episode, in the order of the cases. Of hidden episodes nothing else is
    kept."""

    returns: tuple[float, ...]
    lengths: tuple[Count, ...]
    errors: tuple[str | None, ...]

    @property
    def mean(self) -> float:
        return mean(self.returns)

    @property
    def std(self) -> float:
        return statistics.pstdev(self.returns)


def episode_stats(results: list[EpisodeResult]) -> EpisodeStats:
    return EpisodeStats(
        tuple(result.score for result in results),
        tuple(result.length for result in results),
        tuple(result.error.kind if result.error else None for result in results),
    )


@dataclass(frozen=True)
class Opened:
    """The first line of a run.

    ``facts`` identify it (task, ids, options, agent) and never change. ``salt`` is a secret from which the random seeds
    of its policies are derived. ``max_candidates``: validation chooses among the last distinct checkpoints, at most
    this many; None: among all. ``settings`` is the sha256 of config.toml, ``signature`` that of the installation that
    opened the run. Older ledgers lack the fields with defaults."""

    run: str
    budget: Annotated[int, Meta(ge=1, le=MAX_BUDGET)]
    validation_cases: Annotated[int, Meta(ge=1, le=SIZES[Split.VALIDATION])]
    heldout_cases: Annotated[int, Meta(ge=1, le=SIZES[Split.HELDOUT])]
    facts: dict[str, Any]
    salt: Annotated[str, Meta(pattern=rf"^({SALT})?\Z")] = ""
    max_candidates: int | None = None
    settings: Annotated[str, Meta(pattern=r"\A([0-9a-f]{64})?\Z")] = ""
    signature: Annotated[str, Meta(pattern=r"\A([0-9a-f]{64})?\Z")] = ""


@dataclass(frozen=True)
class Owned:
    """A process took ownership of the run. ``level``: the lowest isolation level of all nodes that play policies.
    ``residues``: what that level does not stop, in words."""

    level: str
    implementation: str
    nodes: tuple[Node, ...] = ()
    bit_id: str = ""
    residues: tuple[str, ...] = ()


@dataclass(frozen=True)
class Joined:
    """A node joined after the process took ownership; it plays from now on."""

    node: Node
    residues: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refused:
    """A request was refused, free of charge."""

    reason: str


@dataclass(frozen=True)
class Charged:
    """A submission was accepted and charged. It will end in a verdict or in a refund."""

    submission: Number
    key: str
    checkpoint: Checkpoint
    cases: tuple[TrainCase, ...]


@dataclass(frozen=True)
class Judged:
    """A submission got its verdict. ``summary`` is the reply to the agent; ``tally`` is None if the policy did not
    load."""

    submission: Number
    verdict: str
    tally: EpisodeStats | None
    clipped_actions: Count
    wall_s: float
    summary: dict[str, Any]
    feedback: str


@dataclass(frozen=True)
class Refunded:
    """The judge failed on a submission: no verdict, no feedback, no charge. ``permanent``: a retry would fail as
    well."""

    submission: Number
    text: str
    permanent: bool = False


@dataclass(frozen=True)
class Prompted:
    """The agent was prompted: its turn begins. ``Turned`` ends it."""

    turn: Count


@dataclass(frozen=True)
class Turned:
    """A turn of the agent ended. ``submissions``: accepted since the run began. ``model``: the one that served the
    turn, as the client reports it. ``price``: the source of the cost in ``usage``. ``calls``: the model gateway's facts
    about the turn's calls (retries, latency, models; the client's own usage where it differs)."""

    session: str | None
    exit_code: int | None
    wall_s: float
    submissions: Count
    usage: dict[str, Any] | None
    failure: str | None
    text: str
    stop: bool
    model: str | None = None
    price: dict[str, Any] | None = None
    calls: dict[str, Any] | None = None


@dataclass(frozen=True)
class Suspended:
    """The agent is not prompted any more, for a ``reason`` that is not its fault; ``text`` is the last error of its
    client. The next ``Prompted`` continues the run."""

    reason: str
    text: str


@dataclass(frozen=True)
class Closed:
    """No more submissions. ``cause``: the judge's failure, if it ended the run or left no submission judged."""

    reason: str
    cause: str | None = None


@dataclass(frozen=True)
class Inspected:
    """The agent's files were inspected; ``note`` is the integrity section of run.json."""

    note: dict[str, Any]


@dataclass(frozen=True)
class Validated:
    """A checkpoint played the validation cases."""

    checkpoint: Hash
    tally: EpisodeStats
    wall_s: float


@dataclass(frozen=True)
class Selected:
    """Validation chose a submission. None: no submission was ``ok``."""

    submission: Number | None


@dataclass(frozen=True)
class Scored:
    """A checkpoint played the held-out cases."""

    checkpoint: Hash
    tally: EpisodeStats
    wall_s: float


@dataclass(frozen=True)
class Repeated:
    """The winner played the held-out cases a second time."""

    returns: tuple[float, ...]
    wall_s: float


@dataclass(frozen=True)
class Finished:
    """The run has its outcome."""


Event = (
    Opened
    | Owned
    | Joined
    | Refused
    | Charged
    | Judged
    | Refunded
    | Prompted
    | Turned
    | Closed
    | Inspected
    | Validated
    | Selected
    | Scored
    | Repeated
    | Finished
    | Suspended
)
# Kinds are written in ledgers on disk: a class may be renamed, its kind never.
KINDS: Final[dict[str, type[Any]]] = {
    "opened": Opened,
    "owned": Owned,
    "joined": Joined,
    "refused": Refused,
    "charged": Charged,
    "judged": Judged,
    "refunded": Refunded,
    "prompted": Prompted,
    "turned": Turned,
    "closed": Closed,
    "inspected": Inspected,
    "validated": Validated,
    "selected": Selected,
    "scored": Scored,
    "repeated": Repeated,
    "finished": Finished,
    "suspended": Suspended,
}
_KIND_OF_CLASS: Final = {event_class: kind for kind, event_class in KINDS.items()}


def kind_of(event: Event) -> str:
    return _KIND_OF_CLASS[type(event)]
