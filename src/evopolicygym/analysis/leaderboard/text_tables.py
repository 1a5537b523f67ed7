"""The tables of a leaderboard as rows of text, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from evopolicygym.analysis.entrants import Entrant
from evopolicygym.analysis.exchange_rate import ExchangeRate
from evopolicygym.analysis.formatting import (
    UNKNOWN,
    coverage_warning,
    describe_policies,
    describe_unchanged,
    describe_wins,
    format_fixed,
    format_gain,
    format_interval,
    format_number,
    format_number_with_interval,
    format_probability,
    format_ranks,
    format_with_interval,
    pluralize,
)
from evopolicygym.analysis.gain import EPISODES, EntrantGain
from evopolicygym.analysis.knowledge_gap import KnowledgeGap
from evopolicygym.analysis.leaderboard.aggregates import Aggregate, AggregateRow
from evopolicygym.analysis.leaderboard.build import BoardTable
from evopolicygym.analysis.leaderboard.keys import KeyTable
from evopolicygym.analysis.leaderboard.sensitivity import Sensitivity
from evopolicygym.analysis.leaderboard.task_table import TaskRow, TaskTable
from evopolicygym.analysis.reference_table import ReferenceTable
from evopolicygym.analysis.stats.by_task import EntrantDifference
from evopolicygym.analysis.stats.estimates import CONFIDENCE_LEVEL, FULL_SCOPE, Number
from evopolicygym.analysis.stats.measured import coverage, measured_coverage, pooled_coverage
from evopolicygym.analysis.stats.ranks import RankInterval

LEVEL: Final = f"{CONFIDENCE_LEVEL:.0%}"
MAX_CHANGES: Final = 6
MAX_DIFFERENCES: Final = 15  # of six entrants; of more, not all pairs are shown


@dataclass(frozen=True)
class TextTable:
    """A table of text.

    The columns named in ``text`` hold words, the others numbers. ``remarks`` is a column of sentences. Where there is
    no room for all columns, those in ``optional`` are left out, in that order.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: Collection[str] = ("task", "entrant")
    remarks: str | None = None
    optional: Sequence[str] = ()


def standings_table(aggregate: Aggregate) -> TextTable:
    """Return the ranking over all tasks of a collection or family."""
    columns = ("rank", "entrant", f"score [{LEVEL}]", "unclipped", "failed", "ranks", "P(first)", "rank score", "wins",
               "top-2", "notes")  # fmt: skip
    rows = [_standing(row) for row in aggregate.standings]
    optional = ("top-2", "wins", "P(first)", "rank score", "unclipped")
    title = f"{aggregate.name}: {aggregate.tasks} tasks"
    return TextTable(title, columns, rows, remarks="notes", optional=optional)


def differences_table(aggregate: Aggregate) -> TextTable:
    """Return the differences of entrants with tasks as the sample: all of them, or, of many entrants, those of
    neighbours and to the first."""
    shown = aggregate.differences
    if len(shown) > MAX_DIFFERENCES:
        order = {row.entrant: rank for rank, row in enumerate(aggregate.standings)}
        shown = tuple(pair for pair in shown if order[pair.first] == 0 or order[pair.second] == order[pair.first] + 1)
    return differences_text(aggregate.name, shown, len(aggregate.differences))


def differences_text(name: str, shown: Sequence[EntrantDifference], pairs: int) -> TextTable:
    """Return differences of two entrants each, which are corrected over so many ``pairs``."""
    columns = ("first", "second", "difference", f"{LEVEL} over tasks", "p", "p (Holm)", "tasks won, sign test")
    tasks = shown[0].test.tasks if shown else 0
    corrected = f"Holm over {pluralize(pairs, 'pair')}; p and sign test are uncorrected"
    title = f"{name}: differences paired by task, t over {tasks} tasks; {corrected}"
    return TextTable(title, columns, [_pair(pair) for pair in shown], text=("first", "second"))


def _pair(pair: EntrantDifference) -> tuple[str, ...]:
    difference = pair.test.difference
    return (pair.first, pair.second, format_fixed(difference.value), format_interval(difference.interval, 3),
            format_probability(pair.test.p), format_probability(pair.p_holm), describe_wins(pair.test))  # fmt: skip


def other_aggregates_table(aggregate: Aggregate) -> TextTable:
    """Return other summaries of the same scores."""
    columns = ("entrant", "interquartile mean", "median", "optimality gap", "P(improvement) on the next",
               "paper's normalised")  # fmt: skip
    following = zip_longest(aggregate.standings, aggregate.standings[1:])
    title = f"{aggregate.name}: other aggregates{_pooled_warning(aggregate)}"
    return TextTable(title, columns, [_other(row, after) for row, after in following])


