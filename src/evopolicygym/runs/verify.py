"""Verify a run: recompute everything about it that can be recomputed. Nothing is written to the run.

`verify` checks the ledger's hash chain, the budget at every line, checkpoints, feedback, the selection, run.json and
the settings, and measures the scale of a generated task; then it plays the winner on the held-out cases twice and the
first submission once, and compares the returns with the recorded ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from evopolicygym.errors import Fault, UserError
from evopolicygym.files import list_files
from evopolicygym.judge import feedback, scoring
from evopolicygym.judge.events import (
    Charged,
    Closed,
    Event,
    Judged,
    Opened,
    Refunded,
    Selected,
    Suspended,
)
from evopolicygym.judge.ledger import LedgerLine, line_hash, read
from evopolicygym.judge.state import RunPhase, RunState, apply, fold, in_place
from evopolicygym.run_paths import RunPaths, check_run_folder
from evopolicygym.run_record import OutcomeKind, RunRecord, load
from evopolicygym.runs import record
from evopolicygym.runs.open_run import RECORDED_OPTIONS
from evopolicygym.runs.replay import Replay, confirm_scale, in_one_line, replay_run
from evopolicygym.runs.run_status import check_consistent
from evopolicygym.runs.settings import IsolationChoice, RunSettings
from evopolicygym.sandbox.checkpoints import CheckpointAltered, CheckpointStore
from evopolicygym.tasks.conditions import UNSTATED
from evopolicygym.tasks.ids import comparable_id
from evopolicygym.tasks.novel.generate import is_novel

NUMBERS: Final = ("budget", "validation_cases", "heldout_cases", "max_candidates")
MAX_PROBLEMS: Final = 100  # of one kind that are named
# Of one run. Sparse files have any size without taking space, so an archive of a few kilobytes can hold terabytes.
MAX_CHECKPOINT_BYTES: Final = 32 << 30
MAX_FEEDBACK_BYTES: Final = 64 << 30
CHECK_COST: Final = 256 << 10  # bytes that the copying of a checkpoint counts as


@dataclass(frozen=True)
class VerifyCheck:
    """Result of one check: its name, whether it passed, and what was found."""

    what: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Verification:
    """Findings of a verification, one for each check of the run.

    ``replay`` says how the winner's returns compare with the recorded ones; it is None if the winner could not be
    played. ``first_replay`` is that of the first submission; None if it is the winner, or has no held-out result."""

    findings: tuple[VerifyCheck, ...]
    replay: Replay | None
    first_replay: Replay | None = None

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(finding.ok for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as `verify --json` prints it."""
        replays = {"replay": self.replay, "first_replay": self.first_replay}
        return {"ok": self.ok, **replays, "findings": [asdict(finding) for finding in self.findings]}


def verify(
    root: Path, jobs: int, isolation: IsolationChoice = IsolationChoice.AUTO, task: str | None = None
) -> Verification:
    """Check a run, and play its winner and its first submission again.

    Args:
        root: The run's folder, which may come from another person.
        jobs: Episodes to play at the same time.
        isolation: How policies are jailed. Always the caller's choice, whatever config.toml says.
        task: The task, if it is not an installed one: it is imported only if the caller names it, too.
    """
    paths = RunPaths(root.absolute())
    try:
        check_run_folder(paths.root)
        lines = list(read(paths.ledger))
        state = fold(line for line, _ in lines)
        if state.opened is None:
            return Verification((VerifyCheck("ledger", False, "the run was never opened"),), None)
        check_consistent(state)
    except UserError as error:
        return Verification((VerifyCheck("ledger", False, in_one_line(error)),), None)
    hashes = [line_hash(raw) for _, raw in lines]
    findings = [
        VerifyCheck("ledger", True, f"{len(lines)} lines, the hash chain is intact"),
        _check(
            "budget",
            _budget([line for line, _ in lines]),
            f"{state.charged} used + {state.remaining} left = {state.budget}",
        ),
        _check("checkpoints", _checkpoints(paths, state), "the content of each matches its hash"),
        _check("feedback", _feedback(paths, state), _feedback_status(paths, state)),
        _check("selection", _selection(state), "the best validation mean; ties go to the later submission"),
        _check("record", _record(paths, lines, hashes), "run.json follows from the ledger"),
        _check("settings", _settings(paths, state), _settings_status(state)),
    ]
    if not findings[-1].ok:  # a task, cases or a jail that were chosen later say nothing about this run
        text = "not played: the settings of the run are unknown"
        return Verification((*findings, VerifyCheck("replay", False, text)), None)
    if is_novel(state.opened.facts["task"]["id"]):
        findings.append(VerifyCheck("scale", *confirm_scale(paths, state, task)))
    try:
        winner, first = replay_run(paths, state, jobs, isolation, task)
    except (UserError, Fault) as error:
        return Verification(
            (*findings, VerifyCheck("replay", False, f"the winner cannot be played: {in_one_line(error)}")), None
        )
    findings.append(VerifyCheck("replay", winner.ok, winner.detail))
    if first:
        findings.append(VerifyCheck("first", first.ok, first.detail))
    return Verification(tuple(findings), winner.result, first.result if first else None)


