"""Draw the figures of a report from its data: forest plots of scores, also by demand (Figure 4), hit rates by edit
size (Figure 8); the charts of a board (board_charts.py) and those of edits (edit_charts.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from markupsafe import Markup

from evopolicygym.analysis.analyze import ALL, EntrantSummary, by_conditions, summarize_entrants
from evopolicygym.analysis.edits.kinds import EDITS, SizeClass
from evopolicygym.analysis.leaderboard.aggregates import AggregateRow
from evopolicygym.analysis.leaderboard.build import BoardTable
from evopolicygym.analysis.leaderboard.task_table import TaskTable
from evopolicygym.analysis.stats.hit_rates import HitRate
from evopolicygym.report.baseline_figure import board_figure
from evopolicygym.report.board_charts import cost_pareto, performance_profiles, variance_shares
from evopolicygym.report.edit_charts import EditMix, RunTrack, edit_mix, edit_timeline
from evopolicygym.report.learning_charts import (
    BY_EPISODE,
    BY_STEP,
    NORMALISED,
    Curve,
    board_curves,
    learning_curves,
)
from evopolicygym.report.report_data import ReportData, ReportedRun
from evopolicygym.report.svg import (
    PLAIN,
    Axis,
    EntrantStyle,
    Figure,
    PlotArea,
    distinct_labels,
    element,
    entrant_styles,
    fit_axis,
    group,
    legend,
    line,
    stroke,
    svg_text,
    tooltip,
    x_axis,
    y_axis,
)
from evopolicygym.report.text import number, percent

WIDTH: Final = 760
LEFT: Final = 230
ROW: Final = 26
Key = TypeVar("Key")


@dataclass(frozen=True)
class Figures:
    """Figures by number of the board, name of the task, and conditions (``mix``, ``sizes``, ``curves``, ``steps``).
    Absent ones have nothing to show."""

    standings: dict[int, Figure]
    demands: dict[int, Figure]
    profiles: dict[int, Figure]
    variance: dict[int, Figure]
    scores: dict[tuple[int, str], Figure]
    pareto: dict[int, Figure]
    mix: dict[str, Figure]
    sizes: dict[str, Figure]
    learning: dict[int, Figure]
    baselines: dict[int, Figure]
    curves: dict[tuple[str, str], Figure]
    steps: dict[tuple[str, str], Figure]
    timelines: dict[str, Figure]

    def all(self) -> list[Figure]:
        parts: Sequence[Iterable[Figure]] = (
            self.standings.values(), self.demands.values(), self.profiles.values(), self.variance.values(),
            self.learning.values(), self.baselines.values(), self.scores.values(), self.pareto.values(),
            self.mix.values(), self.sizes.values(), self.curves.values(), self.steps.values(), self.timelines.values(),
        )  # fmt: skip
        return [figure for part in parts for figure in part]


def figures(data: ReportData) -> Figures:
    """Draw every figure that has something to show."""
    about = {entrant.name: entrant.facts for entrant in data.leaderboard.entrants}
    styles = entrant_styles((run.entrant for run in data.runs), about)
    summaries = summarize_entrants([run.diagnosis for run in data.runs])
    groups: dict[str, list[EntrantSummary]] = defaultdict(list)
    for summary in summaries:
        groups[summary.conditions].append(summary)
    numbered = {group: f"-{number}" if number > 1 else "" for number, group in enumerate(groups, 1)}
    under = {words: f", conditions: {words}" if len(groups) > 1 else "" for words in groups}
    parts = _by_task_and_conditions(data.runs)
    boards = dict(enumerate(data.leaderboard.boards, 1))
    tasks = by_task(data.runs)
    names = {task: f"{number:02}-{_safe(task)}" for number, task in enumerate(tasks, 1)}
    return Figures(
        standings=_drawn({number: _standings(number, board, styles) for number, board in boards.items()}),
        demands=_drawn({number: _demands(number, board, styles) for number, board in boards.items()}),
        profiles=_drawn({
            number: performance_profiles(f"profiles-{number}", board.aggregates[0], styles)
            for number, board in boards.items() if board.aggregates
        }),
        variance=_drawn({
            number: variance_shares(f"variance-{number}", board.variance, styles) for number, board in boards.items()
        }),
        scores=_drawn({
            (number, table.task): _scores(number, table, names[table.task], styles)
            for number, board in boards.items() for table in board.tasks
        }),
        pareto=_drawn({
            number: cost_pareto(f"cost-{number}", "Cost and score", board.costs, styles)
            for number, board in boards.items()
        }),
        mix=_drawn({
            words: edit_mix(f"edit-kinds{numbered[words]}", f"Kinds of edits by agent and task group{under[words]}",
                            [_mix(summary, _by_entrant(members), styles) for summary in members])
            for words, members in groups.items()
        }),
        sizes=_drawn({
            words: hits_by_size(f"edit-sizes{numbered[words]}", f"New bests by the size of the edit{under[words]}",
                                _by_entrant(members), styles)
            for words, members in groups.items()
        }),
        learning=_drawn({
            number: learning_curves(f"learning-{number}", "Learning curves from episode 0", board_curves(board), styles,
                                    NORMALISED)
            for number, board in boards.items()
        }),
        baselines=_drawn({number: board_figure(number, board, data.curves) for number, board in boards.items()}),
        curves=_drawn({
            (task, words): _curves(names[task], numbered[words], task + under[words], members, styles)
            for task, words, members in parts
        }),
        steps=_drawn({
            (task, words): _curves_by_step(names[task], numbered[words], task + under[words], members, styles)
            for task, words, members in parts
        }),
        timelines=_drawn({task: _timeline(names[task], task, members, styles) for task, members in tasks.items()}),
    )  # fmt: skip


def by_task(reported: Sequence[ReportedRun]) -> dict[str, list[ReportedRun]]:
    """Group runs by task, sorted by entrant and label."""
    grouped: dict[str, list[ReportedRun]] = defaultdict(list)
    for run in sorted(reported, key=lambda run: (run.diagnosis.summary.task, run.entrant, run.label)):
        grouped[run.diagnosis.summary.task].append(run)
    return dict(grouped)


def _by_task_and_conditions(reported: Sequence[ReportedRun]) -> list[tuple[str, str, list[ReportedRun]]]:
    """Return task, conditions and runs for every curve chart: runs under other conditions do not compare."""
    groups = by_conditions([run.diagnosis for run in reported]).items()
    words = {run.summary.folder: name for name, members in groups for run in members}
    parts: dict[tuple[str, str], list[ReportedRun]] = {}
    for task, members in by_task(reported).items():
        for run in members:
            parts.setdefault((task, words[run.diagnosis.summary.folder]), []).append(run)
    return [(task, name, members) for (task, name), members in parts.items()]


def _drawn(figures: Mapping[Key, Figure | None]) -> dict[Key, Figure]:
    return {key: figure for key, figure in figures.items() if figure}


def _safe(name: str) -> str:
    """Return a name that is safe as part of a file name: tasks may have any name."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)[:60]