def _pooled_warning(aggregate: Aggregate) -> str:
    """Say how often intervals of pooled quantities held the truth, where it was too rarely."""
    run_counts = [row.fewest_runs for row in aggregate.standings if row.interquartile_mean.interval]
    names = ("interquartile mean", "optimality gap") if run_counts else ()
    measured = {name: pooled_coverage(name.replace(" ", "_"), aggregate.tasks, min(run_counts)) for name in names}
    return "".join(f"; {name}: {text}" for name, rates in measured.items() for text in coverage_warning(rates))


def task_scores_table(table: TaskTable) -> TextTable:
    """Return the entrants of one task, best first."""
    columns = ("rank", "entrant", "runs", "checkpoints", "score", f"{LEVEL} interval", "first", "gain", "ranks",
               "P(first)", "normalised", "paper's", "rank score", "notes")  # fmt: skip
    optional = ("rank score", "paper's", "normalised", "checkpoints", "first", "P(first)", "runs", "ranks")
    title = f"{table.task}: {table.cases} held-out cases, N = {table.entrants}"
    rows = [_task_row(row, table) for row in table.rows]
    return TextTable(title, columns, rows, remarks="notes", optional=optional)


def feedback_table(board: BoardTable) -> TextTable:
    """Return what the feedback was worth beyond the gain itself, which is in the table of each task."""
    gains = [(table.task, row.entrant, row.gain) for table in board.tasks for row in table.rows if row.gain]
    marks = [mark for mark in EPISODES if any(gain.at[mark] is not None for _, _, gain in gains)]
    columns = ("task", "entrant", f"{LEVEL} interval of the gain", "share", "area from 0",
               *(f"at {mark}" for mark in marks), "unchanged", "notes")  # fmt: skip
    rows = [
        (task, label, format_interval(gain.gain.interval if gain.gain else None), format_fixed(gain.share, 2),
         format_with_interval(gain.area), *(format_number_with_interval(gain.at[mark]) for mark in marks),
         f"{gain.unchanged} of {gain.started}", interval_notes(gain.scope, _gain_warning(gain)))
        for task, label, gain in gains
    ]  # fmt: skip
    title = (
        "what the feedback was worth: the gain (selected minus first submission on held-out), its share of the "
        f"normalised score, and the learning curve of validation from episode 0 [{LEVEL} interval over runs]"
        f"{over_runs_warning(gain.runs for _, _, gain in gains if gain.area and gain.area.interval)}"
    )
    optional = ("share", "unchanged", *(f"at {mark}" for mark in marks))
    return TextTable(title, columns, rows, remarks="notes", optional=optional)


def over_runs_warning(runs: Iterable[int]) -> str:
    """Say how often intervals of one number per run held the truth, where so few runs did too rarely."""
    fewest = min((count for count in runs if count > 1), default=None)
    measured = measured_coverage("over_runs", fewest) if fewest else None
    return "".join(f"; over runs: {text}" for text in coverage_warning(measured, fewest))


def interval_notes(scope: str, warning: Iterable[str] = ()) -> str:
    """Return what a reader must know of an interval that is not over runs and cases, or that held too rarely."""
    return "; ".join([*([] if scope == FULL_SCOPE else [scope.removeprefix(f"{FULL_SCOPE}; ")]), *warning])


def _gain_warning(gain: EntrantGain) -> Iterable[str]:
    return coverage_warning(coverage(1, gain.measured), gain.measured) if gain.gain and gain.gain.interval else []


def unchanged_runs(board: BoardTable) -> str:
    """Say how many runs never changed their policy; empty where no run has an ``ok`` submission."""
    gains = [row.gain for table in board.tasks for row in table.rows if row.gain]
    started = sum(gain.started for gain in gains)
    unchanged = sum(gain.unchanged for gain in gains)
    return describe_unchanged(unchanged, started) if started else ""


def knowledge_gap_table(gap: KnowledgeGap) -> TextTable:
    """Return the scores of one entrant on plain and on disguised tasks, by task and over all of them."""
    columns = ("task", "runs", "plain", "disguised", "gap", f"{LEVEL} interval", "normalised", "notes")
    rows = [
        (task.task, f"{task.runs[0]}, {task.runs[1]}", format_number(task.plain, 6), format_number(task.disguised, 6),
         format_number(task.gap.value), format_interval(task.gap.interval), format_fixed(task.normalised),
         interval_notes(task.scope, coverage_warning(task.coverage)))
        for task in gap.tasks
    ]  # fmt: skip
    if gap.normalised:
        reason = "one task" if gap.normalised_tasks == 1 else "nothing varied"
        over = f"{gap.normalised_tasks} tasks" if gap.normalised.interval else f"no interval: {reason}"
        rows.append(("overall, normalised", "", "", "", "", format_interval(gap.normalised.interval, 3),
                     format_fixed(gap.normalised.value), over))  # fmt: skip
    title = f"knowledge gap of {gap.entrant}: plain (text: {gap.text}) minus disguised, on the same tasks and cases"
    return TextTable(title, columns, rows, text=("task",), remarks="notes", optional=("runs", "disguised"))


