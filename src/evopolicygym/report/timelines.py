"""Figures 5 and 6: what became of each submission, and in which phases the code was shaped or tuned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from markupsafe import Markup

from evopolicygym.analysis.edits.kinds import Kind
from evopolicygym.analysis.edits.phases import Phase
from evopolicygym.analysis.edits.timeline import Event
from evopolicygym.report.legends import legend
from evopolicygym.report.scales import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, Box, Scale, below
from evopolicygym.report.svg import Figure, element, group, hint, words
from evopolicygym.report.text import number
from evopolicygym.report.widths import within

WIDTH: Final = 980
LEFT: Final = 240
ROW: Final = 34


class Fate(StrEnum):
    """Of a submission. A rollback that is a new best is a new best."""

    NEW_BEST = "new best"
    NO_IMPROVEMENT = "no improvement"
    ROLLBACK = "rollback"
    RETEST = "retest"
    FAILED = "failed"
    UNSCORED = "not scored"


@dataclass(frozen=True)
class Track:
    """One run."""

    name: str
    events: tuple[Event, ...]
    phases: tuple[Phase, ...]


def fate(event: Event) -> Fate:
    if event.hit or event.kind is Kind.FIRST:
        return Fate.NEW_BEST
    kinds = {Kind.ROLLBACK: Fate.ROLLBACK, Kind.RETEST: Fate.RETEST, Kind.FAILED: Fate.FAILED}
    unscored = event.kind in (Kind.UNSCORED, Kind.REFUNDED)
    return kinds.get(event.kind, Fate.UNSCORED if unscored else Fate.NO_IMPROVEMENT)


def edit_timeline(name: str, title: str, tracks: Sequence[Track]) -> Figure | None:
    """A row for each run, a mark for each submission; None when nothing was submitted."""
    drawn = [track for track in tracks if track.events]
    if not drawn:
        return None
    box = Box(LEFT, 8, WIDTH - 14, 8 + ROW * len(drawn))
    last = max(event.submission for track in drawn for event in track.events)
    x = Scale(0.0, last + 1.0, box.left, box.right)
    rows = [_row(track, box.top + ROW * i, x) for i, track in enumerate(drawn)]
    key, height = legend(_meanings(), box.left, box.bottom + 54, box.right - box.left)
    axis = below(box, x, "submission", [tick for tick in x.ticks(10) if tick == int(tick)])
    return Figure(name, title, WIDTH, int(box.bottom + 48 + height), group([*axis, *rows, key]))


def _row(track: Track, top: float, x: Scale) -> Markup:
    label = group([hint(track.name), words(LEFT - 8, top + 17, within(track.name, LEFT - 10), "end")])
    return group([label, *_bands(track, top, x), *(_mark(event, top + 13, x) for event in track.events)])


def _bands(track: Track, top: float, x: Scale) -> Iterator[Markup]:
    for phase in track.phases:
        left, right = x(phase.first - 0.45), x(phase.last + 0.45)
        text = f"{phase.kind}: submissions {phase.first} to {phase.last}, {phase.hits} of {phase.edits} a new best"
        yield element(
            "rect", hint(text), x=left, y=top + 24, width=right - left, height=5, fill=BANDS.get(phase.kind, GREY)
        )


def _mark(event: Event, y: float, x: Scale) -> Markup:
    kind, score = event.kind, number(event.validation)
    text = f"submission {event.submission}: {kind}, {fate(event)}, validation {score}, {event.consumed} consumed"
    return group([hint(text), MARKS[fate(event)]()], transform=f"translate({x(event.submission):.1f} {y:g})")


def _path(d: str, colour: str, filled: bool) -> Callable[[], Markup]:
    return lambda: element("path", d=d, fill=colour if filled else "none", stroke=colour, stroke_width=1.6)


BANDS: Final = {Kind.SYNTHESIS: BLUE, Kind.PARAMETRIC: ORANGE, Kind.ROLLBACK: PURPLE}
# Told apart by shape, too: a print may have no colour.
MARKS: Final[Mapping[Fate, Callable[[], Markup]]] = {
    Fate.NEW_BEST: _path("M0 -5L4.5 4H-4.5Z", GREEN, True),
    Fate.NO_IMPROVEMENT: lambda: element("circle", cx=0, cy=0, r=3, fill="none", stroke=GREY, stroke_width=1.6),
    Fate.ROLLBACK: _path("M-4.5 0L3.5 -4.5V4.5Z", PURPLE, True),
    Fate.RETEST: _path("M0 -4.5L4.5 0L0 4.5L-4.5 0Z", SKY, True),
    Fate.FAILED: _path("M-4 -4L4 4M4 -4L-4 4", VERMILION, False),
    Fate.UNSCORED: _path("M-4 0H4", GREY, False),
}


def _meanings() -> list[tuple[Markup, str]]:
    bands = [
        (element("rect", x=-10, y=-3, width=20, height=6, fill=colour), f"phase: {kind}")
        for kind, colour in BANDS.items()
    ]
    return [(mark(), str(name)) for name, mark in MARKS.items()] + bands
