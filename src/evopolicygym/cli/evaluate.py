"""`evopolicygym evaluate`: one policy folder on chosen cases, in the jail, in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.cli.output import print_json, print_refused_nodes, progress, stderr, stdout
from evopolicygym.errors import Fault, UserError
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.evaluation import (
    Evaluation,
    PolicyNotLoaded,
    are_among_paper_heldout_cases,
    are_paper_heldout_cases,
    evaluate_folder,
)
from evopolicygym.execution.ray.engine import ray_engine
from evopolicygym.files import open_unnamed
from evopolicygym.reference.paper import HELDOUT_CASES, best_agent, published
from evopolicygym.runs.locks import CaseSet, hidden_cases_lock
from evopolicygym.runs.settings import CORES, EngineName, IsolationChoice, Seeds
from evopolicygym.sandbox.checkpoints import Checkpoint, SnapshotRefused
from evopolicygym.sandbox.policy.jail import MEANING, Level
from evopolicygym.tasks import pins
from evopolicygym.tasks.registry import resolve
from evopolicygym.tasks.sealing import load_key
from evopolicygym.tasks.splits import SIZES, Split, cases, evaluation_salt, new_salt, parse_indices, parse_salt

DEFAULT_CASES = {Split.TRAIN: "0-7", Split.VALIDATION: "0-15", Split.HELDOUT: "0-31"}


def evaluate(
    policy_dir: Annotated[Path, typer.Argument(help="Folder that holds policy.py.")],
    task: Annotated[str, typer.Argument(help="core16/NAME, a Gymnasium id, module:Env-v0, or a task file.")],
    split: Annotated[Split, typer.Option(help="Which list of cases.")] = Split.TRAIN,
    seeds: Annotated[Seeds, typer.Option(help="Public cases of the paper, or sealed by your key.")] = Seeds.SEALED,
    seal_key: Annotated[Path | None, typer.Option(help="Key file for --seeds sealed.")] = None,
    case_list: Annotated[str | None, typer.Option("--cases", help="As 0-7,12. Default 8, 16 or 32 by split.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Episodes at a time, on this machine.")] = CORES,
    engine_name: Annotated[EngineName, typer.Option("--engine", help="This machine, or Ray.")] = EngineName.LOCAL,
    ray_address: Annotated[str | None, typer.Option(help="A Ray cluster, or auto (default: a Ray of our own).")] = None,
    isolation: Annotated[IsolationChoice, typer.Option(help="auto is the best of A and B.")] = IsolationChoice.AUTO,
    record: Annotated[Path | None, typer.Option(help="New folder for a trajectory of each episode.")] = None,
    video: Annotated[bool, typer.Option(help="With --record: a video of each episode, too.")] = False,
    stock: Annotated[bool, typer.Option(help="Stock environments, not their bit-exact fast versions.")] = False,
    salt: Annotated[
        str | None, typer.Option(help="randomness_salt of a run or evaluation, to repeat its draws.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a policy on chosen cases and report returns, lengths, errors and speed."""
    found = resolve(task)
    splits = seeds.splits(seal_key)
    engine_name.check_address(ray_address)
    salt_of = _salt_of(salt, seal_key)
    wanted = DEFAULT_CASES[split] if case_list is None else case_list
    chosen = cases(splits, found.id, split, parse_indices(wanted, SIZES[split]))
    _warn(pins.version_mismatches(pins.distributions(found.requires)), isolation)
    _check_paths(policy_dir, record, video)
    levels, workers = isolation.levels(), min(jobs, len(chosen))
    local = partial(LocalEngine, found, workers, levels)
    remote = partial(ray_engine, found, workers, ray_address, levels)
    make = local if engine_name is EngineName.LOCAL else remote
    label = f"evaluate {policy_dir}"
    apart = hidden_cases_lock(
        CaseSet(found.id, splits.id), label, "Ctrl-C ends this; evaluate it later, or on train cases."
    )
    try:
        with (
            nullcontext() if split is Split.TRAIN else apart,
            make(video=video, stock=stock) as engine,
            progress(len(chosen)) as advance,
        ):
            print_refused_nodes(engine.nodes)
            report = evaluate_folder(
                engine, found, policy_dir.resolve(), chosen, splits.id, record, video, advance, salt_of
            )
    except SnapshotRefused as error:
        raise UserError(f"{policy_dir} cannot be evaluated: {error}") from error
    except PolicyNotLoaded as error:
        _report_not_loaded(error, json)
        raise typer.Exit(1) from None
    if json:
        print_json(report.as_dict())
    else:
        _print(report)
    if report.faults:
        raise Fault(f"{len(report.faults)} of {len(chosen)} episodes have no score: {report.faults[0].text}")


