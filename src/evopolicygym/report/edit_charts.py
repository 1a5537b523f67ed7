"""Charts of edits: timelines (Figures 5 and 6), mix of kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from markupsafe import Markup

from evopolicygym.analysis.edits.kinds import EDITS, EditKind
from evopolicygym.analysis.edits.timeline import EditPhase, TimelineEvent
from evopolicygym.report.svg import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Axis,
    Figure,
    PlotArea,
    distinct_labels,
    element,
    group,
    legend,
    shorten_to_width,
    svg_text,
    tooltip,
    x_axis,
)
from evopolicygym.report.text import number, percent

TIMELINE_WIDTH: Final = 980
TIMELINE_LEFT: Final = 240
TIMELINE_ROW: Final = 34


class EditResult(StrEnum):
    """Outcome of a submission. A rollback that is a new best counts as a new best."""

    NEW_BEST = "new best"
    NO_IMPROVEMENT = "no improvement"
    ROLLBACK = "rollback"
    RETEST = "retest"
    FAILED = "failed"
    UNSCORED = "not scored"


@dataclass(frozen=True)
class RunTrack:
    """One row of the timeline: a run, the conditions under which it was played, and ``about`` its entrant."""

    name: str
    conditions: str
    events: tuple[TimelineEvent, ...]
    phases: tuple[EditPhase, ...]
    about: str = ""


def edit_result(event: TimelineEvent) -> EditResult:
    if event.hit or event.kind is EditKind.FIRST:
        return EditResult.NEW_BEST
    kinds = {
        EditKind.ROLLBACK: EditResult.ROLLBACK,
        EditKind.RETEST: EditResult.RETEST,
        EditKind.FAILED: EditResult.FAILED,
    }
    unscored = event.kind in (EditKind.UNSCORED, EditKind.REFUNDED)
    return kinds.get(event.kind, EditResult.UNSCORED if unscored else EditResult.NO_IMPROVEMENT)


def edit_timeline(name: str, title: str, tracks: Sequence[RunTrack]) -> Figure | None:
    """Draw a row for each run with a mark for each submission; None when nothing was submitted."""
    drawn = [track for track in tracks if track.events]
    if not drawn:
        return None
    box = PlotArea(TIMELINE_LEFT, 8, TIMELINE_WIDTH - 14, 8 + TIMELINE_ROW * len(drawn))
    last = max(event.submission for track in drawn for event in track.events)
    x = Axis(0.0, last + 1.0, box.left, box.right)
    labels = distinct_labels([track.name for track in drawn], TIMELINE_LEFT - 10)
    rows = [_row(track, labels[track.name], box.top + TIMELINE_ROW * i, x) for i, track in enumerate(drawn)]
    key, height = legend(_meanings(), box.left, box.bottom + 54, box.right - box.left)
    axis = x_axis(box, x, "submission", [tick for tick in x.ticks(10) if tick == int(tick)])
    return Figure(name, title, TIMELINE_WIDTH, int(box.bottom + 48 + height), group([*axis, *rows, key]))


def _row(track: RunTrack, name: str, top: float, x: Axis) -> Markup:
    label = group(
        [
            tooltip(f"{track.name}: {track.conditions}", track.about),
            svg_text(TIMELINE_LEFT - 8, top + 13, name, "end"),
            svg_text(TIMELINE_LEFT - 8, top + 27, shorten_to_width(track.conditions, TIMELINE_LEFT - 10), "end quiet"),
        ]
    )
    return group([label, *_bands(track, top, x), *(_mark(event, top + 13, x) for event in track.events)])


def _bands(track: RunTrack, top: float, x: Axis) -> Iterator[Markup]:
    for phase in track.phases:
        left, right = x(phase.first - 0.45), x(phase.last + 0.45)
        text = f"{phase.kind}: submissions {phase.first} to {phase.last}, {phase.hits} of {phase.edits} a new best"
        yield element(
            "rect", tooltip(text), x=left, y=top + 24, width=right - left, height=5, fill=BANDS.get(phase.kind, GREY)
        )


def _mark(event: TimelineEvent, y: float, x: Axis) -> Markup:
    kind, score = event.kind, number(event.validation)
    text = f"submission {event.submission}: {kind}, {edit_result(event)}, validation {score}, {event.consumed} consumed"
    return group([tooltip(text), MARKS[edit_result(event)]()], transform=f"translate({x(event.submission):.1f} {y:g})")


def _path(d: str, colour: str, filled: bool) -> Callable[[], Markup]:
    return lambda: element("path", d=d, fill=colour if filled else "none", stroke=colour, stroke_width=1.6)


BANDS: Final = {EditKind.SYNTHESIS: BLUE, EditKind.PARAMETRIC: ORANGE, EditKind.ROLLBACK: PURPLE}
# Shapes differ, too: a print may have no colour.
MARKS: Final[Mapping[EditResult, Callable[[], Markup]]] = {
    EditResult.NEW_BEST: _path("M0 -5L4.5 4H-4.5Z", GREEN, True),
    EditResult.NO_IMPROVEMENT: lambda: element("circle", cx=0, cy=0, r=3, fill="none", stroke=GREY, stroke_width=1.6),
    EditResult.ROLLBACK: _path("M-4.5 0L3.5 -4.5V4.5Z", PURPLE, True),
    EditResult.RETEST: _path("M0 -4.5L4.5 0L0 4.5L-4.5 0Z", SKY, True),
    EditResult.FAILED: _path("M-4 -4L4 4M4 -4L-4 4", VERMILION, False),
    EditResult.UNSCORED: _path("M-4 0H4", GREY, False),
}


def _meanings() -> list[tuple[Markup, str]]:
    bands = [
        (element("rect", x=-10, y=-3, width=20, height=6, fill=colour), f"phase: {kind}")
        for kind, colour in BANDS.items()
    ]
    return [(mark(), str(name)) for name, mark in MARKS.items()] + bands


MIX_WIDTH: Final = 760
MIX_LEFT: Final = 230
MIX_ROW: Final = 28
FILLS: Final[Mapping[EditKind, str]] = {
    EditKind.SYNTHESIS: BLUE,
    EditKind.PARAMETRIC: ORANGE,
    EditKind.ROLLBACK: PURPLE,
    EditKind.COSMETIC: SKY,
    EditKind.DATA: GREEN,
    EditKind.RETEST: VERMILION,
    EditKind.UNKNOWN: GREY,
}


@dataclass(frozen=True)
class EditMix:
    """Number of edits of each kind. ``about``: who the entrant is."""

    name: str
    numbers: Mapping[EditKind, int]
    about: str = ""

    @property
    def total(self) -> int:
        return sum(self.numbers.values())


def edit_mix(name: str, title: str, mixes: Sequence[EditMix]) -> Figure | None:
    """Draw the shares of kinds of edits as bars; None when there are no edits."""
    drawn = [mix for mix in mixes if mix.total]
    if not drawn:
        return None
    box = PlotArea(MIX_LEFT, 8, MIX_WIDTH - 70, 8 + MIX_ROW * len(drawn))
    x = Axis(0.0, 100.0, box.left, box.right)
    labels = distinct_labels([mix.name for mix in drawn], MIX_LEFT - 10)
    rows = [_bar(mix, labels[mix.name], box.top + MIX_ROW * i, x) for i, mix in enumerate(drawn)]
    used = [kind for kind in EDITS if any(mix.numbers.get(kind) for mix in drawn)]
    key, height = legend([(_swatch(kind), str(kind)) for kind in used], 20, box.bottom + 54, MIX_WIDTH - 40)
    axis = x_axis(box, x, "share of edits (%)")
    return Figure(name, title, MIX_WIDTH, int(box.bottom + 48 + height), group([*axis, *rows, key]))


def _bar(mix: EditMix, name: str, top: float, x: Axis) -> Markup:
    label = group([tooltip(mix.name, mix.about), svg_text(MIX_LEFT - 8, top + 17, name, "end")])
    count = svg_text(x(100.0) + 6, top + 17, f"n = {mix.total}", "quiet")
    return group([label, *_parts(mix, top, x), count])


def _parts(mix: EditMix, top: float, x: Axis) -> Iterator[Markup]:
    done = 0
    for kind in EDITS:
        if many := mix.numbers.get(kind, 0):
            left, right = (x(100.0 * edge / mix.total) for edge in (done, done + many))
            text = f"{mix.name}: {many} {kind} edits, {percent(many / mix.total)}"
            yield element(
                "rect", tooltip(text, mix.about), x=left, y=top + 4, width=right - left, height=19, fill=FILLS[kind]
            )
            done += many


def _swatch(kind: EditKind) -> Markup:
    return element("rect", x=-8, y=-6, width=16, height=12, fill=FILLS[kind])
