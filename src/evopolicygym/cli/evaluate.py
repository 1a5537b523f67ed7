"""`evopolicygym evaluate`: play one policy on chosen cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from evopolicygym import __version__
from evopolicygym.analysis.provenance import machine_class, made_on
from evopolicygym.api.enter import enter as enter_policy
from evopolicygym.api.enter import new_folder
from evopolicygym.api.evaluate import evaluate as evaluate_policy
from evopolicygym.cli.options import Json, TaskName, refuse_unused
from evopolicygym.cli.output import (
    describe_cases,
    episode_progress,
    name_task,
    print_fields,
    print_hint,
    print_json,
    print_table,
    stderr,
    stdout,
)
from evopolicygym.cli.play_options import (
    Engine,
    Feedback,
    HeldoutCases,
    LocalJobs,
    OwnModelsRule,
    PolicyIsolation,
    RayAddress,
    SealKey,
    SeedsChoice,
    Text,
    ValidationCases,
    VariantChoice,
)
from evopolicygym.cli.text.run import show_outcome
from evopolicygym.errors import Fault
from evopolicygym.execution.evaluation import (
    Evaluation,
    PolicyNotLoaded,
    are_among_paper_heldout_cases,
    are_paper_heldout_cases,
)
from evopolicygym.execution.records import EpisodeResult
from evopolicygym.reference.paper import HELDOUT_CASES, best_agent, published
from evopolicygym.run_record import DEFAULT_CONDITIONS, conditions_text
from evopolicygym.runs.settings import CORES, EngineName, IsolationChoice, Seeds
from evopolicygym.sandbox.policy.jail import MEANING, Level
from evopolicygym.tasks.conditions import Variant
from evopolicygym.tasks.ids import machine_facts
from evopolicygym.tasks.registry import absolute_name
from evopolicygym.tasks.splits import Split

CHOSEN_CASES: Final = ("split", "cases", "record", "video", "salt", "engine", "ray_address")
OF_RUNS: Final = ("run", "budget", "validation_cases", "heldout_cases", "own_models", "feedback")
SHARED: Final = ("seeds", "seal_key", "text", "variant", "stock", "isolation", "jobs")


def evaluate(
    context: typer.Context,
    policy_dir: Annotated[Path, typer.Argument(help="Folder with policy.py.")],
    task: TaskName,
    split: Annotated[Split, typer.Option(help="List of cases to choose from.")] = Split.TRAIN,
    seeds: SeedsChoice = Seeds.SEALED,
    seal_key: SealKey = None,
    cases: Annotated[
        str | None,
        typer.Option(help="Cases, such as 0-7,12 (default: the first 8 train, 16 validation or 32 held-out cases)."),
    ] = None,
    jobs: LocalJobs = CORES,
    engine: Engine = EngineName.LOCAL,
    ray_address: RayAddress = None,
    isolation: PolicyIsolation = IsolationChoice.AUTO,
    record: Annotated[Path | None, typer.Option(help="New folder for the trajectory of each episode.")] = None,
    video: Annotated[
        bool, typer.Option("--video", help="Record a video of each episode, too (needs --record).")
    ] = False,
    stock: Annotated[
        bool, typer.Option("--stock", help="Play stock environments instead of the bit-exact fast ones.")
    ] = False,
    salt: Annotated[
        str | None, typer.Option(help="randomness_salt of an earlier run or evaluation, to repeat its random numbers.")
    ] = None,
    text: Text = None,
    variant: VariantChoice = None,
    enter: Annotated[
        str | None,
        typer.Option(help="Name under which the policy becomes a row of leaderboards: validate and measure it."),
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="With --enter: folder of the run (default: a new one in runs/).")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="With --enter: budget of the runs it is compared with (default 128).")
    ] = None,
    validation_cases: ValidationCases = None,
    heldout_cases: HeldoutCases = None,
    own_models: OwnModelsRule = None,
    feedback: Feedback = None,
    json: Json = False,
) -> None:
    """Play a policy on chosen cases and print returns, lengths, errors and speed. With --enter, validate it and measure
    it on held-out cases like a run: a policy that was trained elsewhere becomes a row of leaderboards."""
    if enter is not None:
        refuse_unused(context, CHOSEN_CASES, "cannot be given with --enter")
    else:
        refuse_unused(context, OF_RUNS, "needs --enter NAME", "Add it, or leave the option out.")
    if isolation is IsolationChoice.NONE:
        _warn(f"--isolation none is {MEANING[Level.NONE]}")
    if enter is not None:
        _enter(policy_dir, task, enter, context.params, json)
        return
    try:
        with episode_progress() as progress:
            evaluation = evaluate_policy(
                policy_dir,
                task,
                split=split.value,
                seeds=seeds.value,
                seal_key=seal_key,
                cases=cases,
                jobs=jobs,
                engine=engine.value,
                ray_address=ray_address,
                isolation=isolation.value,
                record=record,
                video=video,
                stock=stock,
                text=text.value if text else None,
                variant=variant.value if variant else "plain",
                salt=salt,
                progress=progress,
                notice=_warn,
            )
    except PolicyNotLoaded as error:
        _report_not_loaded(error, json)
        raise typer.Exit(1) from None
    if json:
        print_json(evaluation.as_dict())
    else:
        _print(evaluation)
    if evaluation.faults:
        count = f"{len(evaluation.faults)} of {len(evaluation.indices)} episodes"
        raise Fault(f"{count} have no score: {evaluation.faults[0].text}")


def _enter(policy: Path, task: str, name: str, options: Mapping[str, Any], json: bool) -> None:
    """Enter a policy under a name, and print its outcome."""
    given = {option: options[option] for option in (*OF_RUNS, *SHARED) if option != "run"}
    root = options["run"] or new_folder({"task": absolute_name(task), "name": name})
    try:
        with episode_progress() as progress:
            enter_policy(policy, task, name, folder=root, progress=progress, notice=_warn, **given)
    except PolicyNotLoaded as error:
        _report_not_loaded(error, json)
        raise typer.Exit(1) from None
    show_outcome(root, json)


def _warn(text: str) -> None:
    print_hint(f"warning: {text}")


def _report_not_loaded(error: PolicyNotLoaded, json: bool) -> None:
    if json:
        facts = {"kind": error.error.kind, "text": error.error.text}
        print_json({"loaded": False, "error": facts, "stdout": error.stdout, "stderr": error.stderr})
    stderr.block(f"the policy does not load: {error.error.kind}\n{error.error.text}")
    for name, text in (("stdout", error.stdout), ("stderr", error.stderr)):
        if text:
            stderr.block(f"its {name}:\n{text}")


def _print(report: Evaluation) -> None:
    print_table(("case", "return", "steps", "end"), map(_row, report.episodes))
    for line in _failures(report):
        stdout.block(line)
    stdout.print()
    print_fields(_summary(report))


def _row(episode: EpisodeResult) -> tuple[str, str, str, str]:
    ending = episode.error.kind if episode.error else "terminated" if episode.terminated else "truncated"
    return str(episode.case.index), f"{episode.score:.4f}", str(episode.length), ending


def _failures(report: Evaluation) -> Iterator[str]:
    """Yield each distinct failure once, with the first case on which it happened."""
    seen = set()
    for result in report.episodes:
        if result.error and (result.error.kind, result.error.text) not in seen:
            seen.add((result.error.kind, result.error.text))
            yield f"\ncase {result.case.index} failed: {result.error.kind}\n{result.error.text.rstrip()}"
            if result.stderr:
                yield f"its stderr:\n{result.stderr.rstrip()}"


def _summary(report: Evaluation) -> Iterator[tuple[str, str]]:
    scores = report.returns
    task, cases = report.task, describe_cases(report.splits_id, report.split)
    yield "task", f"{name_task(task.id, task.env_id)}, {cases}"
    yield "conditions", conditions_text(task.view.text, task.view.variant) or DEFAULT_CONDITIONS
    files = f"{report.checkpoint.files} file{'s' if report.checkpoint.files != 1 else ''}"
    yield "policy", f"{report.checkpoint.hash[:16]} ({files}, {report.checkpoint.bytes} bytes)"
    if report.mean is not None:
        yield "mean", f"{report.mean:.6g}  (std {report.std:.4g}, min {min(scores):.6g}, max {max(scores):.6g})"
    yield "failed", f"{report.failed} of {len(scores)} episodes"
    yield "clipped", f"{sum(result.clipped_actions for result in report.episodes)} actions"
    if cut := [result for result in report.episodes if result.left_out]:
        first = "; ".join(cut[0].left_out)
        yield "recorded", f"not in full: {len(cut)} of {len(scores)} episodes (case {cut[0].case.index}: {first})"
    yield "speed", f"{report.steps} steps in {report.wall_s:.2f} s ({report.steps_per_s:,.0f} steps/s)"
    yield "environment", report.implementation
    yield "isolation", f"level {report.level}: {MEANING[report.level]}"
    yield "made", f"on {made_on()} with evopolicygym {__version__}, {machine_class(machine_facts())}"
    yield "ids", f"comparable_id {report.ids.comparable_id}, bit_id {report.ids.bit_id}"
    if rows := published().get(report.task.id):
        best = best_agent(report.task.id)
        yield "paper", f"{_paper_cases(report)}: random {rows['random']:.4g}, best agent ({best}) {rows[best]:.4g}"


def _paper_cases(report: Evaluation) -> str:
    """Say how the cases of the paper's rows relate to those that were played."""
    if report.task.view.variant is not Variant.PLAIN:
        return "on the plain task, not comparable"
    played = (report.splits_id, report.split, report.indices)
    if are_paper_heldout_cases(*played):
        return "on these cases"
    if are_among_paper_heldout_cases(*played):
        return f"on all {HELDOUT_CASES} cases of this list, not on these {len(report.indices)} alone, not comparable"
    return "on OTHER cases (its own held-out list), not comparable"