def _salt_of(given: str | None, seal_key: Path | None) -> Callable[[Checkpoint], str]:
    """Return how the salt follows from the checkpoint: as given, else by the sealing key, else drawn for this time."""
    if given is not None:
        chosen = parse_salt(given)
        return lambda _: chosen
    try:
        key = load_key(seal_key)
    except UserError as error:
        drawn = new_salt()
        stderr.print(
            f"warning: {error.message}: a policy that draws random numbers gets others each time it is evaluated"
        )
        stderr.print(f"To repeat this evaluation, add --salt {drawn}")
        return lambda _: drawn
    return lambda checkpoint: evaluation_salt(key, checkpoint.hash)


def _warn(complaints: list[str], isolation: IsolationChoice) -> None:
    for complaint in complaints:
        stderr.print(f"warning: {complaint}")
    if isolation is IsolationChoice.NONE:
        stderr.print(f"warning: --isolation none is {MEANING[Level.NONE]}")


def _check_paths(policy_dir: Path, record: Path | None, video: bool) -> None:
    if not policy_dir.is_dir():
        raise UserError(f"{policy_dir} is not a folder", "Name the folder that holds policy.py.")
    if video and record is None:
        raise UserError("--video needs a place to put it", "Add --record FOLDER.")
    if record is None:
        return
    if policy_dir.resolve() in record.resolve().parents:
        raise UserError(
            f"{record} lies in the policy's folder, and would be evaluated as a part of it",
            f"Name a folder for --record that is not in {policy_dir}.",
        )
    _make_empty(record)


def _make_empty(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"{folder} is not empty", "Name a new folder for --record: nothing is ever overwritten.")
        open_unnamed(folder).close()
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}", "Name another folder for --record.") from error


def _report_not_loaded(error: PolicyNotLoaded, json: bool) -> None:
    if json:
        told = {"kind": error.error.kind, "text": error.error.text}
        print_json({"loaded": False, "error": told, "stdout": error.stdout, "stderr": error.stderr})
    stderr.block(f"the policy does not load: {error.error.kind}\n{error.error.text}")
    for name, text in (("stdout", error.stdout), ("stderr", error.stderr)):
        if text:
            stderr.block(f"its {name}:\n{text}")


def _print(report: Evaluation) -> None:
    stdout.print(f"{'case':5} {'return':>12} {'steps':>6}  end")
    for result in report.episodes:
        ending = result.error.kind if result.error else "terminated" if result.terminated else "truncated"
        stdout.print(f"{result.case.index:<5} {result.score:12.4f} {result.length:6}  {ending}")
    for line in _failures(report):
        stdout.block(line)
    stdout.print()
    for name, value in _summary(report):
        stdout.print(f"{name:12} {value}")


def _failures(report: Evaluation) -> Iterator[str]:
    """Each distinct failure once, with the first case it happened on."""
    seen = set()
    for result in report.episodes:
        if result.error and (result.error.kind, result.error.text) not in seen:
            seen.add((result.error.kind, result.error.text))
            yield f"\ncase {result.case.index} failed: {result.error.kind}\n{result.error.text.rstrip()}"
            if result.stderr:
                yield f"its stderr:\n{result.stderr.rstrip()}"


def _summary(report: Evaluation) -> Iterator[tuple[str, str]]:
    scores = report.returns
    yield "task", f"{report.task.id} ({report.task.env_id}), {report.split} cases of {report.splits_id[:23]}"
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
    yield "ids", f"{report.ids.comparable_id} {report.ids.bit_id}"
    if rows := published().get(report.task.id):
        best = best_agent(report.task.id)
        yield "paper", f"{_paper_cases(report)}: random {rows['random']:.4g}, best agent ({best}) {rows[best]:.4g}"


def _paper_cases(report: Evaluation) -> str:
    """How the cases of the paper's rows relate to those that were played."""
    played = (report.splits_id, report.split, report.indices)
    if are_paper_heldout_cases(*played):
        return "on these cases"
    if are_among_paper_heldout_cases(*played):
        return f"on all {HELDOUT_CASES} cases of this list, not on these {len(report.indices)} alone, not comparable"
    return "on OTHER cases (its own held-out list), not comparable"
