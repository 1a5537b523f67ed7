"""Limits of an agent beside its budget of episodes, and the watch that ends a turn.

Hitting a limit is a result: the run is closed and scored.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from evopolicygym.agents.failures import FailureKind, TurnFailure
from evopolicygym.agents.turn import Turn
from evopolicygym.judge.events import Turned
from evopolicygym.judge.judge import Judge
from evopolicygym.judge.state import RunPhase

TOKENS: Final = ("fresh_input", "cache_read", "cache_write", "output")
SUITE_LIMIT: Final = "suite_limit"  # in the calls of a turn: the limit of the run's suite that ended it
GRACE_S: Final = 60.0  # for the last message of an agent whose run is closed
METER_S: Final = 2.0  # between two readings of what a turn has used
METER_SHARE: Final = 20  # and at least this many times as long as the last reading took


@dataclass(frozen=True)
class AgentLimit:
    """One limit. ``used`` is None if the client does not report it: then it is never hit, and the record says so."""

    name: str
    value: float
    used: float | None

    @property
    def is_hit(self) -> bool:
        return self.used is not None and self.used >= self.value

    @property
    def remaining(self) -> str:
        """Return the remaining amount in words."""
        rest = self.value - (self.used or 0)
        if self.name == "hours":
            return f"{round(rest, 1):,g} hours" if rest >= 1.5 else f"{math.ceil(rest * 60)} minutes"
        return "1 turn, which is this one" if (self.name, rest) == ("turns", 1) else f"{rest:,.0f} {self.name}"


@dataclass(frozen=True)
class AgentLimits:
    """All limits of an agent; None is no limit. ``retries`` (after turns that failed because of the provider) and
    ``silent_minutes`` (within a turn) limit waiting for a provider or client in trouble, not the agent's work."""

    turns: int | None = None
    hours: float | None = 24.0
    tokens: int | None = None
    dollars: float | None = None
    requests: int | None = None
    retries: int = 8
    silent_minutes: float | None = 60.0

    def limits(self, turns: Iterable[Turned]) -> list[AgentLimit]:
        """Return the limits that are set, with what turns have used of them."""
        turns = list(turns)
        used: dict[str, float | None] = {
            "turns": len(turns),
            "hours": sum(turn.wall_s for turn in turns) / 3600,
            **asdict(spending(turns)),
        }
        return [AgentLimit(name, value, used[name]) for name in used if (value := getattr(self, name)) is not None]

    def remaining(self, turns: Iterable[Turned]) -> list[str]:
        """Return what is left of each limit, in words for the agent. It cannot count money, so that is left out."""
        return [limit.remaining for limit in self.limits(turns) if limit.name != "dollars"]

    def first_hit(self, turns: Iterable[Turned]) -> str | None:
        """Return the name of the first limit that is hit: the agent's own, or one of its suite."""
        turns = list(turns)
        own = next((limit.name for limit in self.limits(turns) if limit.is_hit), None)
        of_suite = (turns[-1].calls or {}).get(SUITE_LIMIT) if turns else None
        return own or (f"suite_{of_suite}" if of_suite else None)

    @property
    def is_metered(self) -> bool:
        """Whether usage must be read while a turn is played."""
        return self.tokens is not None or self.dollars is not None or self.requests is not None

    def seconds_left(self, turns: Iterable[Turned]) -> float | None:
        """Return the seconds until the limit of hours, None if there is no limit."""
        if self.hours is None:
            return None
        return max(0.0, self.hours * 3600 - sum(turn.wall_s for turn in turns))


@dataclass(frozen=True)
class AgentSpending:
    """Tokens, dollars and calls that an agent has used, at least; None if no turn reported any."""

    tokens: float | None
    dollars: float | None
    requests: float | None


def spending(turns: Iterable[Turned]) -> AgentSpending:
    """Return what turns have used together."""
    turns = list(turns)
    usages = [turn.usage or {} for turn in turns]
    tokens = _total(_tokens(turn.usage) for turn in turns)
    return AgentSpending(tokens, *(_total(usage.get(name) for usage in usages) for name in ("cost_usd", "requests")))


def _tokens(usage: dict[str, Any] | None) -> float | None:
    """Return the tokens of a turn. Cached ones count, since they were processed; reasoning is part of the output."""
    if usage is None:
        return None
    return _total(usage[name] for name in TOKENS)


def _total(amounts: Iterable[float | None]) -> float | None:
    """Return the sum of the amounts that are known, None if none is."""
    present = [amount for amount in amounts if amount is not None]
    return sum(present) if present else None


