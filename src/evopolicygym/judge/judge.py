"""The judge of one run: its ledger, the state derived from it, and what it needs to play episodes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from evopolicygym.execution.engine import Engine
from evopolicygym.judge.delivery import large_bytes
from evopolicygym.judge.events import Event, Refused
from evopolicygym.judge.ledger import Ledger, LedgerUnwritable
from evopolicygym.judge.protocol import Refusal
from evopolicygym.judge.shortage import ShortagePause
from evopolicygym.judge.state import RunState, apply, fold
from evopolicygym.run_paths import RunPaths
from evopolicygym.tasks.conditions import FeedbackLevel
from evopolicygym.tasks.splits import Case, Split, Splits, cases
from evopolicygym.tasks.task import Task

REFUSALS_KEPT: Final = 1000  # later refusals leave no line, so that free requests cannot fill the disk


class Videos(StrEnum):
    """Choice of the train episodes of a submission that are recorded as video."""

    NONE = "none"
    FIRST = "first"
    ALL = "all"

    def wants(self, number: int) -> bool:
        return self is Videos.ALL or (self is Videos.FIRST and number == 0)


@dataclass(frozen=True)
class RunContext:
    """Parts that a judge needs beside the ledger to play episodes of a run."""

    task: Task
    splits: Splits
    engine: Engine
    videos: Videos = Videos.NONE
    feedback: FeedbackLevel = FeedbackLevel.TRAJECTORY


@dataclass
class RunActivity:
    """Activity of the owner of a run, for progress lines. None of it is recorded, and no decision depends on it.

    ``episodes``: finished ones of the submission or of the hidden pass that is being played. ``next_attempt_at``: when,
    after an error, the agent is prompted or its model is called again (by time.monotonic); None if nothing waits.
    ``trouble``: the provider's error that is being waited out."""

    episodes: int = 0
    next_attempt_at: float | None = None
    trouble: str = ""

    @property
    def next_attempt_s(self) -> float | None:
        """Seconds until the next attempt."""
        at = self.next_attempt_at
        return None if at is None else max(0.0, at - time.monotonic())


class Judge:
    """The only writer of a run's ledger. Any thread may call ``record`` and read ``state``.

    ``make_room`` frees disk space that the run has reserved and returns whether there was any. ``redact`` removes the
    values of keys from text that an agent wrote, before it enters the record. ``shortage`` pauses the run while the
    machine lacks something, ``activity`` is for progress lines."""

    def __init__(
        self,
        paths: RunPaths,
        context: RunContext,
        make_room: Callable[[], bool] = lambda: False,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self.paths, self.context, self._make_room, self.redact = paths, context, make_room, redact
        self._ledger, self._lock = Ledger(paths.ledger), threading.Lock()
        self._delivered_bytes: dict[str, int] = {}
        self.shortage, self.activity = ShortagePause(paths.root), RunActivity()
        self.state: RunState = fold(self._ledger.recover())

    @property
    def ledger_head(self) -> str:
        return self._ledger.head

    def cases(self, split: Split, indices: list[int]) -> list[Case]:
        """Return cases of a split, with the salt of the run."""
        salt = self.state.opened.salt if self.state.opened else ""
        return cases(self.context.splits, self.context.task.id, split, indices, salt)

    def record(self, event: Event, from_reserve: bool = False) -> None:
        """Append an event to the ledger, then update the state. ``from_reserve``: use the reserved space if the disk
        is full."""
        with self._lock:
            try:
                line = self._ledger.append(event)
            except LedgerUnwritable:
                if not (from_reserve and self._make_room()):
                    raise
                line = self._ledger.append(event)
            self.state = apply(self.state, line.event(), line.time)  # as a reader of the ledger would

    def delivered_bytes(self, name: str) -> int:
        """Return the size of the large files that the agent was given for a submission; 0 if its feedback is gone."""
        if name not in self._delivered_bytes:
            try:
                self._delivered_bytes[name] = large_bytes(self.paths.feedback / name, self.context.feedback)
            except OSError:
                return 0
        return self._delivered_bytes[name]

    def refused(self, refusal: Refusal) -> None:
        """Count a refusal. It is only a statistic: a full disk must not turn a refusal into a failure."""
        if sum(self.state.refused.values()) < REFUSALS_KEPT:
            with suppress(LedgerUnwritable):
                self.record(Refused(refusal.reason))

    def close(self) -> None:
        self._ledger.close()
