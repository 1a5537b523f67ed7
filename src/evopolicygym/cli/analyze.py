"""`evopolicygym analyze`: diagnose runs, one by one and by agent."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from evopolicygym.analysis.analyze import ALL, EntrantSummary
from evopolicygym.analysis.diagnostics import CodeSize, Diagnosis
from evopolicygym.analysis.edits.kinds import CANONICAL_RATES, EDITS, PAPER_EDITS, SizeClass
from evopolicygym.analysis.formatting import (
    UNKNOWN,
    describe_unchanged,
    format_fixed,
    format_gain,
    format_interval,
    format_number,
    format_number_with_interval,
    format_with_interval,
)
from evopolicygym.analysis.gain import EPISODES
from evopolicygym.analysis.leaderboard.detail_tables import variance_table
from evopolicygym.analysis.leaderboard.text_tables import over_runs_warning
from evopolicygym.analysis.spending import files_opened
from evopolicygym.analysis.stats.hit_rates import HitRate
from evopolicygym.cli.options import Label, Labels, RunFolders, read_labels
from evopolicygym.cli.output import print_json, print_skipped, print_text, print_titled_table
from evopolicygym.cli.text.edits import show_canonical_edits, show_feedback, show_mechanisms
from evopolicygym.cli.text.leaderboard import show_origin
from evopolicygym.errors import UserError
from evopolicygym.run_record import DEFAULT_CONDITIONS

RUN_HEADER = (
    "run",
    "task",
    "agent",
    "conditions",
    "held-out",
    "selected",
    "accepted",
    "candidates",
    "failed",
    "refused",
    "unused",
    "cases",
    "repeats",
)
RUN_OPTIONAL = ("repeats", "cases", "conditions", "unused", "candidates", "task")
PROGRESS_HEADER = (
    "run",
    "best",
    "area",
    "to 50 %",
    "to 80 %",
    "to 95 %",
    "after best",
    "drops",
    "rolled back",
    "last - best",
)
GAIN_TITLE = (
    "what the feedback was worth: selected minus first submission on held-out (gain), learning curve on validation"
)
GAIN_HEADER = ("run", "first", "gain", "95 % over cases", "share", "area from 0", "changed")
GAIN_OPTIONAL = ("share", "changed")
CURVE_TITLE = "learning curves: means over the runs of an agent on a task, with 95 % intervals over runs"
CURVE_HEADER = ("conditions", "agent", "task", "runs", "area from 0")
TOKEN_HEADER = (
    "run",
    "turns",
    "fresh input",
    "cache read",
    "output",
    "known for",
    "by",
    "median output",
    "files opened",
)
EDIT_HEADER = ("run", *EDITS, "inert", "exact returns", "phases")
EDIT_OPTIONAL = ("unknown", "cosmetic", "phases", "exact returns", "inert")
RATE_HEADER = (
    *("conditions", "agent", "tasks", "runs", "edit", "hits", "number", "rate", "low", "high", "by chance"),
    *("beyond noise", "interval of"),
)
RATE_OPTIONAL = ("hits", "runs")
SIZE_HEADER = ("conditions", "agent", "tasks", *SizeClass)
SHAPE_HEADER = ("conditions", "agent", "tasks", *(field.name for field in fields(CodeSize)))


def analyze(
    runs: RunFolders,
    label: Label = None,
    labels: Labels = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print one row per run as CSV.")] = False,
) -> None:
    """Diagnose how runs went: edits and hits, feedback, curves, budget, code. Exit code 1 if a folder was skipped."""
    if json and as_csv:
        raise UserError("--json and --csv cannot be combined", "Choose one.")
    from evopolicygym.api.statistics import analyze as analyze_runs

    analysis = analyze_runs(runs, labels=read_labels(label, labels))
    if json:
        print_json(analysis.as_dict())
    elif as_csv:
        _print_csv(analysis.rows())
    elif analysis.runs:
        _show_runs(analysis.runs, analysis.groups)
        show_origin(analysis.entrants, analysis.provenance)
    print_skipped(analysis.skipped)
    raise typer.Exit(1 if analysis.skipped else 0)


def _print_csv(rows: list[dict[str, Any]]) -> None:
    if rows:
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _show_runs(runs: Sequence[Diagnosis], summaries: Sequence[EntrantSummary]) -> None:
    print_titled_table("runs", RUN_HEADER, [_run(run) for run in runs], RUN_OPTIONAL)
    marks = [mark for mark in EPISODES if any(run.learning and run.learning.at[mark] is not None for run in runs)]
    header = (*GAIN_HEADER, *(f"at {mark}" for mark in marks))
    print_titled_table(GAIN_TITLE, header, [_gain(run, marks) for run in runs], GAIN_OPTIONAL)
    for run in runs:
        for note in run.left_out:
            print_text(f"{_name(run)} is too large to be analysed as a whole: it has {note}")
    print_text(_unchanged(runs))
    print_text()
    if curves := _curves(summaries, marks):
        several = [means.runs for group in summaries for means in group.learning.values()]
        header = (*CURVE_HEADER, *(f"at {mark}" for mark in marks))
        print_titled_table(f"{CURVE_TITLE}{over_runs_warning(several)}", header, curves, ("runs",))
    print_titled_table("progress of the best validation mean", PROGRESS_HEADER, [_progress(run) for run in runs])
    print_titled_table(
        "tokens, and feedback files opened between submissions", TOKEN_HEADER, [_tokens(run) for run in runs]
    )
    print_titled_table("edits: hits / number, by kind", EDIT_HEADER, [_edits(run) for run in runs], EDIT_OPTIONAL)
    show_canonical_edits(runs, _name)
    print_titled_table(
        "hit rates by conditions and agent, with 95 % intervals clustered by run",
        RATE_HEADER,
        _rates(summaries),
        RATE_OPTIONAL,
    )
    print_titled_table("the same by the canonical form", RATE_HEADER, _canonical_rates(summaries), RATE_OPTIONAL)
    print_titled_table("hits / number by edit size", SIZE_HEADER, [_sizes(group) for group in summaries])
    print_titled_table("structure of the selected bundles, means", SHAPE_HEADER, [_shape(group) for group in summaries])
    show_mechanisms(runs, _name)
    show_feedback(runs, _name)
    variance = variance_table([row for group in summaries if group.tasks == ALL or not _has_all(group, summaries)
                               for row in group.variance])  # fmt: skip
    if variance.rows:
        print_titled_table(variance.title, variance.columns, variance.rows, variance.optional)
    if missing := dict.fromkeys(text for run in runs for text in run.summary.not_recorded):
        print_text(f"not recorded in imported runs: {', '.join(missing)}")


def _has_all(group: EntrantSummary, summaries: Sequence[EntrantSummary]) -> bool:
    """Whether the runs of a group are also counted in one over all tasks."""
    same = (group.conditions, group.entrant, ALL)
    return any((other.conditions, other.entrant, other.tasks) == same for other in summaries)


def _run(run: Diagnosis) -> Sequence[str]:
    summary, spent = run.summary, run.spending
    return (
        _name(run),
        summary.task,
        summary.entrant,
        summary.conditions or DEFAULT_CONDITIONS,
        format_number(summary.heldout_mean),
        format_number(summary.selected_submission),
        str(spent.accepted),
        str(summary.candidates),
        str(spent.failed),
        str(sum(spent.refused.values())),
        str(spent.unused),
        str(spent.distinct_cases),
        str(spent.repeated_episodes),
    )


def _gain(run: Diagnosis, marks: Sequence[int]) -> Sequence[str]:
    heldout, curve = run.gain.heldout, run.learning
    return (
        _name(run),
        format_number(heldout.first if heldout else None),
        format_gain(heldout.gain.value if heldout else None),
        format_interval(heldout.gain.interval if heldout else None),
        _percent(heldout.share if heldout else None),
        format_fixed(curve.area if curve else None),
        {True: "never", False: "yes", None: UNKNOWN}[run.gain.unchanged],
        *(format_number(curve.at[mark] if curve else None) for mark in marks),
    )


def _curves(summaries: Sequence[EntrantSummary], marks: Sequence[int]) -> list[Sequence[str]]:
    """Return the means over learning curves, where an entrant has several runs of a task."""
    return [
        (group.conditions, group.entrant, task, str(means.runs), format_with_interval(means.area),
         *(format_number_with_interval(means.at[mark]) for mark in marks))
        for group in summaries if group.tasks != ALL
        for task, means in group.learning.items() if means.runs > 1
    ]  # fmt: skip


def _unchanged(runs: Sequence[Diagnosis]) -> str:
    started = [run.gain for run in runs if run.gain.submission is not None]
    unchanged = sum(gain.unchanged is True for gain in started)
    return describe_unchanged(unchanged, len(started))


def _progress(run: Diagnosis) -> Sequence[str]:
    progress = run.progress
    return (
        _name(run),
        format_number(progress.curve[-1].best if progress.curve else None),
        format_number(progress.area),
        *map(format_number, progress.episodes_to.values()),
        format_number(progress.submissions_after_best),
        str(progress.drops),
        _percent(progress.drops_rolled_back),
        format_number(progress.last_minus_best),
    )


def _tokens(run: Diagnosis) -> Sequence[str]:
    """Return the row of tokens. Those of single submissions are known if each had a turn of its own, or if requests
    were metered."""
    intervals = [submission.between for submission in run.spending.by_submission]
    metered = [interval.tokens for interval in intervals if interval.tokens]
    outputs = [tokens.output for tokens in metered if tokens.output is not None]
    used = run.spending.tokens
    return (
        _name(run),
        str(len(run.spending.by_turn)),
        *(UNKNOWN if n is None else f"{n:,}" for n in (used.fresh_input, used.cache_read, used.output)),
        f"{len(metered)} of {len(intervals)}",
        " and ".join(sorted({interval.tokens_by for interval in intervals if interval.tokens_by})) or UNKNOWN,
        format_number(median(outputs) if outputs else None),
        format_number(files_opened(intervals)),
    )


def _edits(run: Diagnosis) -> Sequence[str]:
    inert = [event.inert for event in run.timeline if event.inert is not None]
    returns = sum(event.exact_return for event in run.timeline)
    kinds = (f"{rate.hits}/{rate.n}" for rate in run.edits.values())
    return (_name(run), *kinds, str(sum(inert)) if inert else UNKNOWN, str(returns), str(len(run.phases)))


def _rates(summaries: Sequence[EntrantSummary]) -> list[Sequence[str]]:
    """Return the rates of the two kinds of edits that the paper has in its table."""
    return [
        (*_group(group), str(group.runs), kind, *_rate(group.edits[kind]))
        for group in summaries
        for kind in PAPER_EDITS
    ]


def _canonical_rates(summaries: Sequence[EntrantSummary]) -> list[Sequence[str]]:
    return [
        (*_group(group), str(group.runs), kind, *_rate(group.canonical_edits[kind]))
        for group in summaries
        for kind in CANONICAL_RATES
    ]


def _rate(rate: HitRate) -> Sequence[str]:
    about = UNKNOWN if not rate.runs else "this run alone" if rate.runs == 1 else "runs"
    rates = (_percent(value) for value in (rate.rate, rate.low, rate.high, rate.by_chance))
    return str(rate.hits), str(rate.n), *rates, format_number(rate.beyond_noise), about


def _sizes(group: EntrantSummary) -> Sequence[str]:
    return (*_group(group), *(f"{rate.hits}/{rate.n}" for rate in group.sizes.values()))


def _shape(group: EntrantSummary) -> Sequence[str]:
    numbers = group.structure or {}
    return (*_group(group), *(format_number(numbers.get(field.name)) for field in fields(CodeSize)))


def _group(group: EntrantSummary) -> tuple[str, str, str]:
    return group.conditions, group.entrant, group.tasks


def _name(run: Diagnosis) -> str:
    return Path(run.summary.folder).resolve().name


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.0f} %"
