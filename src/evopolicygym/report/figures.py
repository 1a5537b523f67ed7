"""Draw the figures of a report from its data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeVar

from evopolicygym.analysis.analyze import ALL, EntrantSummary, summarize_entrants
from evopolicygym.analysis.edits.kinds import EDITS
from evopolicygym.analysis.leaderboard.build import BoardTable
from evopolicygym.analysis.leaderboard.task_table import TaskTable
from evopolicygym.report.edit_charts import Curve, EditMix, RunTrack, best_so_far, edit_mix, edit_timeline
from evopolicygym.report.report_data import ReportData, RunStory
from evopolicygym.report.score_charts import ForestPoint, cost_pareto, forest, hits_by_size
from evopolicygym.report.svg import GREY, EntrantStyle, Figure, entrant_styles

Key = TypeVar("Key")


@dataclass(frozen=True)
class Figures:
    """Figures by number of the board and name of the task. Absent ones have nothing to show."""

    standings: dict[int, Figure]
    scores: dict[tuple[int, str], Figure]
    pareto: dict[int, Figure]
    mix: Figure | None
    sizes: Figure | None
    curves: dict[str, Figure]
    timelines: dict[str, Figure]

    def all(self) -> list[Figure]:
        parts: Sequence[Iterable[Figure]] = (
            self.standings.values(), self.scores.values(), self.pareto.values(),
            [figure for figure in (self.mix, self.sizes) if figure], self.curves.values(), self.timelines.values(),
        )  # fmt: skip
        return [figure for part in parts for figure in part]


def figures(data: ReportData) -> Figures:
    """Draw every figure that has something to show."""
    styles = entrant_styles(story.entrant for story in data.stories)
    summaries = summarize_entrants([story.diagnosis for story in data.stories])
    agents = _by_entrant(summaries)
    mixes = [_mix(summary, agents) for summary in summaries]
    boards = dict(enumerate(data.leaderboard.boards, 1))
    tasks = by_task(data.stories)
    names = {task: f"{number:02}-{_safe(task)}" for number, task in enumerate(tasks, 1)}
    return Figures(
        standings=_known({number: _standings(number, board, styles) for number, board in boards.items()}),
        scores=_known({
            (number, table.task): _scores(number, table, names[table.task], styles)
            for number, board in boards.items() for table in board.tasks
        }),
        pareto=_known({
            number: cost_pareto(f"cost-{number}", "Cost and score", board.costs, styles)
            for number, board in boards.items()
        }),
        mix=edit_mix("edit-kinds", "Kinds of edits by agent and task group", mixes),
        sizes=hits_by_size("edit-sizes", "New bests by the size of the edit", agents, styles),
        curves=_known({task: _curves(names[task], task, members, styles) for task, members in tasks.items()}),
        timelines=_known({task: _timeline(names[task], task, members) for task, members in tasks.items()}),
    )  # fmt: skip


def by_task(stories: Sequence[RunStory]) -> dict[str, list[RunStory]]:
    """Group runs by task, sorted by entrant and label."""
    grouped: dict[str, list[RunStory]] = defaultdict(list)
    for story in sorted(stories, key=lambda run: (run.diagnosis.summary.task, run.entrant, run.label)):
        grouped[story.diagnosis.summary.task].append(story)
    return dict(grouped)


def _known(figures: Mapping[Key, Figure | None]) -> dict[Key, Figure]:
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


def _mix(summary: EntrantSummary, agents: Mapping[str, EntrantSummary]) -> EditMix:
    """Return the mix of edits; the label names the demand only where the entrant played several."""
    name = f"{summary.entrant}: {summary.tasks} tasks" if agents[summary.entrant].tasks == ALL else summary.entrant
    return EditMix(name, {kind: summary.edits[kind].n for kind in EDITS})


def _colour(name: str, styles: Mapping[str, EntrantStyle]) -> str:
    return styles[name].colour if name in styles else GREY


def _standings(number: int, board: BoardTable, styles: Mapping[str, EntrantStyle]) -> Figure | None:
    whole = board.aggregates[0] if board.aggregates else None
    dots = [
        ForestPoint(row.entrant, row.normalised.value, interval.low if interval else None,
                    interval.high if interval else None, _colour(row.entrant, styles))
        for row in (whole.standings if whole else ()) for interval in [row.normalised.interval]
    ]  # fmt: skip
    return forest(
        f"standings-{number}", f"Normalised score over {whole.name if whole else ''}", "normalised score", dots
    )


def _scores(number: int, table: TaskTable, name: str, styles: Mapping[str, EntrantStyle]) -> Figure | None:
    dots = [
        ForestPoint(row.entrant, row.score, row.interval.low if row.interval else None,
            row.interval.high if row.interval else None, _colour(row.entrant, styles))
        for row in table.rows
    ]  # fmt: skip
    return forest(f"{name}-scores-{number}", f"Held-out scores on {table.task}", "held-out mean return", dots)


def _curves(name: str, task: str, members: Sequence[RunStory], styles: Mapping[str, EntrantStyle]) -> Figure | None:
    curves = [
        Curve(run.entrant, run.label, run.diagnosis.progress.curve, run.diagnosis.spending.charged) for run in members
    ]
    return best_so_far(f"{name}-curves", f"Best validation mean so far on {task}", curves, styles)


def _timeline(name: str, task: str, members: Sequence[RunStory]) -> Figure | None:
    labels = _distinct([run.label for run in members])
    tracks = [
        RunTrack(label, run.diagnosis.timeline, run.diagnosis.phases)
        for label, run in zip(labels, members, strict=True)
    ]
    return edit_timeline(f"{name}-timeline", f"Submissions and phases on {task}", tracks)


def _distinct(names: Sequence[str]) -> list[str]:
    """Drop the parts, separated by `__`, that all names begin with: usually the task."""
    parts = [name.split("__") for name in names]
    shared = takewhile(lambda part: len(set(part)) == 1, zip(*parts, strict=False))
    common = len(list(shared)) if len(parts) > 1 else 0
    return ["__".join(part[common:]) or name for part, name in zip(parts, names, strict=True)]
