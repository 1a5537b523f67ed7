"""Everything that can happen in a run: one frozen class for each kind of ledger line."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Annotated, Any, Final

from msgspec import Meta

from evopolicygym.execution.records import EpisodeResult, Node, mean
from evopolicygym.sandbox.checkpoints import Checkpoint
from evopolicygym.tasks.splits import SALT, SIZES, Split

# A ledger may come from elsewhere: these are checked when a line is read, and when one is written.
Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Number = Annotated[int, Meta(ge=1, le=1_000_000)]
Count = Annotated[int, Meta(ge=0, lt=2**53)]
TrainCase = Annotated[int, Meta(ge=0, lt=SIZES[Split.TRAIN])]
MAX_BUDGET: Final = 100_000


@dataclass(frozen=True)
class EpisodeStats:
    """Episodes in the order of their cases: what is kept of each, and nothing more of hidden ones."""

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
    """``facts`` is all that names the run: task, ids, options, agent. It never changes. ``salt`` is a secret that the
    keys of its policies' randomness are made with. ``max_candidates``: of so many distinct checkpoints, those that were
    submitted last, hidden validation chooses; None: of all. ``settings`` is the sha256 of config.toml,
    ``signature`` that of the installation that opened the run. Older ledgers have none of these."""

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
    """A process took the run over, with policies isolated at this level: the lowest of all nodes that play.
    ``residues``: what that level does not stop, in words."""

    level: str
    implementation: str
    nodes: tuple[Node, ...] = ()
    bit_id: str = ""
    residues: tuple[str, ...] = ()


@dataclass(frozen=True)
class Joined:
    """A node that was not there when the run was taken over plays from now on."""

    node: Node
    residues: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refused:
    """A request that cost nothing."""

    reason: str


@dataclass(frozen=True)
class Charged:
    """The submission is accepted and paid for; from here on it ends in a verdict or in a refund."""

    submission: Number
    key: str
    checkpoint: Checkpoint
    cases: tuple[TrainCase, ...]


@dataclass(frozen=True)
class Judged:
    """``summary`` is the reply, word for word. ``tally`` is None when the policy did not load."""

    submission: Number
    verdict: str
    tally: EpisodeStats | None
    clipped_actions: Count
    wall_s: float
    summary: dict[str, Any]
    feedback: str


@dataclass(frozen=True)
class Refunded:
    """The judge failed: no verdict, no feedback, no charge. A ``permanent`` failure would come again."""

    submission: Number
    text: str
    permanent: bool = False


@dataclass(frozen=True)
class Prompted:
    """The agent is told to go on. What follows is its turn, until it is ``Turned``."""

    turn: Count


@dataclass(frozen=True)
class Turned:
    """The agent was prompted and has answered, or failed to. ``submissions`` counts those accepted until then.
    ``model`` served it, by the client's word; ``price`` says where the cost in ``usage`` comes from."""

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


@dataclass(frozen=True)
class Closed:
    """``cause``: the judge's own failure, where it is why the run ends or why nothing of it was judged."""

    reason: str
    cause: str | None = None


@dataclass(frozen=True)
class Inspected:
    """Signs in what the agent did that a reader should look at."""

    note: dict[str, Any]


@dataclass(frozen=True)
class Validated:
    checkpoint: Hash
    tally: EpisodeStats
    wall_s: float


@dataclass(frozen=True)
class Selected:
    """None: no submission was ``ok``."""

    submission: Number | None


@dataclass(frozen=True)
class Scored:
    """One checkpoint on the held-out cases."""

    checkpoint: Hash
    tally: EpisodeStats
    wall_s: float


@dataclass(frozen=True)
class Repeated:
    """The winner's held-out cases once more."""

    returns: tuple[float, ...]
    wall_s: float


@dataclass(frozen=True)
class Finished:
    pass


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
)
# The kinds are in ledgers on disk: a class may get another name, its kind never.
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
}
_KIND_OF_CLASS: Final = {event_class: kind for kind, event_class in KINDS.items()}


def kind_of(event: Event) -> str:
    return _KIND_OF_CLASS[type(event)]
