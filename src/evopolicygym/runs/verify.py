"""Verification: everything about a run that can be recomputed, recomputed. Nothing is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, Final

from evopolicygym.errors import Fault, UserError
from evopolicygym.execution.engine import Engine, LocalEngine
from evopolicygym.judge import feedback, scoring
from evopolicygym.judge.events import (
    Charged,
    Closed,
    EpisodeStats,
    Event,
    Judged,
    Opened,
    Refunded,
    Selected,
    episode_stats,
)
from evopolicygym.judge.ledger import LedgerLine, line_hash, read
from evopolicygym.judge.state import RunPhase, RunState, apply, fold, in_place
from evopolicygym.run_paths import RunPaths, check_run_folder
from evopolicygym.run_record import RunRecord, load
from evopolicygym.runs import record
from evopolicygym.runs.locks import CaseSet, hidden_cases_lock
from evopolicygym.runs.open_run import bit_id_difference, resume_settings, run_ids
from evopolicygym.runs.run_status import check_consistent
from evopolicygym.runs.settings import IsolationChoice, RunSettings
from evopolicygym.runs.trust import check_task_is_given, is_signed_here
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointAltered, CheckpointStore, SnapshotRefused
from evopolicygym.sandbox.policy.failures import ErrorKind
from evopolicygym.tasks.ids import comparable_id
from evopolicygym.tasks.registry import resolve
from evopolicygym.tasks.sealing import FILE_VARIABLE
from evopolicygym.tasks.splits import Split, cases
from evopolicygym.tasks.task import Task


class Replay(StrEnum):
    """Result of playing the winner on held-out twice more. ``close`` and ``differs`` occur only where the bit_id is
    another than the run's; there equal bits are not promised."""

    EQUAL = "equal"
    CLOSE = "close"
    DIFFERS = "differs"
    NONDETERMINISTIC = "nondeterministic"
    MISMATCH = "mismatch"
    NOTHING_TO_REPLAY = "nothing_to_replay"


MEANING = {
    Replay.EQUAL: "the winner gives the recorded held-out returns, equal to the bit, twice",
    Replay.CLOSE: "the winner gives the recorded held-out returns",
    Replay.DIFFERS: "the winner gives other held-out returns here; only equal bit_ids promise equal bits, so verify it "
    "where the run was played before you call it wrong",
    Replay.NONDETERMINISTIC: "the winner plays differently each time: its score cannot be confirmed, nor is it corrupt",
    Replay.MISMATCH: "the winner gives other held-out returns than those recorded",
    Replay.NOTHING_TO_REPLAY: "the run is not finished, or selected no checkpoint",
}
LATE: Final = (
    "the winner ran out of time then or now on the cases that differ ({}), and how far it gets depends on the "
    "machine, its load and --jobs: its score cannot be confirmed, nor is it corrupt"
)
GOOD = (Replay.EQUAL, Replay.CLOSE, Replay.NOTHING_TO_REPLAY)
TOLERANCE: Final = 1e-6  # of a return's size (at least 1): what last bits of single steps can add up to
NUMBERS: Final = ("budget", "validation_cases", "heldout_cases", "max_candidates")
MANY: Final = 100  # problems of one kind that are named


@dataclass(frozen=True)
class VerifyCheck:
    what: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class VerifyReport:
    findings: tuple[VerifyCheck, ...]
    replay: Replay | None

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, "replay": self.replay, "findings": [asdict(finding) for finding in self.findings]}


def verify(
    root: Path, jobs: int, isolation: IsolationChoice = IsolationChoice.AUTO, task: str | None = None
) -> VerifyReport:
    """The folder may come from anybody: ``isolation`` is the caller's word alone, whatever config.toml says. A task
    that is not installed is played only if ``task`` names it, too."""
    paths = RunPaths(root.absolute())
    try:
        check_run_folder(paths.root)
        lines = list(read(paths.ledger))
        state = fold(line for line, _ in lines)
        if state.opened is None:
            return VerifyReport((VerifyCheck("ledger", False, "the run was never opened"),), None)
        check_consistent(state)
    except UserError as error:
        return VerifyReport((VerifyCheck("ledger", False, in_one_line(error)),), None)
    hashes = [line_hash(raw) for _, raw in lines]
    findings = [
        VerifyCheck("ledger", True, f"{len(lines)} lines, the chain holds"),
        _finding(
            "budget", _budget([line for line, _ in lines]), f"{state.charged} + {state.remaining} = {state.budget}"
        ),
        _finding("checkpoints", _checkpoints(paths, state), "each holds what its name says"),
        _finding("feedback", _feedback(paths, state), _feedback_is(paths, state)),
        _finding("selection", _selection(state), "the best validation mean, the later of equals"),
        _finding("record", _record(paths, lines, hashes), "run.json follows from the ledger"),
        _finding("settings", _settings(paths, state), _settings_are(state)),
    ]
    if not findings[-1].ok:  # a task, cases or a jail that somebody chose later say nothing about this run
        text = "not played: the settings of the run are not known"
        return VerifyReport((*findings, VerifyCheck("replay", False, text)), None)
    try:
        replay, detail = _replay(paths, state, jobs, isolation, task)
    except (UserError, Fault) as error:
        return VerifyReport(
            (*findings, VerifyCheck("replay", False, f"the winner cannot be played: {in_one_line(error)}")), None
        )
    return VerifyReport((*findings, VerifyCheck("replay", replay in GOOD, f"{replay}: {detail}")), replay)


