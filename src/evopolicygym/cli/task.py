"""`evopolicygym task`: list, show and check tasks."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from evopolicygym.cli.options import Json, TaskName, refuse_unused
from evopolicygym.cli.output import print_hint, print_json, print_table, print_text, stdout
from evopolicygym.cli.play_options import LocalJobs, SealKey, SeedsChoice, Text, VariantChoice
from evopolicygym.errors import UserError
from evopolicygym.runs.settings import CORES, Seeds
from evopolicygym.tasks.registry import core16
from evopolicygym.tasks.spaces import json_safe

if TYPE_CHECKING:
    from evopolicygym.tasks.novel.key_checks import KeyCheck, TaskKeys

PROGRESS_KEYS: Final = 10  # keys after which a line is printed
app = typer.Typer(no_args_is_help=True, help="List, show and check tasks.")


@app.command("list")
def list_tasks(
    everything: Annotated[
        bool, typer.Option("--all", help="List every other id that is registered with Gymnasium, too.")
    ] = False,
    json: Json = False,
) -> None:
    """List the tasks of Core16 and of novel, the generated ones, with family, spaces, horizon and version. Any
    Gymnasium id is a task, too."""
    from evopolicygym.api.tasks import summarise_tasks

    rows = [asdict(summary) for summary in summarise_tasks(everything=everything)]
    if json:
        print_json(rows)
        return
    columns = ("id", "family", "horizon", "version", "action", "observation", "env_id")
    cells = ([_short("drawn" if row[name] is None else str(row[name])) for name in columns] for row in rows)
    print_table(columns, cells, indent="", optional=("env_id", "version", "family"))
    print_hint("Horizon and spaces of novel tasks are drawn from your key: `task show novel/control-1`")
    print_hint("Any other Gymnasium id is a task, too: `task list --all`, `task show LunarLander-v3`")


def _short(space: str) -> str:
    """Shorten a Dict space to its keys; `task show` has the rest."""
    return re.sub(r": (Box\([^)]*\) \w+|\w+\(\d+\)|\w+)", "", space) if space.startswith("Dict") else space


@app.command()
def show(
    task: TaskName,
    text: Text = None,
    variant: VariantChoice = None,
    seal_key: SealKey = None,
    json: Json = False,
) -> None:
    """Print the text of a task as an agent reads it; --json adds the spaces, limits and failure return as data. What a
    disguised or a generated task looks like depends on the sealing key."""
    from evopolicygym.api.tasks import describe_task

    described = describe_task(
        task,
        text=text.value if text else None,
        variant=variant.value if variant else None,
        seal_key=seal_key,
    )
    if json:
        chosen = described.task
        facts = asdict(described.summary) | {
            "limits": asdict(chosen.limits),
            "failure_return": asdict(chosen.failure_return),
        }
        spaces = {"obs_space": described.obs_space, "action_space": described.action_space}
        print_json(json_safe(facts | spaces | {"contract": described.text}))
    else:
        print(described.text, end="")


@app.command()
def check(
    context: typer.Context,
    tasks: Annotated[list[str], typer.Argument(help="Tasks to check, as in `task show`; with --keys also `novel`.")],
    cases: Annotated[int, typer.Option(min=1, help="Number of train cases to play.")] = 2,
    seal_key: SealKey = None,
    keys: Annotated[
        int | None, typer.Option(min=1, help="Draw generated tasks from this many public keys instead.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="With --keys: keys that are checked in parallel.")] = 1,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="With --keys: time limit; later keys stay unchecked.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="With --keys: JSON file. Keys that it has are not checked again.")
    ] = None,
    json: Json = False,
) -> None:
    """Check tasks: spaces, text, determinism, horizon, and that no crash scores better than playing. With --keys, check
    what many keys draw: refused draws, and returns of trivial policies, a search and the expert."""
    if keys is not None:
        refuse_unused(context, ("cases", "seal_key"), "cannot be given with --keys")
        _check_keys(tasks, keys, jobs, seconds, output, json)
        return
    refuse_unused(context, ("jobs", "seconds", "output"), "needs --keys")
    from evopolicygym.api.tasks import check_task

    reports = {name: check_task(name, cases=cases, seal_key=seal_key) for name in tasks}
    if json:
        print_json({name: [asdict(finding) for finding in findings] for name, findings in reports.items()})
    else:
        for name, findings in reports.items():
            for finding in findings:
                detail = f": {finding.detail}" if finding.detail else ""
                print_text(f"{'ok  ' if finding.ok else 'FAIL'} {name}: {finding.rule}{detail}")
    if not all(finding.ok for findings in reports.values() for finding in findings):
        raise typer.Exit(1)


@app.command()
def anchors(
    tasks: Annotated[list[str], typer.Argument(help="Tasks to measure, as in `task show`, or core16 for all of it.")],
    variant: VariantChoice = None,
    seeds: SeedsChoice = Seeds.SEALED,
    seal_key: SealKey = None,
    heldout_cases: Annotated[int, typer.Option(min=1, max=256, help="Number of held-out cases.")] = 32,
    expert: Annotated[
        Path | None, typer.Option(help="Folder of a policy for the upper end of the scale (one task).")
    ] = None,
    jobs: LocalJobs = CORES,
    output: Annotated[
        Path | None,
        typer.Option(
            help="File to write (default: beside your standard key, where tables find it). Anchors of other tasks in "
            "it are kept."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Measure trivial policies (random, zero, best constant, starter) on the held-out cases of your runs, so that
    `leaderboard` and `report` can compare with them."""
    from evopolicygym.api.anchors import measure_anchors

    tasks = [name for task in tasks for name in (core16() if task == "core16" else [task])]
    if expert and len(tasks) > 1:
        raise UserError(f"--expert is a policy for one task (got: {len(tasks)} tasks)", "Measure them one by one.")
    measured = []
    for task in tasks:
        result = measure_anchors(
            task,
            variant=variant.value if variant else None,
            seeds=seeds.value,
            seal_key=seal_key,
            heldout_cases=heldout_cases,
            expert=expert,
            jobs=jobs,
            output=output,
        )
        measured.append(result)
        if not json:
            means = "  ".join(f"{name} {mean:.6g}" for name, mean in result.means().items())
            stdout.print(f"{result.task}: {means}")
            stdout.print(f"  kept in {result.file}")
    if json:
        print_json(
            [
                {"task": result.task, "splits_id": result.splits_id, "means": result.means(), "file": str(result.file)}
                for result in measured
            ]
        )


