"""The tables of a report as rows of text; the template only lays them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from evopolicygym.analysis.analyze import EntrantSummary
from evopolicygym.analysis.diagnostics import CodeSize
from evopolicygym.analysis.edits.kinds import EDITS
from evopolicygym.analysis.leaderboard.aggregates import Aggregate, AggregateRow
from evopolicygym.analysis.leaderboard.build import CostRow
from evopolicygym.analysis.leaderboard.task_table import TaskRow, TaskTable
from evopolicygym.analysis.stats.coverage import Coverage
from evopolicygym.analysis.stats.estimates import FULL_SCOPE, Interval, Number
from evopolicygym.analysis.stats.hit_rates import HitRate
from evopolicygym.analysis.stats.ranks import RankInterval
from evopolicygym.report.text import UNKNOWN, number, percent


@dataclass(frozen=True)
class TextTable:
    """The first ``words`` columns and those in ``notes`` hold text, the others numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    notes: Sequence[str] = ("notes", "interval of")


def standings(whole: Aggregate) -> TextTable:
    columns = ("entrant", "place", "score", "95 % interval", "places", "P(first)", "rank score", "wins", "interval of")
    return TextTable(f"{whole.name}: {whole.tasks} tasks", columns, [_standing(one) for one in whole.standings])


def beside(whole: Aggregate) -> TextTable:
    """Other ways to sum up the same scores."""
    columns = ("entrant", "interquartile mean", "optimality gap", "P(improvement) on the next", "paper's normalised")
    following = [*whole.standings[1:], None]
    rows = [_beside(one, after) for one, after in zip(whole.standings, following, strict=True)]
    return TextTable(f"{whole.name}: other aggregates", columns, rows)


def scores(table: TaskTable) -> TextTable:
    columns = ("entrant", "rank", "runs", "checkpoints", "score", "95 % interval", "places", "P(first)", "normalised",
               "validation − held-out", "notes")  # noqa: RUF001  # fmt: skip
    title = f"{table.task}: N = {table.entrants}, {table.cases} held-out cases"
    return TextTable(title, columns, [_score(row) for row in table.rows])


def published(rows: Mapping[str, Mapping[str, float]]) -> TextTable:
    """The paper's numbers where they were not measured like these runs."""
    agents = list(dict.fromkeys(agent for row in rows.values() for agent in row))
    found = [(task, *(number(row.get(agent)) for agent in agents)) for task, row in rows.items()]
    return TextTable("For reference only: the paper's rows, measured under other conditions", ("task", *agents), found)


def costs(rows: Sequence[CostRow]) -> TextTable:
    columns = (
        "entrant",
        "runs",
        "checkpoints",
        "input tokens",
        "cached",
        "output",
        "dollars",
        "minutes",
        "score per dollar",
        "Pareto",
    )
    return TextTable("Cost, means over runs", columns, [_cost(row) for row in rows])


def hit_rates(found: Sequence[EntrantSummary]) -> TextTable:
    """TextTable 4, for all kinds of edits that there were."""
    rows = [
        (*_group(one), str(kind), str(one.runs), str(rate.hits), str(rate.n), *_rate(rate))
        for one in found for kind in EDITS if (rate := one.edits[kind]).n
    ]  # fmt: skip
    columns = ("agent", "tasks", "edit", "runs", "new bests", "edits", "rate", "95 % interval")
    return TextTable("Hit rates (Table 4)", columns, rows, 3)


def structure(found: Sequence[EntrantSummary]) -> TextTable:
    names = [field.name for field in fields(CodeSize)]
    rows = [
        (*_group(one), str(one.runs), *(number((one.structure or {}).get(name)) for name in names)) for one in found
    ]
    return TextTable("Structure of the selected code (Table 3), means", ("agent", "tasks", "runs", *names), rows, 2)


def _standing(one: AggregateRow) -> tuple[str, ...]:
    return (
        one.entrant, str(one.rank), number(one.normalised.value), _between(one.normalised.interval), _span(one.places),
        number(one.p_first, 3), _with_interval(one.rank_score), str(one.wins),
        "; ".join([one.scope, *_caution(one.coverage)]),
    )  # fmt: skip


def _beside(one: AggregateRow, after: AggregateRow | None) -> tuple[str, ...]:
    better = number(one.p_improvement[after.entrant], 3) if after else UNKNOWN
    middle, gap = _with_interval(one.interquartile_mean), _with_interval(one.optimality_gap)
    return one.entrant, middle, gap, better, number(one.paper_normalised, 3)


def _score(row: TaskRow) -> tuple[str, ...]:
    return (
        row.entrant, str(row.rank), str(row.runs), number(row.checkpoints, 3), number(row.score),
        _between(row.interval), _span(row.places), number(row.p_first, 3), number(row.normalised, 3),
        number(row.selection.optimism if row.selection else None), "; ".join(_notes(row)),
    )  # fmt: skip


def _notes(row: TaskRow) -> Iterator[str]:
    if row.scope != FULL_SCOPE:
        yield row.scope
    if row.interval:
        yield from _caution(row.coverage)
    if row.beats_trivial is False:
        yield "does not beat the best trivial policy"
    yield from row.flags


def _cost(row: CostRow) -> tuple[str, ...]:
    spent = row.cost
    minutes = None if spent.wall_s is None else spent.wall_s / 60
    tokens = (spent.input_tokens, spent.cached_tokens, spent.output_tokens)
    return (
        row.entrant, str(row.runs), number(row.checkpoints, 3),
        *(UNKNOWN if one is None else f"{one:,.0f}" for one in tokens),
        number(spent.dollars, 3), number(minutes, 3), number(row.score_per_dollar),
        {True: "yes", False: "no", None: UNKNOWN}[row.pareto],
    )  # fmt: skip


def _rate(rate: HitRate) -> tuple[str, str]:
    alone = " (this run alone)" if rate.runs == 1 else ""
    return percent(rate.rate), f"{percent(rate.low)} to {percent(rate.high)}{alone}"


def _group(one: EntrantSummary) -> tuple[str, str]:
    return one.entrant, one.tasks


def _between(interval: Interval | None) -> str:
    return UNKNOWN if interval is None else f"{number(interval.low)} to {number(interval.high)}"


def _with_interval(found: Number | None) -> str:
    if found is None:
        return UNKNOWN
    return number(found.value, 3) + (f" [{_between(found.interval)}]" if found.interval else "")


def _span(places: RankInterval) -> str:
    return f"{places.first}" if places.first == places.last else f"{places.first} to {places.last}"


def _caution(coverage: Coverage | None) -> list[str]:
    if coverage is None or coverage.is_nominal:
        return []
    return [f"few runs: holds {coverage.low:.0%} to {coverage.high:.0%} of the time, not 95%"]