def _finding(what: str, problems: Iterator[str], fine: str) -> VerifyCheck:
    try:
        found = list(islice(problems, MANY))
    except (OSError, UserError) as error:
        found = [f"it cannot be read: {in_one_line(error)}"]
    return VerifyCheck(what, not found, "; ".join(found) if found else fine)


def in_one_line(error: Exception) -> str:
    """What happened and what to do."""
    return f"{error.message}. {error.remedy}" if isinstance(error, UserError) and error.remedy else str(error)


def _budget(lines: list[LedgerLine]) -> Iterator[str]:
    """At every line, not only at the last."""
    state = RunState()
    for line in lines:
        event = line.event()
        for problem in _misfits(state, event):
            yield f"line {line.sequence + 1} {problem}"
        state = apply(state, event, line.time, in_place)


def _misfits(state: RunState, event: Event) -> Iterator[str]:
    """What no judge would have written in this state."""
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
        case Selected() if state.phase is not RunPhase.CLOSED:
            yield f"selects in a run that is {state.phase}"
        case _:
            return


def _checkpoints(paths: RunPaths, state: RunState) -> Iterator[str]:
    store = CheckpointStore(paths.checkpoints)
    submitted = (one.charged.checkpoint for one in state.submissions.values())
    for checkpoint in {checkpoint.hash: checkpoint for checkpoint in submitted}.values():
        try:
            store.check(checkpoint)
        except CheckpointAltered as error:
            yield error.message


def _feedback(paths: RunPaths, state: RunState) -> Iterator[str]:
    if not _has_feedback(paths, state):
        return
    for one in state.submissions.values():
        folder = paths.feedback / one.name
        if one.judged and not folder.is_dir():
            yield f"{one.name} is missing"
        elif one.judged and _digest(folder) != one.judged.feedback:
            yield f"{one.name} was altered"
        elif one.refunded is not None and folder.exists():
            yield f"{one.name} was refunded, but has feedback"


def _has_feedback(paths: RunPaths, state: RunState) -> bool:
    """Whether this copy of the run kept its feedback: it is large, and no score depends on it."""
    return any(os.path.lexists(paths.feedback / one.name / "summary.json") for one in state.submissions.values())


def _feedback_is(paths: RunPaths, state: RunState) -> str:
    if not any(one.judged for one in state.submissions.values()):
        return "there is none"
    return "each is as it was when it was judged" if _has_feedback(paths, state) else "not in this copy of the run"


def _digest(folder: Path) -> str:
    try:
        return feedback.digest(folder)
    except OSError:  # links, pipes, files without end: nothing that a judge has written
        return ""


def _settings(paths: RunPaths, state: RunState) -> Iterator[str]:
    """config.toml is what the run was opened with, and what the ledger claims to have been played."""
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
            yield f"{name} is {played[name]!r} in the ledger, and another in its fingerprint or in config.toml"


def _settings_are(state: RunState) -> str:
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
    """Code metrics are left out: they follow from the checkpoints, not from the ledger. Before a run is finished its
    record may be that of an earlier line, but of a line that is there."""
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
        yield f"run.json was written at line {at}, and the ledger goes on to line {len(lines)}"
    derived = record.derive(fold(line for line, _ in lines[:at]), written.ledger_head)
    for name in RunRecord.model_fields:
        if _plain(written, name) != _plain(derived, name):
            yield f"{name} of run.json does not follow from the ledger"


def _plain(run: RunRecord, name: str) -> Any:
    value = run.model_dump(mode="json")[name]
    if name == "checkpoints":
        return [{**checkpoint, "code": None} for checkpoint in value]
    return value