def _check_keys(names: list[str], keys: int, jobs: int, seconds: float | None, output: Path | None, json: bool) -> None:
    from evopolicygym.api.tasks import check_novel_tasks

    def show(done: int, total: int, checked: KeyCheck) -> None:
        if not json and (done % PROGRESS_KEYS == 0 or checked.error):
            print_hint(f"{done} of {total} keys" + (f": {checked.error}" if checked.error else ""))

    report = check_novel_tasks(names, keys=keys, jobs=jobs, seconds=seconds, output=output, progress=show)
    if json:
        print_json([asdict(summary) | {"accepted": summary.accepted} for summary in report.tasks])
    else:
        columns = ("task", "keys", "accepted", "redraws", "trivial", "search", "expert", "searched", "CPU s", "refused")
        print_table(
            columns, [_key_cells(summary) for summary in report.tasks], indent="", optional=("refused", "CPU s")
        )
        failures = [(summary.task, key, text) for summary in report.tasks for key, text in summary.errors.items()]
        for task, key, text in failures:
            stdout.print(f"FAIL {task} key {key}: {text}")
        if report.unchecked:
            print_hint(f"{report.unchecked} keys are left; the same command with --output continues.")
    if not report.ok:
        raise typer.Exit(1)


def _key_cells(summary: TaskKeys) -> list[str]:
    refused = "; ".join(f"{objection}: {count}" for objection, count in summary.refused.items())
    means = (f"{value:.4g}" for value in (summary.trivial, summary.search, summary.expert))
    redraws = summary.draws - summary.keys
    numbers = [str(summary.keys), f"{summary.accepted:.0%}", str(redraws), *means, f"{summary.searched:.2f}"]
    return [summary.task, *numbers, f"{summary.cpu_s:.1f}", refused or "-"]
