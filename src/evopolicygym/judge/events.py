"""Everything that can happen in a run: one frozen class for each kind of ledger line."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from evopolicygym.rollout.nodes import Node
from evopolicygym.rollout.records import EpisodeResult, mean
from evopolicygym.sandbox.checkpoints import Checkpoint
from evopolicygym.tasks.splits import SALT


@dataclass(frozen=True)
class Tally:
    """Episodes in the order of their cases: what is kept of each, and nothing more of hidden ones."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    errors: tuple[str | None, ...]

    @property
    def mean(self) -> float:
        return mean(self.returns)

    @property
    def std(self) -> float:
        return statistics.pstdev(self.returns)


def tally(results: list[EpisodeResult]) -> Tally:
    return Tally(
        tuple(result.score for result in results),
        tuple(result.length for result in results),
        tuple(result.error.kind if result.error else None for result in results),
    )


@dataclass(frozen=True)
class Opened:
    """``facts`` is all that names the run: task, ids, options, agent. It never changes. ``salt`` is a secret that the
    keys of its policies' randomness are made with; runs from before it was introduced have none. ``max_candidates``: of
    so many distinct checkpoints hidden validation chooses, those that were submitted last; None: of all."""

    run: str
    budget: int
    validation_cases: int
    heldout_cases: int
    facts: dict[str, Any]
    salt: Annotated[str, msgspec.Meta(pattern=rf"^({SALT})?\Z")] = ""
    max_candidates: int | None = None


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

    submission: int
    key: str
    checkpoint: Checkpoint
    cases: tuple[int, ...]


@dataclass(frozen=True)
class Judged:
    """``summary`` is the reply, word for word. ``tally`` is None when the policy did not load."""

    submission: int
    verdict: str
    tally: Tally | None
    clipped_actions: int
    wall_s: float
    summary: dict[str, Any]
    feedback: str


@dataclass(frozen=True)
class Refunded:
    """The judge failed: no verdict, no feedback, no charge. A ``permanent`` failure would come again."""

    submission: int
    text: str
    permanent: bool = False


@dataclass(frozen=True)
class Prompted:
    """The agent is told to go on. What follows is its turn, until it is ``Turned``."""

    turn: int


@dataclass(frozen=True)
class Turned:
    """The agent was prompted and has answered, or failed to. ``submissions`` counts those accepted until then.
    ``model`` served it, by the client's word; ``price`` says where the cost in ``usage`` comes from."""

    session: str | None
    exit_code: int | None
    wall_s: float
    submissions: int
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
    checkpoint: str
    tally: Tally
    wall_s: float


@dataclass(frozen=True)
class Selected:
    """None: no submission was ``ok``."""

    submission: int | None


@dataclass(frozen=True)
class Scored:
    """One checkpoint on the held-out cases."""

    checkpoint: str
    tally: Tally
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
KINDS: Final[dict[str, type[Any]]] = {kind.__name__.lower(): kind for kind in Event.__args__}
