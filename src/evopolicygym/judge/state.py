"""The state of a run: a pure fold over its ledger. Nothing about a run is remembered anywhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

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
    Turned,
    Validated,
)
from evopolicygym.judge.ledger import Line
from evopolicygym.judge.verdicts import Verdict


class Phase(StrEnum):
    """How far a run has come. It never goes back."""

    OPEN = "open"
    CLOSED = "closed"
    SELECTED = "selected"
    FINISHED = "finished"


@dataclass(frozen=True)
class Submission:
    """One accepted submit: ``judged`` when it has ended, ``refunded`` (with the reason) when the judge failed it,
    and ``fault_is_permanent`` when it would fail the next one likewise."""

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
    """Everything that a run's owner needs to go on after a crash at any instant."""

    opened: Opened | None = None
    opened_at: datetime | None = None
    owned: tuple[Owned, ...] = ()
    joined: tuple[Joined, ...] = ()
    phase: Phase = Phase.OPEN
    submissions: dict[int, Submission] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    prompted_at: datetime | None = None
    turns: tuple[Turned, ...] = ()
    closed: Closed | None = None
    closed_at: datetime | None = None
    inspected: Inspected | None = None
    validation: dict[str, Validated] = field(default_factory=dict)
    selected: int | None = None
    heldout: dict[str, Scored] = field(default_factory=dict)
    repeated: Repeated | None = None
    finished_at: datetime | None = None

    @property
    def budget(self) -> int:
        return self.opened.budget if self.opened else 0

    @property
    def charged(self) -> int:
        return sum(submission.cost for submission in self.submissions.values())

    @property
    def remaining(self) -> int:
        return self.budget - self.charged

    @property
    def refunds(self) -> int:
        return sum(submission.refunded is not None for submission in self.submissions.values())

    @property
    def last_fault(self) -> str | None:
        """Why the judge failed the last submission that it refunded."""
        return next((one.refunded for one in reversed(self.submissions.values()) if one.refunded is not None), None)

    @property
    def is_broken(self) -> bool:
        """The judge has failed in a way that trying again cannot mend."""
        return any(submission.fault_is_permanent for submission in self.submissions.values())

    @property
    def is_unjudged(self) -> bool:
        """There were submissions, and the judge has failed every one of them."""
        return 0 < len(self.submissions) == self.refunds

    @property
    def running(self) -> Submission | None:
        """Charged and not ended: after a crash, to be executed again, for the same charge."""
        return next((one for one in self.submissions.values() if one.is_running), None)

    @property
    def candidates(self) -> list[Submission]:
        """What hidden validation chooses among. Under a limit: submissions of the last so many distinct checkpoints,
        where one that is submitted again counts as new."""
        accepted = [submission for submission in self.submissions.values() if submission.is_ok]
        limit = self.opened.max_candidates if self.opened else None
        if limit is None:
            return accepted
        newest_first = dict.fromkeys(submission.charged.checkpoint.hash for submission in reversed(accepted))
        kept = set(list(newest_first)[:limit])
        return [submission for submission in accepted if submission.charged.checkpoint.hash in kept]

    def by_key(self, key: str) -> Submission | None:
        return next((one for one in self.submissions.values() if one.charged.key == key), None)

    def changed(self, number: int, **changes: Any) -> RunState:
        return replace(self, submissions={**self.submissions, number: replace(self.submissions[number], **changes)})


def fold(lines: Iterable[Line]) -> RunState:
    state = RunState()
    for line in lines:
        state = apply(state, line.event(), line.time)
    return state


def apply(state: RunState, event: Event, time: datetime) -> RunState:
    match event:
        case Opened():
            return replace(state, opened=event, opened_at=time)
        case Owned():
            return replace(state, owned=(*state.owned, event))
        case Joined():
            return replace(state, joined=(*state.joined, event))
        case Refused(reason):
            return replace(state, refused=state.refused + Counter([reason]))
        case Charged(number):
            return replace(state, submissions={**state.submissions, number: Submission(event, time)})
        case Judged(number):
            return state.changed(number, judged=event, judged_at=time)
        case Refunded(number, text, permanent):
            return state.changed(number, refunded=text, fault_is_permanent=permanent)
        case Prompted():
            return replace(state, prompted_at=time)
        case Turned():
            return replace(state, turns=(*state.turns, event), prompted_at=None)
        case Closed():
            return replace(state, phase=Phase.CLOSED, closed=event, closed_at=time)
        case Inspected():
            return replace(state, inspected=event)
        case Validated(checkpoint):
            return replace(state, validation={**state.validation, checkpoint: event})
        case Selected(submission):
            return replace(state, phase=Phase.SELECTED, selected=submission)
        case Scored(checkpoint):
            return replace(state, heldout={**state.heldout, checkpoint: event})
        case Repeated():
            return replace(state, repeated=event)
        case Finished():
            return replace(state, phase=Phase.FINISHED, finished_at=time)