def _by_entrant(summaries: Sequence[EntrantSummary]) -> dict[str, EntrantSummary]:
    """Return each entrant's summary over all tasks, or its only one if it played tasks of one demand."""
    kept: dict[str, EntrantSummary] = {}
    for summary in summaries:
        if summary.entrant not in kept or summary.tasks == ALL:
            kept[summary.entrant] = summary
    return kept


def _mix(summary: EntrantSummary, agents: Mapping[str, EntrantSummary], styles: Mapping[str, EntrantStyle]) -> EditMix:
    """Return the mix of edits; the label names the demand only where the entrant played several."""
    name = f"{summary.entrant}: {summary.tasks} tasks" if agents[summary.entrant].tasks == ALL else summary.entrant
    return EditMix(name, {kind: summary.edits[kind].n for kind in EDITS}, styles[summary.entrant].about)


def _standings(number: int, board: BoardTable, styles: Mapping[str, EntrantStyle]) -> Figure | None:
    whole = board.aggregates[0] if board.aggregates else None
    points = [_standing(row, row.entrant, styles) for row in whole.standings] if whole else []
    return forest(
        f"standings-{number}", f"Normalised score over {whole.name if whole else ''}", "normalised score", points
    )


def _demands(number: int, board: BoardTable, styles: Mapping[str, EntrantStyle]) -> Figure | None:
    """Draw the normalised scores on tasks of each demand (Figure 4 of the paper) and of each family."""
    points = [
        _standing(row, f"{part.name}: {row.entrant}", styles) for part in board.aggregates[1:] for row in part.standings
    ]
    return forest(f"demands-{number}", "Normalised score by demand and family", "normalised score", points)


def _standing(row: AggregateRow, name: str, styles: Mapping[str, EntrantStyle]) -> ForestPoint:
    interval = row.normalised.interval
    low, high = (interval.low, interval.high) if interval else (None, None)
    return ForestPoint(name, row.normalised.value, low, high, styles.get(row.entrant, PLAIN))


def _scores(number: int, table: TaskTable, name: str, styles: Mapping[str, EntrantStyle]) -> Figure | None:
    dots = [
        ForestPoint(row.entrant, row.score, row.interval.low if row.interval else None,
            row.interval.high if row.interval else None, styles.get(row.entrant, PLAIN))
        for row in table.rows
    ]  # fmt: skip
    return forest(f"{name}-scores-{number}", f"Held-out scores on {table.task}", "held-out mean return", dots)


def _curves(
    name: str, suffix: str, task: str, members: Sequence[ReportedRun], styles: Mapping[str, EntrantStyle]
) -> Figure | None:
    curves = [
        Curve(run.entrant, run.label, tuple((point.consumed, point.best) for point in run.diagnosis.progress.curve),
              run.diagnosis.spending.charged)
        for run in members
    ]  # fmt: skip
    return learning_curves(
        f"{name}-curves{suffix}", f"Best validation mean so far on {task}", curves, styles, BY_EPISODE
    )


