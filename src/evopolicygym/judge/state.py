"""The state of a run: a pure fold over its ledger. Nothing else about a run is kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from evopolicygym.judge.events import (
    Charged,
    Closed,
    Event,
    Finished,
    Inspected,
    Joined,
    Judged,
    Opened,
    Owned,
    Prompted,
    Refunded,
    Refused,
    Repeated,
    Scored,
    Selected,
    Suspended,
    Turned,
    Validated,
)
from evopolicygym.judge.ledger import LedgerCorrupt, LedgerLine
from evopolicygym.judge.protocol import Verdict

Put = Callable[[dict[Any, Any], Any, Any], dict[Any, Any]]
Period = tuple[datetime, datetime]
Item = TypeVar("Item")


class RunPhase(StrEnum):
    """Progress of a run; it only moves forward."""

    OPEN = "open"
    CLOSED = "closed"
    SELECTED = "selected"
    FINISHED = "finished"


@dataclass(frozen=True)
class Submission:
    """One accepted submit. ``judged``: set when it has its verdict. ``refunded``: why the judge failed on it.
    ``fault_is_permanent``: the judge would fail on the next one as well."""

    charged: Charged
    charged_at: datetime
    judged: Judged | None = None
    judged_at: datetime | None = None
    refunded: str | None = None
    fault_is_permanent: bool = False

    @property
    def number(self) -> int:
        return self.charged.submission

    @property
    def name(self) -> str:
        return submit_id(self.number)

    @property
    def cost(self) -> int:
        return len(self.charged.cases) if self.refunded is None else 0

    @property
    def is_running(self) -> bool:
        return self.judged is None and self.refunded is None

    @property
    def is_ok(self) -> bool:
        return self.judged is not None and self.judged.verdict == Verdict.OK


def submit_id(number: int) -> str:
    return f"submit_{number:03}"


@dataclass(frozen=True)
class RunState:
    """Everything that the owner of a run needs to continue it after a crash at any instant."""

    opened: Opened | None = None
    opened_at: datetime | None = None
    owned: Sequence[Owned] = ()
    owned_at: datetime | None = None  # by the last owner
    earlier_periods: Sequence[Period] = ()  # of the owners before
    last_line_at: datetime | None = None
    joined: Sequence[Joined] = ()
    phase: RunPhase = RunPhase.OPEN
    submissions: dict[int, Submission] = field(default_factory=dict)
    charged: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    prompted_at: datetime | None = None
    turns: Sequence[Turned] = ()
    suspended: Suspended | None = None  # until the agent is prompted again
    suspended_at: datetime | None = None
    turns_before: int = 0  # turns before the last suspension
    submissions_before: int = 0  # submissions before it
    idle_suspensions: int = 0  # the last consecutive suspensions, without a submission between them
    closed: Closed | None = None
    closed_at: datetime | None = None
    inspected: Inspected | None = None
    validation: dict[str, Validated] = field(default_factory=dict)
    selected: int | None = None
    heldout: dict[str, Scored] = field(default_factory=dict)
    scored_on: dict[str, str] = field(default_factory=dict)  # the bit_id of the owner who scored, by checkpoint
    repeated: Repeated | None = None
    finished_at: datetime | None = None

    @property
    def budget(self) -> int:
        return self.opened.budget if self.opened else 0

    @property
    def remaining(self) -> int:
        return self.budget - self.charged

    @property
    def periods(self) -> tuple[Period, ...]:
        """The times in which a process owned the run, each until its last line. Between them the run was not played."""
        return (*self.earlier_periods, self.last_period) if self.last_period else ()

    @property
    def last_period(self) -> Period | None:
        """The time of the last owner, until its last line."""
        return (self.owned_at, self.last_line_at) if self.owned_at and self.last_line_at else None

    @property
    def refunds(self) -> int:
        return sum(submission.refunded is not None for submission in self.submissions.values())

    @property
    def last_fault(self) -> str | None:
        """Why the judge failed on the last refunded submission."""
        faults = [submission.refunded for submission in self.submissions.values()]
        return next((fault for fault in reversed(faults) if fault is not None), None)

    @property
    def is_broken(self) -> bool:
        """Whether the judge has failed permanently."""
        return any(submission.fault_is_permanent for submission in self.submissions.values())

    @property
    def is_unjudged(self) -> bool:
        """Whether there were submissions and all of them were refunded."""
        return 0 < len(self.submissions) == self.refunds

    @property
    def running(self) -> Submission | None:
        """The submission that is charged and not ended. After a crash it is executed again, for the same charge."""
        return next((submission for submission in self.submissions.values() if submission.is_running), None)

    @property
    def candidates(self) -> list[Submission]:
        """The submissions that hidden validation chooses among. With ``max_candidates`` = n, those of the last n
        distinct checkpoints; a checkpoint that is submitted again counts as new."""
        accepted = [submission for submission in self.submissions.values() if submission.is_ok]
        limit = self.opened.max_candidates if self.opened else None
        if limit is None:
            return accepted
        newest_first = dict.fromkeys(submission.charged.checkpoint.hash for submission in reversed(accepted))
        kept = set(list(newest_first)[:limit])
        return [submission for submission in accepted if submission.charged.checkpoint.hash in kept]

    @property
    def first_ok(self) -> Submission | None:
        """The first submission that could be scored. It shows what the agent could do before any feedback on a
        policy."""
        return next((submission for submission in self.submissions.values() if submission.is_ok), None)

    def by_key(self, key: str) -> Submission | None:
        return next((submission for submission in self.submissions.values() if submission.charged.key == key), None)

    def with_submission(self, submission: Submission, put: Put) -> RunState:
        before = self.submissions.get(submission.number)
        charged = self.charged + submission.cost - (before.cost if before else 0)
        return replace(self, submissions=put(self.submissions, submission.number, submission), charged=charged)

    def changed(self, number: int, put: Put, **changes: Any) -> RunState:
        if number not in self.submissions:
            raise LedgerCorrupt(f"the ledger has a verdict or refund of submission {number}, which was never charged")
        return self.with_submission(replace(self.submissions[number], **changes), put)


def fold(lines: Iterable[LedgerLine]) -> RunState:
    """Return the state after all lines. Raises LedgerCorrupt for lines that cannot follow one another."""
    state = RunState()
    for line in lines:
        state = apply(state, line.event(), line.time, in_place)
    return replace(
        state,
        owned=tuple(state.owned),
        earlier_periods=tuple(state.earlier_periods),
        joined=tuple(state.joined),
        turns=tuple(state.turns),
    )


def copied(table: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    """Return a copy with the new entry: other threads may be reading the old state."""
    return {**table, key: value}


def in_place(table: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    """Add the entry in place. Only for a state that nothing else reads: copying at each line would take quadratic
    time."""
    table[key] = value
    return table


def _appended(items: Sequence[Item], item: Item, put: Put) -> Sequence[Item]:
    """Return the items with one more. With ``in_place`` it is the same list."""
    if put is not in_place:
        return (*items, item)
    listed = items if isinstance(items, list) else list(items)
    listed.append(item)
    return listed


def apply(state: RunState, event: Event, time: datetime, put: Put = copied) -> RunState:
    return replace(_applied(state, event, time, put), last_line_at=time)


def _applied(state: RunState, event: Event, time: datetime, put: Put) -> RunState:
    match event:
        case Opened():
            return replace(state, opened=event, opened_at=time)
        case Owned():
            period = state.last_period
            earlier = _appended(state.earlier_periods, period, put) if period else state.earlier_periods
            return replace(state, owned=_appended(state.owned, event, put), owned_at=time, earlier_periods=earlier)
        case Joined():
            return replace(state, joined=_appended(state.joined, event, put))
        case Refused(reason):
            return replace(state, refused=put(state.refused, reason, state.refused.get(reason, 0) + 1))
        case Charged():
            return state.with_submission(Submission(event, time), put)
        case Judged(number):
            return state.changed(number, put, judged=event, judged_at=time)
        case Refunded(number, text, permanent):
            return state.changed(number, put, refunded=text, fault_is_permanent=permanent)
        case Prompted():
            return replace(state, prompted_at=time, suspended=None, suspended_at=None)
        case Turned():
            return replace(state, turns=_appended(state.turns, event, put), prompted_at=None)
        case Suspended():
            is_idle = len(state.submissions) == state.submissions_before
            return replace(
                state,
                suspended=event,
                suspended_at=time,
                turns_before=len(state.turns),
                submissions_before=len(state.submissions),
                idle_suspensions=state.idle_suspensions + 1 if is_idle else 1,
            )
        case Closed():
            closed = replace(state, phase=RunPhase.CLOSED, closed=event, closed_at=time)
            return replace(closed, suspended=None, suspended_at=None)
        case Inspected():
            return replace(state, inspected=event)
        case Validated(checkpoint):
            return replace(state, validation=put(state.validation, checkpoint, event))
        case Selected(submission):
            return replace(state, phase=RunPhase.SELECTED, selected=submission)
        case Scored(checkpoint):
            bit_id = state.owned[-1].bit_id if state.owned else ""
            scored_on = put(state.scored_on, checkpoint, bit_id)
            return replace(state, heldout=put(state.heldout, checkpoint, event), scored_on=scored_on)
        case Repeated():
            return replace(state, repeated=event)
        case Finished():
            return replace(state, phase=RunPhase.FINISHED, finished_at=time)
