"""How the best hidden-validation mean rose with the episodes consumed, and what the agent did when it fell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from evopolicygym.analysis.edits.kinds import Kind
from evopolicygym.analysis.edits.timeline import Event

SHARES: Final = (50, 80, 95)
DELIBERATE: Final = (Kind.SYNTHESIS, Kind.PARAMETRIC, Kind.ROLLBACK, Kind.UNKNOWN)


@dataclass(frozen=True)
class Point:
    """After ``consumed`` episodes the best validation mean was ``best``; it stays so until the next point."""

    consumed: int
    best: float


@dataclass(frozen=True)
class Progress:
    """``area``: mean height of the curve from its first point to the end of the whole budget. ``episodes_to``: consumed
    when that share (in percent) of the way from the first score to the final best was covered. A drop is a score below
    the one before it. Null where there is no score, or no drop to answer."""

    curve: tuple[Point, ...]
    area: float | None
    episodes_to: dict[int, int | None]
    best_submission: int | None
    submissions_after_best: int | None
    drops: int
    largest_drop: float
    drops_rolled_back: float | None
    last_minus_best: float | None


def progress(events: Sequence[Event], budget: int) -> Progress:
    scored = [event for event in events if event.validation is not None]
    curve = _curve(scored)
    best = next((event.submission for event in reversed(scored) if event.hit or event.kind is Kind.FIRST), None)
    falls = _falls(scored)
    return Progress(
        curve=curve,
        area=_area(curve, budget),
        episodes_to={share: _episodes_to(curve, share / 100) for share in SHARES},
        best_submission=best,
        submissions_after_best=None if best is None else _accepted_after(events, best),
        drops=len(falls),
        largest_drop=max((fall for _, fall in falls), default=0.0),
        drops_rolled_back=_rolled_back(scored, falls),
        last_minus_best=_mean(scored[-1]) - curve[-1].best if scored else None,
    )


def _mean(event: Event) -> float:
    assert event.validation is not None
    return event.validation


def _curve(scored: Sequence[Event]) -> tuple[Point, ...]:
    """A point for each time that the best was raised, the first score included."""
    return tuple(Point(event.consumed, _mean(event)) for event in scored if event.hit or event.kind is Kind.FIRST)


def _area(curve: Sequence[Point], budget: int) -> float | None:
    if not curve:
        return None
    start, end = curve[0].consumed, max(budget, curve[-1].consumed)
    if start == end:
        return curve[-1].best
    until = [point.consumed for point in curve[1:]] + [end]
    return sum(point.best * (to - point.consumed) for point, to in zip(curve, until, strict=True)) / (end - start)


def _episodes_to(curve: Sequence[Point], share: float) -> int | None:
    if not curve:
        return None
    first, final = curve[0].best, curve[-1].best
    return next(
        (point.consumed for point in curve if point.best >= first + share * (final - first)), curve[-1].consumed
    )


def _accepted_after(events: Sequence[Event], number: int) -> int:
    return sum(event.submission > number and event.kind is not Kind.REFUNDED for event in events)


def _falls(scored: Sequence[Event]) -> list[tuple[int, float]]:
    """Where among the scored events, and by how much."""
    differences = [_mean(before) - _mean(after) for before, after in pairwise(scored)]
    return [(place, fall) for place, fall in enumerate(differences, start=1) if fall > 0]


def _rolled_back(scored: Sequence[Event], falls: Sequence[tuple[int, float]]) -> float | None:
    """Share of drops whose next edit of code was a rollback; retests, data and cosmetics are passed over."""
    if not falls:
        return None
    answers = [
        next((event.kind for event in scored[place + 1 :] if event.kind in DELIBERATE), None) for place, _ in falls
    ]
    return answers.count(Kind.ROLLBACK) / len(falls)
