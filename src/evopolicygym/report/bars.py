"""Figure 4: of which kinds the edits of each agent were, as bars that fill the whole width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from evopolicygym.analysis.edits.kinds import EDITS, Kind
from evopolicygym.report.legends import legend
from evopolicygym.report.scales import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, Box, Scale, below
from evopolicygym.report.svg import Figure, element, group, hint, words
from evopolicygym.report.text import percent
from evopolicygym.report.widths import within

WIDTH: Final = 760
LEFT: Final = 230
ROW: Final = 28
FILLS: Final[Mapping[Kind, str]] = {
    Kind.SYNTHESIS: BLUE,
    Kind.PARAMETRIC: ORANGE,
    Kind.ROLLBACK: PURPLE,
    Kind.COSMETIC: SKY,
    Kind.DATA: GREEN,
    Kind.RETEST: VERMILION,
    Kind.UNKNOWN: GREY,
}


@dataclass(frozen=True)
class Mix:
    """How many edits of each kind there were."""

    name: str
    numbers: Mapping[Kind, int]

    @property
    def total(self) -> int:
        return sum(self.numbers.values())


def edit_mix(name: str, title: str, mixes: Sequence[Mix]) -> Figure | None:
    """None when nobody edited."""
    drawn = [mix for mix in mixes if mix.total]
    if not drawn:
        return None
    box = Box(LEFT, 8, WIDTH - 70, 8 + ROW * len(drawn))
    x = Scale(0.0, 100.0, box.left, box.right)
    rows = [_bar(mix, box.top + ROW * i, x) for i, mix in enumerate(drawn)]
    used = [kind for kind in EDITS if any(mix.numbers.get(kind) for mix in drawn)]
    key, height = legend([(_swatch(kind), str(kind)) for kind in used], 20, box.bottom + 54, WIDTH - 40)
    axis = below(box, x, "share of edits (%)")
    return Figure(name, title, WIDTH, int(box.bottom + 48 + height), group([*axis, *rows, key]))


def _bar(mix: Mix, top: float, x: Scale) -> Markup:
    label = group([hint(mix.name), words(LEFT - 8, top + 17, within(mix.name, LEFT - 10), "end")])
    count = words(x(100.0) + 6, top + 17, f"n = {mix.total}", "quiet")
    return group([label, *_parts(mix, top, x), count])


def _parts(mix: Mix, top: float, x: Scale) -> Iterator[Markup]:
    done = 0
    for kind in EDITS:
        if many := mix.numbers.get(kind, 0):
            left, right = (x(100.0 * edge / mix.total) for edge in (done, done + many))
            text = f"{mix.name}: {many} {kind} edits, {percent(many / mix.total)}"
            yield element("rect", hint(text), x=left, y=top + 4, width=right - left, height=19, fill=FILLS[kind])
            done += many


def _swatch(kind: Kind) -> Markup:
    return element("rect", x=-8, y=-6, width=16, height=12, fill=FILLS[kind])