def _check(what: str, problems: Iterator[str], fine: str) -> VerifyCheck:
    """Return the result of a check: its problems, or what to say if there are none."""
    try:
        messages = list(islice(problems, MAX_PROBLEMS))
    except (OSError, UserError) as error:
        messages = [f"it cannot be read: {in_one_line(error)}"]
    return VerifyCheck(what, not messages, "; ".join(messages) if messages else fine)


def _budget(lines: list[LedgerLine]) -> Iterator[str]:
    """Check the budget at every line of the ledger, not only at the last."""
    state = RunState()
    for line in lines:
        event = line.event()
        for problem in _impossible(state, event):
            yield f"line {line.sequence + 1} {problem}"
        state = apply(state, event, line.time, in_place)


def _impossible(state: RunState, event: Event) -> Iterator[str]:
    """Yield reasons why no judge would have written this event in this state."""
    match event:
        case Opened() if state.opened is not None:
            yield "opens the run a second time"
        case Charged(number, cases=cases):
            if state.phase is not RunPhase.OPEN or len(cases) > state.remaining:
                yield f"charges {len(cases)} with {state.remaining} left in a run that is {state.phase}"
            last = state.submissions.get(len(state.submissions))
            if number != len(state.submissions) + 1 or (last and last.is_running):
                yield f"charges submission {number} out of turn"
        case Judged(number) | Refunded(number):
            if not state.submissions[number].is_running:
                yield f"ends submission {number} a second time"
        case Closed() if state.phase is not RunPhase.OPEN:
            yield "closes the run a second time"
        case Suspended() if state.phase is not RunPhase.OPEN:
            yield f"suspends a run that is {state.phase}"
        case Selected() if state.phase is not RunPhase.CLOSED:
            yield f"selects in a run that is {state.phase}"
        case _:
            return


def _checkpoints(paths: RunPaths, state: RunState) -> Iterator[str]:
    store = CheckpointStore(paths.checkpoints)
    submitted = (submission.charged.checkpoint for submission in state.submissions.values())
    remaining = MAX_CHECKPOINT_BYTES
    for checkpoint in {checkpoint.hash: checkpoint for checkpoint in submitted}.values():
        if remaining <= 0:
            yield f"they have more than {MAX_CHECKPOINT_BYTES >> 30} GiB; the rest was not checked"
            return
        try:
            remaining -= CHECK_COST + store.check(checkpoint)
        except CheckpointAltered as error:
            yield error.message


def _feedback(paths: RunPaths, state: RunState) -> Iterator[str]:
    if not _has_feedback(paths, state):
        return
    remaining = MAX_FEEDBACK_BYTES
    for submission in state.submissions.values():
        folder = paths.feedback / submission.name
        remaining -= _bytes(folder) if submission.judged else 0
        if remaining < 0:
            yield f"there are more than {MAX_FEEDBACK_BYTES >> 30} GiB; {submission.name} and later were not checked"
            return
        if submission.judged and not folder.is_dir():
            yield f"{submission.name} is missing"
        elif submission.judged and _digest(folder) != submission.judged.feedback:
            yield f"{submission.name} was altered"
        elif submission.refunded is not None and folder.exists():
            yield f"{submission.name} was refunded, but has feedback"


def _has_feedback(paths: RunPaths, state: RunState) -> bool:
    """Return whether this copy of the run has its feedback, which is large, and on which no score depends."""
    names = (submission.name for submission in state.submissions.values())
    return any(os.path.lexists(paths.feedback / name / "summary.json") for name in names)


def _feedback_status(paths: RunPaths, state: RunState) -> str:
    if not any(submission.judged for submission in state.submissions.values()):
        return "there is none"
    return "each is as it was when it was judged" if _has_feedback(paths, state) else "not in this copy of the run"


def _bytes(folder: Path) -> int:
    """Return the size of a folder's files. Sparse files count with their full length, since all of it would be read."""
    try:
        paths = list_files(folder.parent, folder.name, feedback.MAX_FILES, feedback.MAX_DEPTH)
        return sum(os.lstat(folder / path).st_size for path in paths)
    except OSError:
        return 0


def _digest(folder: Path) -> str:
    try:
        return feedback.digest(folder)
    except OSError:  # links, pipes, endless files: not written by a judge
        return ""