def _curves_by_step(
    name: str, suffix: str, task: str, members: Sequence[ReportedRun], styles: Mapping[str, EntrantStyle]
) -> Figure | None:
    curves = [
        Curve(run.entrant, run.label, tuple((point.steps, point.best) for point in learning.points), learning.steps)
        for run in members if (learning := run.diagnosis.learning)
    ]  # fmt: skip
    title = f"Best validation mean so far by steps, on {task}"
    return learning_curves(f"{name}-steps{suffix}", title, curves, styles, BY_STEP)


def _timeline(
    name: str, task: str, members: Sequence[ReportedRun], styles: Mapping[str, EntrantStyle]
) -> Figure | None:
    tracks = [RunTrack(run.label, _conditions(run), run.diagnosis.timeline, run.diagnosis.phases,
                       styles[run.entrant].about) for run in members]  # fmt: skip
    return edit_timeline(f"{name}-timeline", f"Submissions and phases on {task}", tracks)


def _conditions(run: ReportedRun) -> str:
    """Return text, variant and feedback of a run."""
    board = run.diagnosis.board
    return f"{board['text']} text, {board['variant']}, {board['feedback']}"


@dataclass(frozen=True)
class ForestPoint:
    """One row of a forest plot."""

    name: str
    value: float
    low: float | None
    high: float | None
    style: EntrantStyle


def forest(name: str, title: str, axis: str, dots: Sequence[ForestPoint]) -> Figure | None:
    """Draw a row with value and interval for each point; a dot without whiskers has no interval."""
    if not dots:
        return None
    box = PlotArea(LEFT, 8, WIDTH - 20, 8 + ROW * len(dots))
    values = [value for dot in dots for value in (dot.value, dot.low, dot.high) if value is not None]
    x = fit_axis(values, box.left, box.right)
    labels = distinct_labels([dot.name for dot in dots], LEFT - 10)
    rows = [_row(dot, labels[dot.name], box.top + ROW * (i + 0.5), x) for i, dot in enumerate(dots)]
    return Figure(name, title, WIDTH, int(box.bottom + 44), group([*x_axis(box, x, axis), *rows]))


def _row(dot: ForestPoint, name: str, y: float, x: Axis) -> Markup:
    span = "no interval" if dot.low is None else f"{number(dot.low)} to {number(dot.high)}"
    parts = [
        tooltip(f"{dot.name}: {number(dot.value)}, {span}", dot.style.about),
        svg_text(LEFT - 8, y + 4, name, "end"),
    ]
    if dot.low is not None and dot.high is not None:
        parts.append(line(x(dot.low), y, x(dot.high), y, stroke=dot.style.colour, stroke_width=2.0))
    return group([*parts, element("circle", cx=x(dot.value), cy=y, r=4.5, fill=dot.style.colour)])


def hits_by_size(
    name: str, title: str, agents: Mapping[str, EntrantSummary], styles: Mapping[str, EntrantStyle]
) -> Figure | None:
    """Draw for each size of edit the share that was a new best, by agent."""
    with_edits = {label: agent for label, agent in agents.items() if any(rate.n for rate in agent.sizes.values())}
    if not with_edits:
        return None
    box = PlotArea(70, 24, WIDTH - 20, 250)
    y = Axis(0.0, 100.0, box.bottom, box.top)
    step = (box.right - box.left) / len(SizeClass)
    marks = [
        _rate(label, size, agent.sizes[size], box.left + step * (i + (j + 1) / (len(with_edits) + 1)), y, styles[label])
        for i, size in enumerate(SizeClass)
        for j, (label, agent) in enumerate(with_edits.items())
        if agent.sizes[size].n
    ]
    key, height = legend(
        [(stroke(styles[label]), label) for label in with_edits], box.left, 306, box.right - box.left, styles
    )
    body = group([*y_axis(box, y, "edits that were a new best (%)"), *_sizes(box, step), *marks, key])
    return Figure(name, title, WIDTH, int(300 + height), body)


def _sizes(box: PlotArea, step: float) -> Iterator[Markup]:
    yield line(box.left, box.bottom, box.right, box.bottom, class_="axis")
    for i, size in enumerate(SizeClass):
        yield svg_text(box.left + step * (i + 0.5), box.bottom + 16, size, "middle")
    yield svg_text((box.left + box.right) / 2, box.bottom + 34, "size of the edit (share of changed lines)", "middle")


def _rate(label: str, size: SizeClass, rate: HitRate, at: float, y: Axis, style: EntrantStyle) -> Markup:
    assert rate.rate is not None and rate.low is not None and rate.high is not None
    text = (
        f"{label}, {size}: {rate.hits} of {rate.n}, {percent(rate.rate)} ({percent(rate.low)} to {percent(rate.high)})"
    )
    whisker = line(at, y(100 * rate.low), at, y(100 * rate.high), stroke=style.colour, stroke_width=2.0)
    dot = element("circle", cx=at, cy=y(100 * rate.rate), r=4.5, fill=style.colour)
    return group(
        [
            tooltip(text, style.about),
            whisker,
            dot,
            svg_text(at, y(100 * rate.high) - 4, rate.n, "middle quiet", font_size=10),
        ]
    )