@dataclass(frozen=True)
class TurnProgress:
    """Progress of a turn that is being played. ``output_bytes`` counts what the agent has printed, None where silence
    means nothing; ``read_turn`` reads what is known of the turn by now; ``waited_s`` is the time in which it waited for
    the provider, which is not the agent's; ``waits_for`` is the error of the provider that it waits out now, with the
    time of the next attempt (by time.monotonic)."""

    output_bytes: Callable[[], int] | None = None
    read_turn: Callable[[], Turn] | None = None
    waited_s: Callable[[], float] = lambda: 0.0
    waits_for: Callable[[], tuple[str, float | None]] = lambda: ("", None)


def _in_thread(read_turn: Callable[[], Turn]) -> Future[Turn]:
    """Read a turn in a thread that keeps no process alive."""
    look: Future[Turn] = Future()

    def read() -> None:
        try:
            look.set_result(read_turn())
        except BaseException as error:
            look.set_exception(error)

    threading.Thread(target=read, name="look at a turn", daemon=True).start()
    return look


class TurnWatch:
    """Decides whether a turn must end although the agent has not ended it. Called several times a second.

    Args:
        judge: Of the run that is played.
        limits: Of the agent.
        stop: Set when the run is to end.
        to_event: Turns what was read of a turn into its ledger event, which has its price.
    """

    def __init__(
        self, judge: Judge, limits: AgentLimits, stop: threading.Event, to_event: Callable[[Turn], Turned]
    ) -> None:
        self._judge, self._limits, self._stop, self._to_event = judge, limits, stop, to_event
        seconds = limits.seconds_left(judge.state.turns)
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._closed_at: float | None = None
        self._activity: tuple[int, int] = (-1, -1)
        self._active_at = time.monotonic()
        self._look_began, self._next_look_at = 0.0, self._active_at + METER_S
        self._look: Future[Turn] | None = None

    def __call__(self, progress: TurnProgress) -> TurnFailure | None:
        """Return why the turn must end, if it must."""
        if self._stop.is_set():
            return TurnFailure(FailureKind.TIMEOUT, "it was stopped")
        activity = self._judge.activity
        activity.trouble, activity.next_attempt_at = progress.waits_for()
        return self._time_is_over(progress) or self._is_silent(progress) or self._limit_is_hit(progress)

    def _time_is_over(self, progress: TurnProgress) -> TurnFailure | None:
        now = time.monotonic()
        if self._judge.state.phase is not RunPhase.OPEN and self._closed_at is None:
            self._closed_at = now
        if self._closed_at is not None and now > self._closed_at + GRACE_S:
            return TurnFailure(FailureKind.TIMEOUT, "its run was closed")
        is_late = self._deadline is not None and now > self._deadline + progress.waited_s()
        return TurnFailure(FailureKind.TIMEOUT, "its time was over") if is_late else None

    def _is_silent(self, progress: TurnProgress) -> TurnFailure | None:
        """Return the failure of a turn without output and submissions for too long: the client or its provider
        hangs."""
        minutes = self._limits.silent_minutes
        if progress.output_bytes is None or minutes is None:
            return None
        activity = (progress.output_bytes(), len(self._judge.state.submissions))
        if activity != self._activity:
            self._activity, self._active_at = activity, time.monotonic()
        is_silent = time.monotonic() > self._active_at + 60 * minutes
        return TurnFailure(FailureKind.TIMEOUT, f"it said nothing for {minutes:g} minutes") if is_silent else None

    def _limit_is_hit(self, progress: TurnProgress) -> TurnFailure | None:
        """Return the failure of a turn that has reached a limit of tokens or dollars, as far as the client reports them
        during the turn. They are read in a thread: that can take minutes, in which other limits are watched."""
        now = time.monotonic()
        if progress.read_turn is None or not self._limits.is_metered or now < self._next_look_at:
            return None
        if self._look is None:
            with suppress(RuntimeError):  # no thread can be started now
                self._look_began, self._look = now, _in_thread(progress.read_turn)
        if self._look is None or not self._look.done():
            return None
        turn, self._look = self._look.result(), None
        self._next_look_at = now + max(METER_S, METER_SHARE * (now - self._look_began))
        turns = [*self._judge.state.turns, self._to_event(replace(turn, wall_s=0.0))]
        hit = replace(self._limits, turns=None, hours=None).first_hit(turns)
        return TurnFailure(FailureKind.LIMIT, f"its limit of {hit} was used up") if hit else None
