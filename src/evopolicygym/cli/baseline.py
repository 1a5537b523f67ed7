"""`evopolicygym baseline`: learning curves of search methods and RL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.api.baseline import HELDOUT_CASES, VALIDATION_CASES, baseline_curve
from evopolicygym.baselines.curve import CurveProgress
from evopolicygym.cli.options import Json, TaskName
from evopolicygym.cli.output import print_json, print_table, stderr
from evopolicygym.cli.play_options import LocalJobs, SealKey, SeedsChoice
from evopolicygym.runs.settings import CORES, Seeds

app = typer.Typer(no_args_is_help=True, help="Train search methods and RL on a task, and measure their learning.")


@app.command()
def curve(
    task: TaskName,
    algo: Annotated[str, typer.Option(help="random-search, ars, openes, ga, cma-es; with the extra rl ppo, sac, dqn.")],
    steps: Annotated[int, typer.Option(min=1, help="Environment steps to train for.")] = 100_000,
    seeds_count: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, help="Number of trainings, each with its seed.")
    ] = 1,
    first_seed: Annotated[int, typer.Option(min=0, help="Seed of the first training.")] = 0,
    hidden: Annotated[int, typer.Option(min=0, help="Units of a hidden layer of search methods; 0: linear.")] = 0,
    folder: Annotated[Path, typer.Option(help="Folder for the records.")] = Path("baselines"),
    cases: SeedsChoice = Seeds.PAPER,
    seal_key: SealKey = None,
    validation_cases: Annotated[
        int, typer.Option(min=1, max=64, help="Validation cases of every checkpoint.")
    ] = VALIDATION_CASES,
    heldout_cases: Annotated[
        int, typer.Option(min=1, max=256, help="Held-out cases of every checkpoint.")
    ] = HELDOUT_CASES,
    jobs: LocalJobs = CORES,
    json: Json = False,
) -> None:
    """Train an algorithm with direct access to the simulator, and measure checkpoints on the hidden cases. The same
    command continues an interrupted training."""
    records = [
        baseline_curve(
            task,
            algo,
            steps=steps,
            seed=seed,
            hidden=hidden,
            folder=folder,
            seeds=cases.value,
            seal_key=seal_key,
            validation_cases=validation_cases,
            heldout_cases=heldout_cases,
            jobs=jobs,
            progress=_show,
        )
        for seed in range(first_seed, first_seed + seeds_count)
    ]
    if json:
        print_json([record.model_dump(mode="json") for record in records])
        return
    columns = ("seed", "episodes", "steps", "train_s", "validation", "held-out", "score so far")
    rows = [
        (
            *(str(value) for value in (record.seed, point.episodes, point.steps)),
            *(f"{value:.6g}" for value in (point.train_s, point.validation_mean, point.heldout_mean, score)),
        )
        for record in records
        for point, score in record.selected()
    ]
    print_table(columns, rows, indent="")


def _show(progress: CurveProgress) -> None:
    plan, point = progress.plan, progress.point
    score = f", held-out {point.heldout_mean:.6g} at {point.steps:,}" if point else ""
    stderr.print(
        f"{plan.task.id} {plan.algorithm} seed {plan.seed}: {progress.steps:,} of {plan.steps:,} steps, "
        f"{progress.episodes:,} episodes, {progress.steps_per_s:,.0f} steps/s{score}"
    )
