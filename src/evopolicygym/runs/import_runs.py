"""Import runs of the public reference code: write them as run folders that the analysis reads.

An imported run has run.json and the code of its submissions, and nothing to play again: no ledger, no settings, no
hidden cases. Its record says where it comes from and what the original did not record. It never shares a board with
runs of this judge, which isolates policies and gives its agents other texts.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from evopolicygym import __version__, run_record
from evopolicygym.analysis.loading import run_folders
from evopolicygym.analysis.scores import UNKNOWN_FAMILY
from evopolicygym.analysis.work_limit import WorkLimit
from evopolicygym.errors import UserError
from evopolicygym.files import open_folder, write_json
from evopolicygym.printable import one_line
from evopolicygym.record_checks import contradiction, fingerprint_id
from evopolicygym.run_paths import RunPaths
from evopolicygym.runs.reference_folders import ForeignRun, ForeignSubmission, read_reference_run
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointStore, SnapshotRefused, remove_tree
from evopolicygym.tasks.registry import core16
from evopolicygym.tasks.task import Task

METRICS: Final = "metrics.json"  # version 0.1 adds it to every stored program
MAX_PROGRAM_BYTES: Final = 8 << 30  # of all runs that are imported at once
NOT_STORED: Final = "its source was not stored"
BUNDLE_HASH: Final = hashlib.sha256(b"").hexdigest()
NO_RESULT: Final[dict[str, Any]] = {"lengths": [], "errors": [], "std": 0.0}


@dataclass(frozen=True)
class ImportResult:
    """Result of importing one folder. ``target`` is None if it was refused, for ``reason``; ``is_new`` is false if it
    was there before."""

    source: Path
    target: Path | None
    reason: str | None = None
    is_new: bool = False


def import_folders(path: Path, folder: Path) -> list[ImportResult]:
    """Import the run at ``path``, or all runs below it, into ``folder``. A run that cannot be read does not stop the
    others. Raises UserError if there is none."""
    if not path.is_dir():
        raise UserError(f"{one_line(path)} is not a folder", "Name a run folder, or a folder that holds some.")
    sources = sorted(run_folders(path))
    if not sources:
        raise UserError(f"there is no run below {one_line(path)}", "A run is a folder with run.json.")
    programs = WorkLimit(MAX_PROGRAM_BYTES)
    return [_import(source, folder, programs) for source in sources]


def _import(source: Path, folder: Path, programs: WorkLimit) -> ImportResult:
    try:
        run = read_reference_run(source)
        target = folder / _folder_name(run)
        if RunPaths(target).record.exists():
            return ImportResult(source, target)
        _write(run, source, RunPaths(target), programs)
    except UserError as error:
        return ImportResult(source, None, error.message)
    except Exception as error:  # of a stranger's folder: whatever is wrong with it, the others are imported
        return ImportResult(source, None, f"{one_line(source)} cannot be imported: {one_line(error)}")
    return ImportResult(source, target, is_new=True)


def _folder_name(run: ForeignRun) -> str:
    parts = (_task(run.env)[0].rpartition("/")[2], run.model or run.agent, run.source_hash[:8])
    return "__".join(re.sub(r"[^A-Za-z0-9.-]+", "-", part).strip(".-")[:60] or "unknown" for part in parts)


def _write(run: ForeignRun, source: Path, paths: RunPaths, programs: WorkLimit) -> None:
    """Write the code first and the record last: an interrupted import is no run, and is repeated. One that is refused
    leaves no code behind."""
    paths.root.mkdir(parents=True, exist_ok=True)
    try:
        store = CheckpointStore(paths.checkpoints)
        checkpoints = [_store(store, source, submission, programs) for submission in run.submissions]
        record = _record(run, source, checkpoints)
        if problem := contradiction(record):
            raise UserError(f"{one_line(source)} contradicts itself: {problem}")
        write_json(paths.record, record.model_dump(mode="json"))
    except Exception:
        remove_tree(paths.checkpoints)
        with suppress(OSError):
            paths.root.rmdir()
        raise


def _store(
    store: CheckpointStore, source: Path, submission: ForeignSubmission, programs: WorkLimit
) -> Checkpoint | None:
    """Store a program; None if it is missing. It is copied twice: the metrics are removed from the first copy."""
    parent, _, name = submission.folder.rpartition("/")
    try:
        with open_folder(source, submission.folder), open_folder(source, parent) as folder:
            checkpoint = _stored(store, Path(f"/proc/self/fd/{folder}") / name)
    except FileNotFoundError:
        return None
    except SnapshotRefused as error:
        raise UserError(f"{one_line(source / submission.folder)} cannot be imported: {error}") from error
    if not programs.read(checkpoint.bytes, checkpoint.files):
        raise UserError(
            f"{one_line(source)} cannot be imported: the programs of these runs have more than "
            f"{MAX_PROGRAM_BYTES >> 30} GiB together; import fewer at once"
        )
    return checkpoint


def _stored(store: CheckpointStore, program: Path) -> Checkpoint:
    with tempfile.TemporaryDirectory(prefix="evopolicygym-") as temporary:
        first = CheckpointStore(Path(temporary))
        try:
            copy = first.folder(first.snapshot(program))
            os.chmod(copy, 0o755)
            (copy / METRICS).unlink(missing_ok=True)
            return store.snapshot(copy)
        finally:
            remove_tree(temporary)


def _record(run: ForeignRun, source: Path, checkpoints: list[Checkpoint | None]) -> run_record.RunRecord:
    hashes = [stored.hash if stored else _missing_hash(run, index) for index, stored in enumerate(checkpoints)]
    task, facts = _task_facts(run.env), _fingerprint(run)
    charged = sum(len(submission.cases) for submission in run.submissions)
    return run_record.RunRecord(
        schema_version=run_record.VERSION,
        evopolicygym=__version__,
        id=f"imported-{run.source_hash[:16]}",
        status=run_record.RunStatus.FINISHED,
        task=task,
        ids=run_record.RunIds(
            splits_id=facts["splits"], comparable_id=fingerprint_id("c", facts), bit_id="imported", fingerprint=facts
        ),
        options=run_record.Options(
            validation_cases=run.validation_cases,
            heldout_cases=run.heldout_cases,
            validate_when="after",
            video="none",
            stock=True,
            text="brief",
        ),
        agent=run_record.Agent(name=run.agent, model=run.model, seed=run.seed),
        isolation=run_record.IsolationRecord(policy="none", agent="none", agent_network="open", publishable=False),
        implementation=run.format,
        budget=run_record.Budget(
            total=run.budget, charged=charged, remaining=run.budget - charged, refunds=0, refused={}
        ),
        submissions=[_submission(run, index, hashes[index]) for index in range(len(hashes))],
        checkpoints=list(_checkpoints(run, hashes, checkpoints)),
        outcome=_outcome(run, hashes, run.budget - charged),
        times=run_record.Times(
            opened=run.opened,
            closed=run.closed,
            finished=run.closed,
            closed_because=run.ended,
            train_s=0.0,
            hidden_s=0.0,
        ),
        usage=None,
        ledger_head=run.source_hash,
        imported=run_record.ImportedFrom(
            format=run.format, folder=one_line(source.name), not_recorded=run.not_recorded
        ),
    )


def _fingerprint(run: ForeignRun) -> dict[str, Any]:
    """Return what two imported runs must share to be compared. The first key keeps them apart from all other runs."""
    task = _task_facts(run.env)
    return {
        "imported": run.format,
        "task": task.id,
        "env": run.env,
        "horizon": task.horizon,
        "failure_return": task.failure_return,
        "splits": f"{run.format}:{run.cases_id}",
        "budget": run.budget,
        "validation_cases": run.validation_cases,
        "heldout_cases": run.heldout_cases,
        "text": "brief",
    }


def _task(env: str) -> tuple[str, Task | None]:
    """Return the id of the task, and the task if Core16 has it: by its Gymnasium id, or by its short name."""
    last = env.rpartition("/")[2]
    for task in core16().values():
        short = task.id.rpartition("/")[2]
        if task.env_id.rpartition("/")[2] == last or short == last.replace("_", "-").lower():
            return task.id, task
    return f"{UNKNOWN_FAMILY}/{env}", None


def _task_facts(env: str) -> run_record.TaskFacts:
    name, task = _task(env)
    if task is None:
        return run_record.TaskFacts(
            id=name,
            env_id=env,
            version=0,
            title=env,
            family=UNKNOWN_FAMILY,
            demand=UNKNOWN_FAMILY,
            horizon=0,
            failure_return=0.0,
        )
    return run_record.TaskFacts(
        id=task.id,
        env_id=task.env_id,
        version=task.version,
        title=task.title,
        family=task.family,
        demand=task.demand,
        horizon=task.horizon,
        failure_return=task.failure_return.value,
    )


def _missing_hash(run: ForeignRun, index: int) -> str:
    """Return a name for a program that was not stored. It differs from all others: it may be another program."""
    return hashlib.sha256(f"{run.source_hash} submission {index}".encode()).hexdigest()


def _submission(run: ForeignRun, index: int, checkpoint: str) -> run_record.SubmissionRecord:
    submission = run.submissions[index]
    return run_record.SubmissionRecord(
        number=index + 1,
        checkpoint=checkpoint,
        cases=submission.cases,
        charged=len(submission.cases),
        charged_at=run.opened,
        judged_at=None,
        verdict=submission.verdict,
        refunded=False,
        train=_result(submission.returns, submission.lengths, submission.errors) if submission.returns else None,
        clipped_actions=0,
        wall_s=None,
    )


def _checkpoints(
    run: ForeignRun, hashes: list[str], stored: list[Checkpoint | None]
) -> Iterator[run_record.CheckpointRecord]:
    """Yield each program once. If it was submitted several times, the hidden result of the selected submission counts,
    else that of the last one."""
    positions: dict[str, list[int]] = {}
    for index, name in enumerate(hashes):
        positions.setdefault(name, []).append(index)
    for name, indexes in positions.items():
        chosen = run.selected if run.selected in indexes else indexes[-1]
        validation = run.submissions[chosen].validation
        copy = stored[indexes[0]]
        yield run_record.CheckpointRecord(
            hash=name,
            files=copy.files if copy else 0,
            bytes=copy.bytes if copy else 0,
            code=None if copy else _no_code(),
            validation=None if validation is None else run_record.Result(returns=[], mean=validation, **NO_RESULT),
            heldout=_heldout(run) if chosen == run.selected else None,
        )


def _no_code() -> run_record.Code:
    counts = dict.fromkeys(("lines", "functions", "branches", "loops", "depth", "state"), 0)
    return run_record.Code(
        bundle=[], bundle_hash=BUNDLE_HASH, tree=None, topology=None, unresolved=[], error=NOT_STORED, **counts
    )


def _outcome(run: ForeignRun, hashes: list[str], budget_left: int) -> run_record.Outcome:
    heldout = _heldout(run) if run.selected is not None else None
    kinds = run_record.OutcomeKind
    kind = kinds.JUDGE_FAULT if run.is_fault else kinds.SCORED if heldout else kinds.NO_OK_SUBMIT
    selected = run.selected if kind is kinds.SCORED else None
    return run_record.Outcome(
        kind=kind,
        submission=None if selected is None else selected + 1,
        checkpoint=None if selected is None else hashes[selected],
        validation_mean=None if selected is None else run.submissions[selected].validation,
        heldout=heldout if selected is not None else None,
        repeat=None,
        stopped_early=budget_left > 0,
        budget_left=budget_left,
        cause=run.cause,
    )


def _heldout(run: ForeignRun) -> run_record.Result | None:
    if run.heldout_returns:
        return _result(run.heldout_returns, [], [])
    return None if run.heldout_mean is None else run_record.Result(returns=[], mean=run.heldout_mean, **NO_RESULT)


def _result(returns: list[float], lengths: list[int], errors: list[str | None]) -> run_record.Result:
    mean = sum(returns) / len(returns)
    std = (sum((value - mean) ** 2 for value in returns) / len(returns)) ** 0.5
    return run_record.Result(returns=returns, lengths=lengths, errors=errors, mean=mean, std=std)
