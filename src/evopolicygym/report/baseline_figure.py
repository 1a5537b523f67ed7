"""Draw scores against episodes on a logarithmic axis, one panel for each task: agents and baselines at a run's budget,
and learning curves of baselines beyond it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
    Axis,
    EntrantStyle,
    Figure,
    PlotArea,
    element,
    entrant_styles,
    group,
    legend,
    line,
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
LOWEST: Final = -0.2  # of the normalised score; what is beyond stands at the edge
HIGHEST: Final = 1.15
FEWEST_EPISODES: Final = 8
NAME: Final = "baselines"
X_LABEL: Final = (
    "train episodes, logarithmic (dotted: 128, the budget of a run); height: 0 is the best trivial policy, 1 the expert"
)
SPREAD: Final = 5.0  # pixels between marks that would hide each other
TITLE: Final = "Scores against train episodes: 0 is the best trivial policy, 1 the expert"


@dataclass(frozen=True)
class Dot:
    """A score after so many episodes."""

    entrant: str
    episodes: float
    score: float


@dataclass(frozen=True)
class Panel:
    """Drawing of one task: scores of agents (circles) and baselines (squares), and learning curves."""

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
    styles = _styles(panels)
    furthest = max((point.episodes for panel in panels for curve in panel.curves for point in curve.points), default=1)
    x_range = (math.log10(FEWEST_EPISODES), math.log10(max(furthest, 10 * BUDGET)))
    parts = [_draw(panel, index, x_range, styles) for index, panel in enumerate(panels)]
    bottom = TOP + PANEL[1] * math.ceil(len(panels) / COLUMNS) + 24
    parts.append(svg_text(WIDTH / 2, bottom - 6, X_LABEL, "middle"))
    key, height = legend(list(_entries(panels, styles)), LEFT, bottom + 14, WIDTH - LEFT - 20)
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


def _styles(panels: Sequence[Panel]) -> dict[str, EntrantStyle]:
    names = {dot.entrant for panel in panels for dot in (*panel.agents, *panel.baselines)}
    return entrant_styles(names | {curve.algorithm for panel in panels for curve in panel.curves})


def _draw(panel: Panel, index: int, x_range: tuple[float, float], styles: Mapping[str, EntrantStyle]) -> Markup:
    row, column = divmod(index, COLUMNS)
    left, top = LEFT + column * (PANEL[0] + 6), TOP + row * PANEL[1]
    box = PlotArea(left, top + 20, left + PANEL[0] - 18, top + PANEL[1] - 22)
    x = Axis(*x_range, box.left, box.right)
    y = Axis(LOWEST, HIGHEST, box.bottom, box.top)
    parts = [
        svg_text((box.left + box.right) / 2, top + 13, panel.task.removeprefix("core16/"), "middle"),
        *_axes(box, x, y, is_first=column == 0),
        *(_curve(curve, panel.scale, x, y, styles[curve.algorithm]) for curve in panel.curves),
        *_dots(panel.baselines, panel.scale, x, y, styles, is_agent=False),
        *_dots(panel.agents, panel.scale, x, y, styles, is_agent=True),
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
    dots: Sequence[Dot], scale: Scale, x: Axis, y: Axis, styles: Mapping[str, EntrantStyle], is_agent: bool
) -> Iterator[Markup]:
    """Draw marks side by side, in the order of their names."""
    for index, dot in enumerate(sorted(dots, key=lambda dot: dot.entrant)):
        at = x(math.log10(max(dot.episodes, FEWEST_EPISODES))) + SPREAD * (index - (len(dots) - 1) / 2)
        text = tooltip(f"{dot.entrant}: {number(dot.score)} after {number(dot.episodes)} episodes")
        yield group([text, _mark(at, y(_height(dot.score, scale)), styles[dot.entrant], is_agent)])


def _mark(x: float, y: float, style: EntrantStyle, is_agent: bool) -> Markup:
    if is_agent:
        return element("circle", cx=x, cy=y, r=4.2, fill=style.colour)
    corner = {"x": x - 3.6, "y": y - 3.6}
    return element("rect", **corner, width=7.2, height=7.2, fill="none", stroke=style.colour, stroke_width=2.0)


def _height(score: float, scale: Scale) -> float:
    return min(max(scale.normalise(score), LOWEST), HIGHEST)


def _entries(panels: Sequence[Panel], styles: Mapping[str, EntrantStyle]) -> Iterator[tuple[Markup, str]]:
    for name in sorted({dot.entrant for panel in panels for dot in panel.agents}):
        yield _mark(0.0, 0.0, styles[name], is_agent=True), name
    for name in sorted({dot.entrant for panel in panels for dot in panel.baselines}):
        yield _mark(0.0, 0.0, styles[name], is_agent=False), f"{name} in a run"
    for name in sorted({curve.algorithm for panel in panels for curve in panel.curves}):
        yield stroke(styles[name]), f"{name}, learning curve"