def keys_table(table: KeyTable) -> TextTable:
    """Return the means over keys of generated tasks."""
    columns = ("task", "entrant", "keys", "runs", "normalised", f"{LEVEL} interval", "unclipped", "between keys",
               "between runs")  # fmt: skip
    rows = [
        (row.task, row.entrant, str(row.keys), str(row.runs), format_fixed(row.normalised.value),
         format_interval(row.normalised.interval, 3), format_fixed(row.unclipped.value), format_fixed(row.between_keys),
         format_fixed(row.between_runs))
        for row in table.rows
    ]  # fmt: skip
    keys = [row.keys for row in table.rows if row.normalised.interval]
    measured = measured_coverage("over_runs", min(keys)) if keys else None  # one number per key, as if it were a run
    warning = "".join(f"; {text}" for text in coverage_warning(measured, noun="key"))
    title = "generated tasks over keys: mean normalised score, and standard deviations; each key counts the same"
    return TextTable(f"{title}{warning}", columns, rows, optional=("runs", "between runs", "unclipped"))


def selection_table(board: BoardTable) -> TextTable:
    """Return what selection by validation gained and lost, and how sure it was."""
    columns = ("task", "entrant", "optimism", "by leaving cases out", "stability", "gap to second", "regret",
               "regret known for")  # fmt: skip
    rows = [
        (table.task, row.entrant, format_number(selection.optimism), _with_interval(selection.optimism_by_cases),
         _share(selection.stability), _with_interval(selection.gap), format_number(selection.regret),
         f"{selection.measured} of {selection.runs} runs")
        for table in board.tasks for row in table.rows if (selection := row.selection)
    ]  # fmt: skip
    title = (
        "selection: validation minus held-out of the selected (optimism), best candidate minus selected (regret)"
        f"{_selection_warning(board)}"
    )
    return TextTable(title, columns, rows, optional=("regret known for", "regret", "optimism"))


def _selection_warning(board: BoardTable) -> str:
    """Say how often the intervals of optimism and gap held the truth, where they did too rarely."""
    selections = [
        row.selection for table in board.tasks for row in table.rows if row.selection and row.selection.chosen
    ]
    fewest = min((selection.chosen for selection in selections), default=0)
    tables = {"by leaving cases out": "optimism", "gap to second": "selection_gap"}
    measured = {words: measured_coverage(table, fewest) for words, table in tables.items()}
    return "".join(f"; {words}: {text}" for words, rate in measured.items() for text in coverage_warning(rate))


def _with_interval(value: Number | None) -> str:
    if value is None or value.interval is None:
        return format_number(value.value if value else None, 3)
    return f"{format_number(value.value, 3)} ({format_interval(value.interval)})"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.{1 if 0.0 < value < 0.01 else 0}f} %"


def entrants_table(entrants: Sequence[Entrant]) -> TextTable:
    """Return who is behind each name, and what tells entrants apart that would have the same one."""
    rows = [(made.name, str(made.runs), "; ".join(filter(None, (made.note, made.facts)))) for made in entrants]
    return TextTable(
        "entrants: agent, model and settings", ("entrant", "runs", "who it is"), rows, text=("entrant", "who it is")
    )


def exchange_table(board: BoardTable) -> TextTable:
    """Return how much training of each baseline the scores of entrants are worth."""
    rows = [
        (exchange.task, exchange.entrant, *_rate(rate)) for exchange in board.exchange_rates for rate in exchange.rates
    ]
    title = (
        "exchange rates: training with direct access to the simulator until it reaches the same held-out score, median "
        "over seeds (docs: baselines); > where most seeds did not reach it"
    )
    columns = ("task", "entrant", "by", "steps", "episodes", "seeds")
    return TextTable(title, columns, rows, text=columns[:3], optional=("seeds", "episodes"))


def _rate(rate: ExchangeRate) -> tuple[str, ...]:
    seeds = f"{rate.reached} of {rate.seeds}"
    if rate.steps is None:
        return rate.algorithm, f"> {rate.trained_steps:,}", UNKNOWN, seeds
    return rate.algorithm, f"{rate.steps:,}", f"{rate.episodes:,}", seeds


