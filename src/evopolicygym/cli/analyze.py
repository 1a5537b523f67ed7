"""`evopolicygym analyze`: how runs went, one by one and by agent."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.analysis.diagnostics import Diagnosis, Shape
from evopolicygym.analysis.edit_size import Size
from evopolicygym.analysis.edits import EDITS, PAPER_EDITS
from evopolicygym.analysis.groups import Group, groups
from evopolicygym.analysis.intervals import Rate
from evopolicygym.analysis.rows import row
from evopolicygym.analysis.survey import Survey, survey
from evopolicygym.cli.output import print_json, talk, tame
from evopolicygym.cli.tables import UNKNOWN, number, say, show
from evopolicygym.errors import UserError


def analyze(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold some.")],
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print one row per run as CSV.")] = False,
) -> None:
    """How runs went: edits and hits, curves, budget, structure. Exit code 1 when a folder had to be skipped."""
    if json and as_csv:
        raise UserError("--json and --csv exclude each other", "Choose one.")
    found = survey(runs)
    if json:
        _print_json(found)
    elif as_csv:
        _print_csv(found)
    else:
        _print_tables(found)
    for skipped in found.skipped:
        talk.print(f"skipped {tame(skipped.path)}: {tame(skipped.reason)}", markup=False)
    raise typer.Exit(1 if found.skipped else 0)


def _print_json(found: Survey) -> None:
    print_json(
        {
            "runs": [run.as_dict() for run in found.runs],
            "groups": [group.as_dict() for group in groups(found.runs)],
            "skipped": [asdict(skipped) for skipped in found.skipped],
        }
    )


def _print_csv(found: Survey) -> None:
    table = [row(run) for run in found.runs]
    if table:
        writer = csv.DictWriter(sys.stdout, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def _print_tables(found: Survey) -> None:
    if not found.runs:
        return
    together = groups(found.runs)
    _table("runs", RUN_HEADER, [_run(run) for run in found.runs])
    _table("progress of the best validation mean", PROGRESS_HEADER, [_progress(run) for run in found.runs])
    _table("edits: hits / number, by kind", EDIT_HEADER, [_edits(run) for run in found.runs])
    _table("hit rates by agent, with 95 % intervals clustered by run", RATE_HEADER, _rates(together))
    _table("hits / number by edit size", SIZE_HEADER, [_sizes(group) for group in together])
    _table("structure of the selected bundles, means", SHAPE_HEADER, [_shape(group) for group in together])


RUN_HEADER = (
    "run",
    "task",
    "agent",
    "held-out",
    "selected",
    "accepted",
    "failed",
    "refused",
    "unused",
    "cases",
    "repeats",
)
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
EDIT_HEADER = ("run", *EDITS, "phases")
RATE_HEADER = ("agent", "tasks", "runs", "edit", "hits", "number", "rate", "low", "high", "interval of")
SIZE_HEADER = ("agent", "tasks", *Size)
SHAPE_HEADER = ("agent", "tasks", *(field.name for field in fields(Shape)))


def _run(run: Diagnosis) -> Sequence[str]:
    who, spent = run.who, run.spending
    return (
        _name(run),
        who.task,
        who.entrant,
        number(who.heldout_mean),
        number(who.selected_submission),
        str(spent.accepted),
        str(spent.failed),
        str(sum(spent.refused.values())),
        str(spent.unused),
        str(spent.distinct_cases),
        str(spent.repeated_episodes),
    )


def _progress(run: Diagnosis) -> Sequence[str]:
    made = run.progress
    return (
        _name(run),
        number(made.curve[-1].best if made.curve else None),
        number(made.area),
        *map(number, made.episodes_to.values()),
        number(made.submissions_after_best),
        str(made.drops),
        _percent(made.drops_rolled_back),
        number(made.last_minus_best),
    )


def _edits(run: Diagnosis) -> Sequence[str]:
    return (_name(run), *(f"{one.hits}/{one.n}" for one in run.edits.values()), str(len(run.phases)))


def _rates(together: Sequence[Group]) -> list[Sequence[str]]:
    """The paper's two edits: data edits and cosmetics are unknown to it, rollbacks and retests it counts apart."""
    return [
        (*_group(group), str(group.runs), kind, *_rate(group.edits[kind])) for group in together for kind in PAPER_EDITS
    ]


def _rate(rate: Rate) -> Sequence[str]:
    about = UNKNOWN if not rate.runs else "this run alone" if rate.runs == 1 else "runs"
    return str(rate.hits), str(rate.n), _percent(rate.rate), _percent(rate.low), _percent(rate.high), about


def _sizes(group: Group) -> Sequence[str]:
    return (*_group(group), *(f"{rate.hits}/{rate.n}" for rate in group.sizes.values()))


def _shape(group: Group) -> Sequence[str]:
    numbers = group.structure or {}
    return (*_group(group), *(number(numbers.get(field.name)) for field in fields(Shape)))


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    say(title)
    show(columns, rows)
    say()


def _group(group: Group) -> tuple[str, str]:
    return group.entrant, group.tasks


def _name(run: Diagnosis) -> str:
    return Path(run.who.folder).resolve().name


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.0f} %"
