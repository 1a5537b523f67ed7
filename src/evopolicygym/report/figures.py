"""Which figures a report has, drawn from what was gathered."""

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
from evopolicygym.report.axes import GREY, EntrantStyle, entrant_styles
from evopolicygym.report.edit_charts import Curve, EditMix, RunTrack, best_so_far, edit_mix, edit_timeline
from evopolicygym.report.report_data import ReportData, RunStory
from evopolicygym.report.score_charts import ForestPoint, cost_pareto, forest, hits_by_size
from evopolicygym.report.svg import Figure

Key = TypeVar("Key")


@dataclass(frozen=True)
class Figures:
    """Null and missing ones have nothing to show. Boards and tasks by their place in the leaderboard."""

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
            [one for one in (self.mix, self.sizes) if one], self.curves.values(), self.timelines.values(),
        )  # fmt: skip
        return [figure for part in parts for figure in part]


def figures(gathered: ReportData) -> Figures:
    colours = entrant_styles(story.entrant for story in gathered.stories)
    found = summarize_entrants([story.diagnosis for story in gathered.stories])
    agents = _agents(found)
    boards = dict(enumerate(gathered.leaderboard.boards, 1))
    tasks = by_task(gathered.stories)
    names = {task: f"{place:02}-{_safe(task)}" for place, task in enumerate(tasks, 1)}
    return Figures(
        standings=_known({place: _standings(place, board, colours) for place, board in boards.items()}),
        scores=_known({
            (place, table.task): _scores(place, table, names[table.task], colours)
            for place, board in boards.items() for table in board.tasks
        }),
        pareto=_known({
            place: cost_pareto(f"cost-{place}", "Cost and score", board.costs, colours)
            for place, board in boards.items()
        }),
        mix=edit_mix("edit-kinds", "Kinds of edits by agent and task group", [_mix(one, agents) for one in found]),
        sizes=hits_by_size("edit-sizes", "New bests by the size of the edit", agents, colours),
        curves=_known({task: _curves(names[task], task, members, colours) for task, members in tasks.items()}),
        timelines=_known({task: _timeline(names[task], task, members) for task, members in tasks.items()}),
    )  # fmt: skip


def by_task(stories: Sequence[RunStory]) -> dict[str, list[RunStory]]:
    found: dict[str, list[RunStory]] = defaultdict(list)
    for story in sorted(stories, key=lambda one: (one.diagnosis.summary.task, one.entrant, one.label)):
        found[story.diagnosis.summary.task].append(story)
    return dict(found)


def _known(found: Mapping[Key, Figure | None]) -> dict[Key, Figure]:
    return {key: figure for key, figure in found.items() if figure}


def _safe(name: str) -> str:
    """Part of the name of a file: tasks may have any name."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)[:60]


def _agents(found: Sequence[EntrantSummary]) -> dict[str, EntrantSummary]:
    """Over all tasks of each entrant; it is the only group of one that played tasks of one demand."""
    kept: dict[str, EntrantSummary] = {}
    for one in found:
        if one.entrant not in kept or one.tasks == ALL:
            kept[one.entrant] = one
    return kept


def _mix(one: EntrantSummary, agents: Mapping[str, EntrantSummary]) -> EditMix:
    """Of whoever played tasks of one demand there is no need to say which."""
    name = f"{one.entrant}: {one.tasks} tasks" if agents[one.entrant].tasks == ALL else one.entrant
    return EditMix(name, {kind: one.edits[kind].n for kind in EDITS})


def _colour(name: str, colours: Mapping[str, EntrantStyle]) -> str:
    return colours[name].colour if name in colours else GREY


def _standings(place: int, board: BoardTable, colours: Mapping[str, EntrantStyle]) -> Figure | None:
    whole = board.aggregates[0] if board.aggregates else None
    dots = [
        ForestPoint(one.entrant, one.normalised.value, held.low if held else None, held.high if held else None,
            _colour(one.entrant, colours))
        for one in (whole.standings if whole else ()) for held in [one.normalised.interval]
    ]  # fmt: skip
    return forest(
        f"standings-{place}", f"Normalised score over {whole.name if whole else ''}", "normalised score", dots
    )


def _scores(place: int, table: TaskTable, name: str, colours: Mapping[str, EntrantStyle]) -> Figure | None:
    dots = [
        ForestPoint(row.entrant, row.score, row.interval.low if row.interval else None,
            row.interval.high if row.interval else None, _colour(row.entrant, colours))
        for row in table.rows
    ]  # fmt: skip
    return forest(f"{name}-scores-{place}", f"Held-out scores on {table.task}", "held-out mean return", dots)


def _curves(name: str, task: str, members: Sequence[RunStory], colours: Mapping[str, EntrantStyle]) -> Figure | None:
    curves = [
        Curve(one.entrant, one.label, one.diagnosis.progress.curve, one.diagnosis.spending.charged) for one in members
    ]
    return best_so_far(f"{name}-curves", f"Best validation mean so far on {task}", curves, colours)


def _timeline(name: str, task: str, members: Sequence[RunStory]) -> Figure | None:
    told = _distinct([one.label for one in members])
    tracks = [
        RunTrack(name, one.diagnosis.timeline, one.diagnosis.phases) for name, one in zip(told, members, strict=True)
    ]
    return edit_timeline(f"{name}-timeline", f"Submissions and phases on {task}", tracks)


def _distinct(names: Sequence[str]) -> list[str]:
    """Without the parts, divided by `__`, that all names begin with: the task, as a rule."""
    parts = [name.split("__") for name in names]
    shared = takewhile(lambda part: len(set(part)) == 1, zip(*parts, strict=False))
    common = len(list(shared)) if len(parts) > 1 else 0
    return ["__".join(one[common:]) or name for one, name in zip(parts, names, strict=True)]
