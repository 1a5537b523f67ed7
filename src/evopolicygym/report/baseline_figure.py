"""Draw scores against episodes on a logarithmic axis, one panel for each task: agents and baselines at a run's budget,
and learning curves of baselines beyond it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from evopolicygym.analysis.leaderboard.build import BoardTable
from evopolicygym.analysis.leaderboard.task_results import EntryKind
from evopolicygym.reference.baselines import BaselineRun, mean_and_deviation, scores_of
from evopolicygym.reference.curves import CurveRecord
from evopolicygym.reference.paper import BUDGET, RANDOM, published
from evopolicygym.reference.scales import Scale, scales
from evopolicygym.report.svg import (
    GREY,
    SLATE,
    Axis,
    EntrantStyle,
    Figure,
    PlotArea,
    element,
    group,
    legend,
    line,
    ordered_styles,
    stroke,
    svg_text,
    tooltip,
)
from evopolicygym.report.text import number

COLUMNS: Final = 4
WIDTH: Final = 1000
PANEL: Final = (232, 168)  # width and height of a panel, with its title
LEFT: Final = 40
TOP: Final = 8
LOWEST: Final = -0.2  # of the normalised score; what is beyond is drawn here
HIGHEST: Final = 1.15
BELOW: Final = -0.32  # lower end of the axis, so that marks at the lowest score do not cover its labels
FEWEST_EPISODES: Final = 8
NAME: Final = "baselines"
X_LABEL: Final = (
    "train episodes, logarithmic (dotted: 128, the budget of a run); height: 0 is the best trivial policy, 1 the expert"
)
SPREAD: Final = 5.0  # pixels between marks that would hide each other
TITLE: Final = "Scores against train episodes: 0 is the best trivial policy, 1 the expert"
# Shapes of agents, about their centre; agents beyond these have the same shapes, hollow.
SHAPES: Final = (
    ((-4.0, -4.0), (4.0, -4.0), (0.0, 4.0)),
    ((0.0, -4.8), (4.8, 0.0), (0.0, 4.8), (-4.8, 0.0)),
    ((-4.0, 4.0), (4.0, 4.0), (0.0, -4.0)),
    tuple((4.4 * math.sin(math.pi * k / 8), -4.4 * math.cos(math.pi * k / 8)) for k in range(16)),
)


@dataclass(frozen=True)
class Dot:
    """A score after so many episodes."""

    entrant: str
    episodes: float
    score: float


@dataclass(frozen=True)
class Panel:
    """Drawing of one task: scores of agents (grey shapes) and baselines (squares), and learning curves."""

    task: str
    scale: Scale
    agents: tuple[Dot, ...]
    baselines: tuple[Dot, ...]
    curves: tuple[CurveRecord, ...]


def published_agents() -> dict[str, list[Dot]]:
    """Return the agents of the paper's Table 1, by task."""
    return {
        task: [Dot(agent, BUDGET, score) for agent, score in row.items() if agent != RANDOM]
        for task, row in published().items()
    }


def baseline_figure(
    agents: Mapping[str, Sequence[Dot]], rows: Sequence[BaselineRun], curves: Sequence[CurveRecord]
) -> Figure | None:
    """Draw a panel for each task that has a scale and something measured; None if there is none."""
    panels = [panel for task in scales() if (panel := _panel(task, agents.get(task, ()), rows, curves))]
    if not panels:
        return None
    marks = Marks(_agents(panels), _styles(panels))
    furthest = max((point.episodes for panel in panels for curve in panel.curves for point in curve.points), default=1)
    x_range = (math.log10(FEWEST_EPISODES), math.log10(max(furthest, 10 * BUDGET)))
    parts = [_draw(panel, index, x_range, marks) for index, panel in enumerate(panels)]
    bottom = TOP + PANEL[1] * math.ceil(len(panels) / COLUMNS) + 24
    parts.append(svg_text(WIDTH / 2, bottom - 6, X_LABEL, "middle"))
    key, height = legend(list(_entries(panels, marks)), LEFT, bottom + 14, WIDTH - LEFT - 20)
    return Figure(NAME, TITLE, WIDTH, int(bottom + height + 14), group([*parts, key]))


def board_figure(number: int, board: BoardTable, curves: Sequence[CurveRecord]) -> Figure | None:
    """Draw the entrants of a board on the tasks where learning curves were measured under its conditions."""
    tasks = {exchange.task for exchange in board.exchange_rates}
    budget = board.conditions.get("budget", BUDGET)
    agents = {
        table.task: [Dot(row.entrant, budget, row.score) for row in table.rows if row.kind is not EntryKind.ANCHOR]
        for table in board.tasks
        if table.task in tasks
    }
    figure = baseline_figure(agents, (), [curve for curve in curves if curve.task in tasks])
    return replace(figure, name=f"{NAME}-{number}") if figure else None


def _panel(
    task: str, agents: Sequence[Dot], rows: Sequence[BaselineRun], curves: Sequence[CurveRecord]
) -> Panel | None:
    trained = tuple(curve for curve in curves if curve.task == task and curve.points)
    names = sorted({row.agent for row in rows if row.task == task})
    means = {name: mean_and_deviation(scores_of(rows, task, name)) for name in names}
    dots = tuple(Dot(name, BUDGET, scores[0]) for name, scores in means.items() if scores)
    return Panel(task, scales()[task], tuple(agents), dots, trained) if trained or dots or agents else None


