"""Read run folders of the public reference code, versions 0.1 and 0.3, into one form.

The folders come from strangers: files are read below the folder without following links, sizes and counts are bounded,
and what has the wrong shape is refused with its name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evopolicygym.analysis.work_limit import FeedbackLimit
from evopolicygym.errors import UserError
from evopolicygym.files import is_folder, list_files, read_file, read_json_file
from evopolicygym.printable import one_line

MAX_JSON_BYTES: Final = 64 << 20
MAX_SUBMISSIONS: Final = 10_000
VALIDATION_CASES: Final = 16  # of the protocol: version 0.1 does not write the number down
AGENT_LOG: Final = re.compile(r"logs/([A-Za-z0-9-]{1,40})(\.jsonl|_turns/.*)")
Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e60, le=1e60)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Text = Annotated[str, Field(max_length=500)]
Shape = TypeVar("Shape", bound="_Foreign")


@dataclass(frozen=True)
class ForeignSubmission:
    """A submission of the reference code. ``folder``: its program, below the run's folder. ``validation``: its hidden
    mean, if it was a candidate. Lists are empty where nothing is recorded."""

    folder: str
    verdict: str
    cases: list[int]
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    errors: list[str | None] = field(default_factory=list)
    validation: float | None = None


@dataclass(frozen=True)
class ForeignRun:
    """A run of the reference code. ``source_hash`` covers the files that its scores come from. ``cases_id`` identifies
    its hidden cases. ``selected`` is a position in ``submissions``. ``ended``: the reason for its end, in the word of
    that code."""

    format: Literal["reference-0.1", "reference-0.3"]
    source_hash: str
    env: str
    agent: str
    model: str | None
    seed: int | None
    version: str
    cases_id: str
    budget: int
    validation_cases: int
    heldout_cases: int
    submissions: list[ForeignSubmission]
    selected: int | None
    heldout_mean: float | None
    heldout_returns: list[float]
    opened: datetime
    closed: datetime
    ended: str
    is_fault: bool
    cause: str | None
    not_recorded: list[str]


def read_reference_run(folder: Path) -> ForeignRun:
    """Read the folder of one run. Raises UserError if it is not a run, or not finished."""
    data = _json(folder, "run.json")
    if data.get("schema_version") == "0.1":
        return _read_first(folder, data)
    if str(data.get("schema", "")).startswith("evopolicygym/run-record/"):
        return _read_third(folder, data)
    raise UserError(
        f"{one_line(folder)} is not a run of the reference code, version 0.1 or 0.3",
        "Name a run folder of that code, or a folder that holds some.",
    )


class _Foreign(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Dimensions(_Foreign):
    episode_budget: Annotated[int, Field(ge=1, le=100_000)]


class _Timing(_Foreign):
    start_time: datetime
    end_time: datetime


class _FirstOutcome(_Foreign):
    status: Literal["completed", "no_ok_submit", "error"]
    error: Any = None
    best_submit_index: Count | None = None
    val_scores: dict[Annotated[str, Field(pattern=r"^\d{1,6}$")], Number] | None = None
    heldout_mean_return: Number | None = None
    heldout_returns: Annotated[list[Number], Field(max_length=256)] | None = None


class _FirstRun(_Foreign):
    protocol_version: Text = ""
    model: Text
    env: Text
    exp_id: Text = ""
    experiment_dimensions: _Dimensions
    timing: _Timing
    outcome: _FirstOutcome
    versions: dict[Text, Any] = {}


class _FirstSummary(_Foreign):
    status: Text = "ok"
    env_instances: Annotated[list[Count], Field(max_length=100_000)] = []
    returns: Annotated[list[Number | None], Field(max_length=100_000)] = []
    lengths: Annotated[list[Count], Field(max_length=100_000)] = []


def _read_first(folder: Path, data: dict[str, Any]) -> ForeignRun:
    run = _shaped(_FirstRun, data, folder)
    outcome, hashes = run.outcome, {name: value for name, value in run.versions.items() if name.startswith("data_")}
    heldout = outcome.heldout_returns or []
    submissions = _first_submissions(folder, outcome.val_scores or {})
    _check_selected(folder, outcome.best_submit_index, len(submissions))
    return ForeignRun(
        format="reference-0.1",
        source_hash=_hash(folder, "run.json"),
        env=run.env,
        agent=_agent_of_logs(folder),
        model=run.model,
        seed=None,
        version=run.protocol_version,
        cases_id=_digest(hashes) if hashes else "not recorded",
        budget=run.experiment_dimensions.episode_budget,
        validation_cases=VALIDATION_CASES,
        heldout_cases=len(heldout) or 32,
        submissions=submissions,
        selected=outcome.best_submit_index if outcome.status == "completed" else None,
        heldout_mean=outcome.heldout_mean_return,
        heldout_returns=heldout,
        opened=_aware(run.timing.start_time),
        closed=_aware(run.timing.end_time),
        ended=outcome.status,
        is_fault=outcome.status == "error",
        cause=str(outcome.error)[:500] if outcome.error else None,
        not_recorded=[
            "validation returns of each case",
            "lengths and errors of held-out episodes",
            "times of submissions",
            "turns, tokens and cost",
            "settings of the agent",
            "versions of the simulators",
            "isolation",
        ],
    )


def _first_submissions(folder: Path, validation: dict[str, float]) -> list[ForeignSubmission]:
    """Read the submissions 000, 001, ... as far as either the program or the feedback is there."""
    submissions: list[ForeignSubmission] = []
    reading = FeedbackLimit(folder)
    for index in range(MAX_SUBMISSIONS):
        stored, feedback = f"checkpoints/submit_{index:03d}", f"workspace/feedback/submit_{index:03d}"
        if not is_folder(folder, stored) and not is_folder(folder, feedback):
            return submissions
        summary = _shaped(_FirstSummary, _json_if_there(folder, f"{feedback}/summary.json", reading), folder)
        reading.count_episodes(len(summary.env_instances))
        returns = [value for value in summary.returns if value is not None]
        is_complete = len(returns) == len(summary.env_instances)
        submissions.append(
            ForeignSubmission(
                folder=stored,
                verdict=summary.status,
                cases=summary.env_instances,
                returns=returns if is_complete else [],
                lengths=summary.lengths if len(summary.lengths) == len(returns) and is_complete else [],
                validation=validation.get(str(index)),
            )
        )
    raise UserError(f"{one_line(folder)} has more than {MAX_SUBMISSIONS} submissions")


def _agent_of_logs(folder: Path) -> str:
    """Return the name of the agent after which a log is named."""
    with suppress(OSError):
        for path in sorted(list_files(folder, "logs", 10_000, 3)):
            if match := AGENT_LOG.fullmatch(f"logs/{path}"):
                return match[1]
    return "unknown"


class _ThirdBenchmark(_Foreign):
    id: Text


class _ThirdHidden(_Foreign):
    episodes: Annotated[int, Field(ge=1, le=256)] = 32
    episodes_per_candidate: Annotated[int, Field(ge=1, le=64)] = VALIDATION_CASES


class _ThirdConfig(_Foreign):
    seed: Annotated[int, Field(ge=-(2**62), lt=2**62)] | None = None
    episode_budget: Annotated[int, Field(ge=1, le=100_000)]
    validation: _ThirdHidden | None = None
    assessment: _ThirdHidden | None = None


class _ThirdSubmission(_Foreign):
    submission_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,80}$")]
    episode_indices: Annotated[list[Count], Field(max_length=100_000)] = []


class _ThirdRun(_Foreign):
    library_version: Text = ""
    benchmark: _ThirdBenchmark
    config: _ThirdConfig
    agent: dict[Text, Any] = {}
    terminal_reason: Text
    final_submission_id: Text | None = None
    submissions: Annotated[list[_ThirdSubmission], Field(max_length=MAX_SUBMISSIONS)] = []


class _ThirdEpisode(_Foreign):
    reward: Number | None = None
    steps: Count | None = None
    failure: Text | None = None


class _ThirdFeedback(_Foreign):
    episodes: Annotated[list[_ThirdEpisode], Field(max_length=100_000)] = []


class _Candidate(_Foreign):
    submission_id: Text
    score: Number


class _ThirdReport(_Foreign):
    score_direction: Text = "maximize"
    score: Number | None = None
    candidates: Annotated[list[_Candidate], Field(max_length=MAX_SUBMISSIONS)] = []


REPORTS: Final = ("validation", "assessment")
FAULTS: Final = ("evaluation_failed", "validation_failed", "assessment_failed")


def _read_third(folder: Path, data: dict[str, Any]) -> ForeignRun:
    run = _shaped(_ThirdRun, data, folder)
    validation, assessment = (_third_report(folder, name) for name in REPORTS)
    means = {candidate.submission_id: _sign(validation) * candidate.score for candidate in validation.candidates}
    names = [submission.submission_id for submission in run.submissions]
    reading = FeedbackLimit(folder)
    submissions = [
        _third_submission(folder, submission, means.get(name), reading)
        for name, submission in zip(names, run.submissions, strict=True)
    ]
    selected = names.index(run.final_submission_id) if run.final_submission_id in names else None
    has_score = run.terminal_reason == "finished" and assessment.score is not None
    opened, closed = _event_times(folder)
    return ForeignRun(
        format="reference-0.3",
        source_hash=_hash(folder, "run.json", *(f"{name}/report.json" for name in REPORTS)),
        env=run.benchmark.id,
        agent=str(run.agent.get("name") or run.agent.get("type") or "unknown")[:100],
        model=str(run.agent["model"])[:200] if run.agent.get("model") else None,
        seed=run.config.seed,
        version=run.library_version,
        cases_id=_digest({"seed": run.config.seed}),
        budget=run.config.episode_budget,
        validation_cases=(run.config.validation or _ThirdHidden()).episodes_per_candidate,
        heldout_cases=(run.config.assessment or _ThirdHidden()).episodes,
        submissions=submissions,
        selected=selected if has_score else None,
        heldout_mean=_sign(assessment) * assessment.score if has_score and assessment.score is not None else None,
        heldout_returns=[],
        opened=opened,
        closed=closed,
        ended=run.terminal_reason,
        is_fault=run.terminal_reason in FAULTS or (run.terminal_reason == "finished" and not has_score),
        cause=run.terminal_reason if run.terminal_reason in FAULTS else None,
        not_recorded=[
            "returns of each hidden case",
            "times of submissions",
            "tokens and cost",
            "versions of the simulators",
            "isolation",
        ],
    )


def _third_submission(
    folder: Path, submission: _ThirdSubmission, validation: float | None, reading: FeedbackLimit
) -> ForeignSubmission:
    root = f"submissions/{submission.submission_id}"
    feedback = _shaped(_ThirdFeedback, _json_if_there(folder, f"{root}/feedback.json", reading), folder)
    reading.count_episodes(max(len(submission.episode_indices), len(feedback.episodes)))
    returns = [episode.reward for episode in feedback.episodes if episode.reward is not None]
    lengths = [episode.steps for episode in feedback.episodes if episode.steps is not None]
    cases = submission.episode_indices
    return ForeignSubmission(
        folder=f"{root}/program",
        verdict="ok",
        cases=cases,
        returns=returns if len(returns) == len(cases) else [],
        lengths=lengths if len(lengths) == len(cases) else [],
        errors=[episode.failure for episode in feedback.episodes] if len(feedback.episodes) == len(cases) else [],
        validation=validation,
    )


def _third_report(folder: Path, name: str) -> _ThirdReport:
    return _shaped(_ThirdReport, _json_if_there(folder, f"{name}/report.json"), folder)


def _sign(report: _ThirdReport) -> float:
    """Return -1 for a score that is to be minimised, else 1: here a higher return is better."""
    return -1.0 if report.score_direction == "minimize" else 1.0


def _event_times(folder: Path) -> tuple[datetime, datetime]:
    """Return the times of the first and the last event, as far as they are recorded."""
    times: list[datetime] = []
    with suppress(OSError, ValueError, RecursionError):
        for line in read_file(folder, "events.jsonl", MAX_JSON_BYTES).splitlines():
            event = json.loads(line)
            wall = event.get("wall_time_ns", event.get("wall_ns")) if isinstance(event, dict) else None
            if isinstance(wall, int) and 0 < wall < 2**62:
                times.append(datetime.fromtimestamp(wall / 1e9, UTC))
    return (times[0], times[-1]) if times else (datetime.fromtimestamp(0, UTC),) * 2


def _check_selected(folder: Path, selected: int | None, submissions: int) -> None:
    if selected is not None and selected >= submissions:
        raise UserError(f"{one_line(folder)} selected submission {selected}, which does not exist")


def _json_if_there(folder: Path, name: str, reading: FeedbackLimit | None = None) -> dict[str, Any]:
    return _json(folder, name, reading) if _is_there(folder, name) else {}


def _json(folder: Path, name: str, reading: FeedbackLimit | None = None) -> dict[str, Any]:
    try:
        text = read_json_file(folder, name, MAX_JSON_BYTES)
        if reading:
            reading.count_bytes(len(text))
        data = json.loads(text)
        json.dumps(data, ensure_ascii=False).encode()  # half of a surrogate pair could not be read back
    except OSError as error:
        raise UserError(f"cannot read {one_line(folder / name)}: {error.strerror}", "Name a run folder.") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{one_line(folder / name)} is not JSON: {one_line(error)}") from error
    if not isinstance(data, dict):
        raise UserError(f"{one_line(folder / name)} is not a JSON object")
    return data


def _shaped(shape: type[Shape], data: dict[str, Any], folder: Path) -> Shape:
    try:
        return shape.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = one_line(".".join(str(part) for part in first["loc"]))
        raise UserError(f"{one_line(folder)} cannot be imported: {where}: {first['msg']}") from error


def _hash(folder: Path, *names: str) -> str:
    """Return a hash over several files, some of which may be missing; for a single file, the hash of that file."""
    hashes = [
        hashlib.sha256(read_file(folder, name, MAX_JSON_BYTES)).hexdigest() if _is_there(folder, name) else "missing"
        for name in names
    ]
    return hashes[0] if len(names) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def _is_there(folder: Path, name: str) -> bool:
    return os.path.lexists(folder / name)


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)