def _replay(
    paths: RunPaths, state: RunState, jobs: int, isolation: IsolationChoice, given: str | None
) -> tuple[Replay, str]:
    """Played on any machine: another bit_id is a reason to say so, not to refuse. The winner is played from a copy:
    nothing is written to the run, and no link in it leads anywhere."""
    if state.phase is not RunPhase.FINISHED or state.selected is None or state.opened is None:
        return Replay.NOTHING_TO_REPLAY, MEANING[Replay.NOTHING_TO_REPLAY]
    winner = state.submissions[state.selected].charged.checkpoint
    settings = RunSettings.read(paths.root, state.opened.settings)
    if not is_signed_here(state.opened):
        check_task_is_given(settings, given)
    resume_settings(settings, {"task": given}, paths)
    task, splits = resolve(settings.task), settings.splits(make_key=False)
    opened, here = state.opened.facts["ids"], run_ids(task, splits, settings)
    _check_played(task, opened, splits.id)
    chosen = cases(splits, task.id, Split.HELDOUT, list(range(state.opened.heldout_cases)), state.opened.salt)
    apart = hidden_cases_lock(CaseSet(task.id, splits.id), f"verify {paths.root}", "Ctrl-C ends this; verify it later.")
    with apart, LocalEngine(task, jobs, isolation.levels(), None, False, settings.stock) as engine:
        copy = _copied(engine, paths.checkpoints / winner.hash, winner)
        played, again = (
            episode_stats(scoring.play(engine, task, copy, chosen)) for _ in range(2)
        )  # under the same limits
    scored = state.heldout[winner.hash].tally
    recorded, first, second = scored.returns, played.returns, again.returns
    if len(recorded) != len(chosen) or len(scored.errors) != len(chosen):
        raise UserError(f"it records {len(recorded)} returns for {len(chosen)} held-out cases")
    elsewhere = bit_id_difference(opened, state.scored_on.get(winner.hash) or opened["bit_id"], here)
    outcome = _compared(
        recorded, state.repeated.returns if state.repeated else recorded, first, second, bool(elsewhere)
    )
    meaning, late = MEANING[outcome], _late(scored, played, task)
    if outcome in (Replay.MISMATCH, Replay.DIFFERS) and all(
        index in late or new == old or (elsewhere and _is_close(old, new))
        for index, (old, new) in enumerate(zip(recorded, first, strict=True))
    ):
        outcome, meaning = Replay.NONDETERMINISTIC, LATE.format(", ".join(map(str, late)))
    return outcome, meaning + _difference(recorded, first) + (f"; {elsewhere}" if elsewhere else "")


def _check_played(task: Task, opened: dict[str, Any], splits_id: str) -> None:
    """What is played here is what the ledger says: the same task, the same cases."""
    facts = opened["fingerprint"]
    if (facts["task"], facts["env"]) != (task.id, task.env_id):
        raise UserError(f"the ledger says {facts['task']} ({facts['env']}), config.toml {task.id} ({task.env_id})")
    if opened["splits_id"] != splits_id:
        raise UserError(
            f"its cases are {opened['splits_id'][:23]}, and the key here makes {splits_id[:23]}",
            f"Name the key that sealed them: {FILE_VARIABLE}=FILE.",
        )


def _copied(engine: Engine, stored: Path, winner: Checkpoint) -> Checkpoint:
    try:
        copy = engine.store.snapshot(stored, is_stored=True)
    except SnapshotRefused as error:
        raise UserError(str(error)) from error
    if copy.hash != winner.hash:
        raise CheckpointAltered(winner, copy.hash)
    return copy


def _compared(
    recorded: tuple[float, ...],
    repeated: tuple[float, ...],
    first: tuple[float, ...],
    second: tuple[float, ...],
    elsewhere: bool,
) -> Replay:
    """A policy that differed from itself then, or does so now, cannot be said to contradict the record."""
    if recorded == first == second:
        return Replay.EQUAL
    if recorded != repeated or first != second:
        return Replay.NONDETERMINISTIC
    if not elsewhere:
        return Replay.MISMATCH
    return Replay.CLOSE if all(map(_is_close, recorded, first)) else Replay.DIFFERS


def _is_close(recorded: float, now: float) -> bool:
    return abs(now - recorded) <= TOLERANCE * max(1.0, abs(recorded))


def _late(scored: EpisodeStats, played: EpisodeStats, task: Task) -> list[int]:
    """Cases that ended in a timeout then or now, with another return. Wall time depends on the machine, its load and
    the number of jobs. A recorded return that no failed episode can have is excused by no timeout."""
    return [
        index
        for index, (old, new) in enumerate(zip(scored.returns, played.returns, strict=True))
        if new != old
        and (
            played.errors[index] == ErrorKind.TIMEOUT
            or (scored.errors[index] == ErrorKind.TIMEOUT and old == task.failed_score(old))
        )
    ]


def _difference(recorded: tuple[float, ...], now: tuple[float, ...]) -> str:
    """The largest one; nothing where all are equal."""
    apart = {index: abs(new - old) for index, (old, new) in enumerate(zip(recorded, now, strict=True)) if new != old}
    if not apart:
        return ""
    worst = max(apart, key=apart.__getitem__)
    return f"; largest difference {apart[worst]:.3g} (case {worst}: recorded {recorded[worst]!r}, now {now[worst]!r})"