@dataclass(frozen=True)
class Marks:
    """Marks that distinguish entrants: agents by shape, in one colour; baselines by colour, in runs and curves."""

    agents: Sequence[str]
    styles: Mapping[str, EntrantStyle]

    def agent(self, name: str, x: float, y: float) -> Markup:
        index = self.agents.index(name)
        corners = [f"{x + dx:.1f} {y + dy:.1f}" for dx, dy in SHAPES[index % len(SHAPES)]]
        fill = SLATE if index < len(SHAPES) else "none"
        return element("path", d=f"M{'L'.join(corners)}Z", fill=fill, stroke=SLATE, stroke_width=1.4)

    def baseline(self, name: str, x: float, y: float) -> Markup:
        style = self.styles[name]
        corner = {"x": x - 3.6, "y": y - 3.6, "width": 7.2, "height": 7.2, "fill": "none"}
        return element("rect", **corner, stroke=style.colour, stroke_width=2.0, stroke_dasharray=style.dash)


def _agents(panels: Sequence[Panel]) -> list[str]:
    return sorted({dot.entrant for panel in panels for dot in panel.agents})


def _styles(panels: Sequence[Panel]) -> dict[str, EntrantStyle]:
    """Give the baselines styles, those with learning curves first: their lines are told apart by colour alone."""
    trained = {curve.algorithm for panel in panels for curve in panel.curves}
    played = {dot.entrant for panel in panels for dot in panel.baselines}
    return ordered_styles([*sorted(trained), *sorted(played - trained)])


def _draw(panel: Panel, index: int, x_range: tuple[float, float], marks: Marks) -> Markup:
    row, column = divmod(index, COLUMNS)
    left, top = LEFT + column * (PANEL[0] + 6), TOP + row * PANEL[1]
    box = PlotArea(left, top + 20, left + PANEL[0] - 18, top + PANEL[1] - 22)
    x = Axis(*x_range, box.left, box.right)
    y = Axis(BELOW, HIGHEST, box.bottom, box.top)
    parts = [
        svg_text((box.left + box.right) / 2, top + 13, panel.task.removeprefix("core16/"), "middle"),
        *_axes(box, x, y, is_first=column == 0),
        *(_curve(curve, panel.scale, x, y, marks.styles[curve.algorithm]) for curve in panel.curves),
        *_dots(panel.baselines, panel.scale, x, y, marks.baseline),
        *_dots(panel.agents, panel.scale, x, y, marks.agent),
    ]
    return group(parts)


def _axes(box: PlotArea, x: Axis, y: Axis, is_first: bool) -> Iterator[Markup]:
    for power in range(math.ceil(x.low), math.floor(x.high) + 1):
        yield line(x(power), box.top, x(power), box.bottom, class_="grid")
        yield svg_text(x(power), box.bottom + 14, _power(power), "middle quiet")
    for height in (0.0, 0.5, 1.0):
        yield line(box.left, y(height), box.right, y(height), class_="axis" if height != 0.5 else "grid")
        if is_first:
            yield svg_text(box.left - 6, y(height) + 4, number(height), "end quiet")
    at = x(math.log10(BUDGET))
    yield line(at, box.top, at, box.bottom, stroke=GREY, stroke_width=1.0, stroke_dasharray="2 3")


def _power(power: int) -> str:
    return f"{10 ** (power % 3)}{('', 'k', 'M', 'G', 'T', 'P')[power // 3]}"


def _curve(curve: CurveRecord, scale: Scale, x: Axis, y: Axis, style: EntrantStyle) -> Markup:
    """Draw the score of a learner that stops after so many episodes, selected on validation."""
    points = [(max(point.episodes, FEWEST_EPISODES), _height(score, scale)) for point, score in curve.selected()]
    (first, height), *later = points
    path = f"M{x(math.log10(first)):.1f} {y(height):.1f}"
    path += "".join(f"H{x(math.log10(episodes)):.1f}V{y(height):.1f}" for episodes, height in later)
    text = f"{curve.algorithm}, seed {curve.seed}: {number(curve.score)} after {number(points[-1][0])} episodes"
    drawn = element("path", d=path, fill="none", stroke=style.colour, stroke_width=1.6, stroke_dasharray=style.dash)
    return group([tooltip(text), drawn])


def _dots(
    dots: Sequence[Dot], scale: Scale, x: Axis, y: Axis, mark: Callable[[str, float, float], Markup]
) -> Iterator[Markup]:
    """Draw marks side by side, in the order of their names."""
    for index, dot in enumerate(sorted(dots, key=lambda dot: dot.entrant)):
        at = x(math.log10(max(dot.episodes, FEWEST_EPISODES))) + SPREAD * (index - (len(dots) - 1) / 2)
        text = tooltip(f"{dot.entrant}: {number(dot.score)} after {number(dot.episodes)} episodes")
        yield group([text, mark(dot.entrant, at, y(_height(dot.score, scale)))])


def _height(score: float, scale: Scale) -> float:
    return min(max(scale.normalise(score), LOWEST), HIGHEST)


def _entries(panels: Sequence[Panel], marks: Marks) -> Iterator[tuple[Markup, str]]:
    for name in marks.agents:
        yield marks.agent(name, 0.0, 0.0), name
    for name in sorted({dot.entrant for panel in panels for dot in panel.baselines}):
        yield marks.baseline(name, 0.0, 0.0), f"{name} in a run"
    for name in sorted({curve.algorithm for panel in panels for curve in panel.curves}):
        yield stroke(marks.styles[name]), f"{name}, learning curve"