def published_table(board: BoardTable) -> TextTable:
    """Return the paper's rows, which were measured on other cases or under another budget."""
    agents = list(dict.fromkeys(agent for row in board.published.values() for agent in row))
    rows = [(task, *(format_number(row.get(agent), 5) for agent in agents)) for task, row in board.published.items()]
    title = "For reference only, the paper's rows (measured under other conditions, not comparable):"
    return TextTable(title, ("task", *agents), rows)


def _standing(row: AggregateRow) -> tuple[str, ...]:
    return (
        str(row.rank),
        row.entrant,
        format_with_interval(row.normalised),
        format_fixed(row.unclipped),
        _failures(row),
        format_ranks(row.places),
        format_probability(row.p_first),
        format_with_interval(row.rank_score),
        str(row.wins),
        str(row.top2),
        interval_notes(row.scope, coverage_warning(row.coverage) if row.normalised.interval else ()),
    )


def _failures(row: AggregateRow) -> str:
    """Say how many held-out episodes failed, and how many runs had no policy at all."""
    if not row.without_policy:
        return _share(row.failed)
    return f"{_share(row.failed)}, {pluralize(row.without_policy, 'run')} without a policy"


def describe_scale(version: int) -> str:
    """Return what a normalised score is, in words."""
    if version == 1:
        return "(score - L) / (U - L) on scale 1: L the random policy, U the paper's best agent"
    return "(score - L) / (U - L) within 0 and 1, scale 2: L the best trivial policy, U the expert; failed episodes: 0"


def reference_rows(table: ReferenceTable) -> TextTable:
    """Return everything that was measured on the paper's cases."""
    columns = ("rank", "entrant", "score", "unclipped", "interquartile mean", "median", "optimality gap", "rank score")
    rows = [
        (str(row.rank), row.entrant, *(format_fixed(getattr(row, column.replace(" ", "_"))) for column in columns[2:]))
        for row in table.rows
    ]
    return TextTable("on one scale", columns, rows)


def sensitivity_rows(name: str, ranked: Mapping[str, int], robust: Sensitivity) -> TextTable:
    """Return the ranks of entrants under other choices."""
    columns = ("entrant", "mean", *(order.choice for order in robust.choices), "a task left out")
    rows = [
        (label, str(rank), *(str(order.ranks[label]) for order in robust.choices),
         format_ranks(RankInterval(*robust.left_out_ranks(label))))
        for label, rank in ranked.items()
    ]  # fmt: skip
    return TextTable(f"{name}: ranks under other choices; {_changes(robust)}", columns, rows)


def sensitivity_table(aggregate: Aggregate, robust: Sensitivity) -> TextTable:
    return sensitivity_rows(aggregate.name, {row.entrant: row.rank for row in aggregate.standings}, robust)


def _changes(robust: Sensitivity) -> str:
    if not robust.changing:
        return "no choice and no task left out reverses two entrants"
    shown = ", ".join(robust.changing[:MAX_CHANGES])
    more = len(robust.changing) - MAX_CHANGES
    return f"two entrants are reversed by: {shown}" + (f" and {more} more" if more > 0 else "")


def _other(row: AggregateRow, after: AggregateRow | None) -> tuple[str, ...]:
    better = format_with_interval(row.p_improvement[after.entrant], 2) if after else UNKNOWN
    middle, gap = format_with_interval(row.interquartile_mean), format_with_interval(row.optimality_gap)
    return row.entrant, middle, format_fixed(row.median), gap, better, format_fixed(row.paper_normalised)


def _task_row(row: TaskRow, table: TaskTable) -> tuple[str, ...]:
    return (
        str(row.rank),
        row.entrant,
        str(row.runs),
        format_number(row.checkpoints),
        format_number(row.score, 6),
        format_interval(row.interval),
        format_number(row.gain.first if row.gain else None, 6),
        format_gain(row.gain.gain.value if row.gain and row.gain.gain else None),
        format_ranks(row.places),
        format_probability(row.p_first),
        format_fixed(row.normalised),
        format_fixed(row.paper_normalised),
        format_fixed(row.rank_score),
        "; ".join(_notes(row, table)),
    )


def _notes(row: TaskRow, table: TaskTable) -> Iterator[str]:
    if notes := interval_notes(row.scope, coverage_warning(row.coverage, row.runs) if row.interval else ()):
        yield notes
    if row.failed:
        yield f"{_share(row.failed)} of held-out episodes failed"
    if row.beats_trivial is False:
        best = max(table.trivial, key=table.trivial.__getitem__)
        yield f"does not beat the trivial policy {best!r}"
    if row.gain and 0 < row.gain.measured < row.gain.runs:
        yield f"first and gain are of {row.gain.measured} of {row.gain.runs} runs"
    yield from describe_policies(row.runs, row.policies)
    yield from row.flags