def _settings(paths: RunPaths, state: RunState) -> Iterator[str]:
    """Compare config.toml with the hash and the facts in the ledger."""
    assert state.opened is not None
    try:
        settings = RunSettings.read(paths.root, state.opened.settings)
    except UserError as error:
        yield in_one_line(error)
        return
    ids, facts = state.opened.facts["ids"], state.opened.facts["ids"]["fingerprint"]
    if comparable_id(facts) != ids["comparable_id"]:
        yield "the comparable_id is not that of the recorded facts"
    played = {name: getattr(state.opened, name) for name in NUMBERS}
    played |= {"task": state.opened.facts["task"]["id"], "splits": ids["splits_id"]}
    chosen = {name: getattr(settings, name) for name in NUMBERS}
    for name in played:
        if facts.get(name) != played[name] or chosen.get(name, played[name]) != played[name]:
            yield f"{name} is {played[name]!r} in the ledger, but not in its fingerprint or in config.toml"
    yield from _conditions(settings, facts, state.opened.facts.get("options", {}))
    yield from _agent_isolation(settings, state.opened.facts["agent_isolation"])


def _agent_isolation(settings: RunSettings, recorded: dict[str, Any]) -> Iterator[str]:
    """Compare the recorded isolation of the agent with the requested one: whether a run is publishable follows from the
    ledger."""
    if settings.agent is None:
        return
    chosen = {"level": settings.agent.isolation, "network": str(settings.agent.network)}
    for name, value in chosen.items():
        if value not in ("auto", recorded.get(name)):
            yield f"the {name} of the agent is {recorded.get(name)} in the ledger, but {value} in config.toml"


def _conditions(settings: RunSettings, facts: dict[str, Any], options: dict[str, Any]) -> Iterator[str]:
    """Compare the conditions and options in config.toml with those in the ledger: boards are made by what the ledger
    says, but config.toml is what was played. Ledgers from before there was a choice do not say it."""
    recorded = {name: facts.get(name, default) for name, default in UNSTATED.items()}
    variant = facts.get("variant", {"name": UNSTATED["variant"]})
    recorded["variant"] = variant.get("name") if isinstance(variant, dict) else repr(variant)
    for name in RECORDED_OPTIONS:
        chosen = str(getattr(settings, name))
        in_ledger = [str(table[name]) for table in (recorded, options) if name in table]
        if different := [value for value in in_ledger if value != chosen]:
            yield f"{name} is {different[0]} in the ledger, but {chosen} in config.toml"


def _settings_status(state: RunState) -> str:
    assert state.opened is not None
    return (
        "config.toml is as the run was opened" if state.opened.settings else "as the ledger says (older than its hash)"
    )


def _selection(state: RunState) -> Iterator[str]:
    if state.phase in (RunPhase.OPEN, RunPhase.CLOSED):
        return
    if missing := scoring.unvalidated(state):
        yield f"candidates that were never validated: {len(missing)}"
        return
    best = scoring.best(state)
    if (number := best.number if best else None) != state.selected:
        yield f"submission {state.selected} was selected, but {number} is the best"


def _record(paths: RunPaths, lines: list[tuple[LedgerLine, bytes]], hashes: list[str]) -> Iterator[str]:
    """Derive run.json from the ledger and compare. Code metrics are left out: they follow from the checkpoints. Before
    a run is finished its record may belong to an earlier line, which must exist."""
    try:
        written = load(paths.root)
    except UserError as error:
        yield in_one_line(error)
        return
    if written.ledger_head not in hashes:
        yield f"run.json was written after line {written.ledger_head[:16]}, which the ledger does not hold"
        return
    at = hashes.index(written.ledger_head) + 1
    if at < len(lines) and fold(line for line, _ in lines).phase is RunPhase.FINISHED:
        yield f"run.json was written at line {at}, but the ledger has {len(lines)} lines"
    derived = record.derive(fold(line for line, _ in lines[:at]), written.ledger_head)
    derived = _as_written_before(written, derived)
    facts, expected = _comparable(written), _comparable(derived)
    for name in RunRecord.model_fields:
        if facts[name] != expected[name]:
            yield f"{name} of run.json does not follow from the ledger"


def _as_written_before(written: RunRecord, derived: RunRecord) -> RunRecord:
    """Return a derived record in the form of an older one: agents that never worked had the outcome of those that did,
    and amounts that one turn did not report were unknown."""
    kinds = [run.outcome.kind if run.outcome else None for run in (written, derived)]
    if derived.outcome and kinds == [OutcomeKind.NO_OK_SUBMIT, OutcomeKind.NEVER_WORKED]:
        outcome = derived.outcome.model_copy(update={"kind": OutcomeKind.NO_OK_SUBMIT})
        derived = derived.model_copy(update={"outcome": outcome})
    if written.usage and derived.usage and record.AT_LEAST not in written.usage:
        usage = {name: derived.usage[name] if value is not None else None for name, value in written.usage.items()
                 if name in derived.usage}  # fmt: skip
        derived = derived.model_copy(update={"usage": usage})
    return derived


def _comparable(run: RunRecord) -> dict[str, Any]:
    """Return the fields of a record without code metrics. Made once: a record of a stranger may be large."""
    facts = run.model_dump(mode="json")
    return facts | {"checkpoints": [{**checkpoint, "code": None} for checkpoint in facts["checkpoints"]]}
