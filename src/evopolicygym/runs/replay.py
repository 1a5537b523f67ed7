"""Play the winner and the first submission of a finished run again, and compare their held-out returns with the
recorded ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from evopolicygym.errors import Fault, UserError
from evopolicygym.execution.engine import Engine, LocalEngine
from evopolicygym.judge import scoring
from evopolicygym.judge.events import (
    EpisodeStats,
    Opened,
    episode_stats,
)
from evopolicygym.judge.state import RunPhase, RunState
from evopolicygym.run_paths import RunPaths
from evopolicygym.runs.locks import CaseSet, hidden_cases_lock
from evopolicygym.runs.open_run import bit_id_difference, run_ids
from evopolicygym.runs.settings import IsolationChoice, RunSettings
from evopolicygym.runs.trust import settings_here
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointAltered, SnapshotRefused
from evopolicygym.sandbox.policy.protocol import ErrorKind
from evopolicygym.tasks.ids import variant_facts
from evopolicygym.tasks.novel.generate import scale_problem
from evopolicygym.tasks.sealing import FILE_VARIABLE
from evopolicygym.tasks.splits import Case, Split, Splits, cases
from evopolicygym.tasks.task import Task


class Replay(StrEnum):
    """Result of playing a checkpoint on held-out again. ``close`` and ``differs`` occur only if this machine's bit_id
    is not the run's: then equal bits are not promised."""

    EQUAL = "equal"
    CLOSE = "close"
    DIFFERS = "differs"
    NONDETERMINISTIC = "nondeterministic"
    MISMATCH = "mismatch"
    NOTHING_TO_REPLAY = "nothing_to_replay"


WINNER: Final = "the winner"
FIRST: Final = "the first submission"
MEANING = {
    Replay.EQUAL: "{label} gives the recorded held-out returns, equal to the bit{passes}",
    Replay.CLOSE: "{label} gives the recorded held-out returns",
    Replay.DIFFERS: "{label} gives other held-out returns here; only equal bit_ids promise equal bits, so verify it "
    "where the run was played before you call it wrong",
    Replay.NONDETERMINISTIC: "{label} plays differently each time: its score cannot be confirmed, nor is it corrupt",
    Replay.MISMATCH: "{label} gives other held-out returns than those recorded",
    Replay.NOTHING_TO_REPLAY: "the run is not finished, or selected no checkpoint",
}
TIMED_OUT: Final = (
    "{label} ran out of time when it was scored on the cases that differ ({cases}), and how far it gets depends on the "
    "machine, its load and --jobs: its score cannot be confirmed, nor is it corrupt"
)
TIMED_OUT_HERE: Final = (
    "{label} ran out of time here on cases that differ ({cases}), and the record does not have all these timeouts: its "
    "score cannot be confirmed; verify it again on an idle machine, with fewer --jobs"
)
PASSING: Final = (Replay.EQUAL, Replay.CLOSE, Replay.NOTHING_TO_REPLAY)
PACKAGE_FACTS: Final = ("packages", "pygame", "sources")  # in a fingerprint
SHOWN: Final = 200  # characters of a fact in a message
TOLERANCE: Final = 1e-6  # relative to a return of at least 1: what the last bits of single steps can add up to


@dataclass(frozen=True)
class Replayed:
    """One checkpoint played again: the result, and a sentence that explains it. None: it cannot be played."""

    result: Replay | None
    detail: str

    @property
    def ok(self) -> bool:
        return self.result in PASSING


@dataclass(frozen=True)
class _Replayer:
    """Means to play checkpoints of a run again: all in one engine, and so under the same limits."""

    engine: Engine
    task: Task
    paths: RunPaths
    state: RunState
    heldout: list[Case]
    ids_here: dict[str, Any]

    def replay(self, checkpoint: Checkpoint, label: str) -> Replayed:
        """Play held-out with the winner twice, with another checkpoint once, and again only if it gives other returns:
        its recorded returns come from a single pass."""
        recorded = self.state.heldout[checkpoint.hash].tally
        if len(recorded.returns) != len(self.heldout) or len(recorded.errors) != len(self.heldout):
            raise UserError(f"it records {len(recorded.returns)} returns for {len(self.heldout)} held-out cases")
        copy = _copy(self.engine, self.paths.checkpoints / checkpoint.hash, checkpoint)
        first = self._play(copy)
        twice = label == WINNER or first.returns != recorded.returns
        second = self._play(copy) if twice else first
        repeated = self.state.repeated.returns if self.state.repeated and label == WINNER else recorded.returns
        assert self.state.opened is not None
        opened = self.state.opened.facts["ids"]
        bit_id = self.state.scored_on.get(checkpoint.hash) or opened["bit_id"]
        other_bit_id = bit_id_difference(opened, bit_id, self.ids_here)
        result = _compare(recorded.returns, repeated, first.returns, second.returns, bool(other_bit_id))
        meaning = MEANING[result].format(label=label, passes=", twice" if twice else "")
        timed_out = _timed_out_cases(recorded, first, self.task)
        if result in (Replay.MISMATCH, Replay.DIFFERS) and all(
            index in timed_out or new == old or (other_bit_id and _is_close(old, new))
            for index, (old, new) in enumerate(zip(recorded.returns, first.returns, strict=True))
        ):
            recorded_too = all(recorded.errors[index] == ErrorKind.TIMEOUT for index in timed_out)
            text = TIMED_OUT if recorded_too else TIMED_OUT_HERE
            result = Replay.NONDETERMINISTIC
            meaning = text.format(label=label, cases=", ".join(map(str, timed_out)))
        meaning += _difference(recorded.returns, first.returns)
        detail = f"{result}: {meaning}"
        return Replayed(result, f"{detail}; {other_bit_id}" if other_bit_id else detail)

    def _play(self, checkpoint: Checkpoint) -> EpisodeStats:
        return episode_stats(scoring.play_cases(self.engine, self.task, checkpoint, self.heldout))


def replay_run(
    paths: RunPaths, state: RunState, jobs: int, isolation: IsolationChoice, given_task: str | None
) -> tuple[Replayed, Replayed | None]:
    """Play the winner on held-out again, and the first submission if it has another result. This works on any machine;
    another bit_id is reported, not refused."""
    if state.phase is not RunPhase.FINISHED or state.selected is None or state.opened is None:
        nothing = Replay.NOTHING_TO_REPLAY
        return Replayed(nothing, f"{nothing}: {MEANING[nothing]}"), None
    winner = state.submissions[state.selected].charged.checkpoint
    settings, task, splits = _played_here(paths, state.opened, given_task)
    recorded, ids_here = state.opened.facts["ids"], run_ids(task, splits, settings)
    _check_played(task, recorded, splits.id)
    _check_fingerprint(recorded["fingerprint"], ids_here["fingerprint"])
    heldout = cases(splits, task.id, Split.HELDOUT, list(range(state.opened.heldout_cases)), state.opened.salt)
    no_agents = hidden_cases_lock(
        CaseSet(task.id, splits.id), f"verify {paths.root}", "Ctrl-C ends this; verify it later."
    )
    with no_agents, LocalEngine(task, jobs, isolation.levels(), None, False, settings.stock) as engine:
        replayer = _Replayer(engine, task, paths, state, heldout, ids_here)
        replayed = _replay(replayer, winner, WINNER)
        first = state.first_ok.charged.checkpoint if state.first_ok else winner
        has_another = first.hash != winner.hash and first.hash in state.heldout
        return replayed, _replay(replayer, first, FIRST) if has_another else None


def confirm_scale(paths: RunPaths, state: RunState, given_task: str | None) -> tuple[bool, str]:
    """Measure the generated task of a run again. Return whether its recorded scale is right, and a sentence."""
    assert state.opened is not None
    try:
        _, task, splits = _played_here(paths, state.opened, given_task)
        _check_played(task, state.opened.facts["ids"], splits.id)
    except UserError as error:
        return False, f"the scale of the task is not confirmed: {in_one_line(error)}"
    problem = scale_problem(task)
    return problem is None, problem or "measured again, the ends of the scale are the recorded ones"


def _played_here(paths: RunPaths, opened: Opened, given_task: str | None) -> tuple[RunSettings, Task, Splits]:
    """Return the settings of a run, and the task and splits that they give here."""
    settings = settings_here(paths, opened, {"task": given_task})
    recorded = opened.facts["ids"]["fingerprint"]
    return settings, settings.played_task(False, recorded), settings.splits(make_key=False)


def _replay(replayer: _Replayer, checkpoint: Checkpoint, label: str) -> Replayed:
    try:
        return replayer.replay(checkpoint, label)
    except (UserError, Fault) as error:
        return Replayed(None, f"{label} cannot be played: {in_one_line(error)}")


def in_one_line(error: Exception) -> str:
    """Return what happened and what to do."""
    return f"{error.message}. {error.remedy}" if isinstance(error, UserError) and error.remedy else str(error)


def _check_played(task: Task, opened: dict[str, Any], splits_id: str) -> None:
    """Raise UserError unless the task and cases to play are those in the ledger."""
    facts = opened["fingerprint"]
    played = facts.get("task"), facts.get("env")
    if played != (task.id, task.env_id):
        raise UserError(f"the ledger says {played[0]} ({played[1]!r:.{SHOWN}}), config.toml {task.id} ({task.env_id})")
    if opened["splits_id"] != splits_id:
        raise UserError(
            f"its cases are {opened['splits_id'][:23]}, and the key here makes {splits_id[:23]}",
            f"Name the key that sealed them: {FILE_VARIABLE}=FILE. (A run of another installation does not name it.)",
        )
    if facts.get("world", "") != task.view.world_id():
        raise UserError(
            "its generated task is not the one that the key here makes",
            f"Name the key that it was drawn from: {FILE_VARIABLE}=FILE.",
        )
    if (recorded := facts.get("variant", {})) != variant_facts(task):
        raise UserError(
            f"its {recorded.get('name', 'plain')} task is not the one that the key here makes",
            f"Name the key that it was drawn from: {FILE_VARIABLE}=FILE.",
        )


def _check_fingerprint(recorded: dict[str, Any], current: dict[str, Any]) -> None:
    """Raise UserError unless config.toml and the task here give the recorded facts. Versions of packages may differ:
    they are a part of the bit_id, whose difference is reported with the result."""
    names = [name for name in {**current, **recorded} if name not in PACKAGE_FACTS]
    if different := [name for name in names if recorded.get(name) != current.get(name)]:
        values = "; ".join(
            f"{name} is {recorded.get(name)!r:.{SHOWN}} in the ledger, {current.get(name)!r:.{SHOWN}} here"
            for name in different
        )
        raise UserError(
            f"its fingerprint is not the one that config.toml and the task here give: {values}",
            "If the task has changed since, verify the run with the version that played it; else it is forged.",
        )


def _copy(engine: Engine, stored: Path, checkpoint: Checkpoint) -> Checkpoint:
    """Copy a checkpoint to the engine's store: nothing is written to the run, and no link in it is followed."""
    try:
        copy = engine.store.snapshot(stored, is_stored=True)
    except SnapshotRefused as error:
        raise UserError(str(error)) from error
    if copy.hash != checkpoint.hash:
        raise CheckpointAltered(checkpoint, copy.hash)
    return copy


def _compare(
    recorded: tuple[float, ...],
    repeated: tuple[float, ...],
    first: tuple[float, ...],
    second: tuple[float, ...],
    other_bit_id: bool,
) -> Replay:
    """Return how the returns compare. A policy that differs from itself, then or now, does not contradict the
    record."""
    if recorded == first == second:
        return Replay.EQUAL
    if recorded != repeated or first != second:
        return Replay.NONDETERMINISTIC
    if not other_bit_id:
        return Replay.MISMATCH
    return Replay.CLOSE if all(map(_is_close, recorded, first)) else Replay.DIFFERS


def _is_close(recorded: float, now: float) -> bool:
    return abs(now - recorded) <= TOLERANCE * max(1.0, abs(recorded))


def _timed_out_cases(scored: EpisodeStats, played: EpisodeStats, task: Task) -> list[int]:
    """Return the cases that ended in a timeout then or now and have another return: wall time depends on the machine,
    its load and the number of jobs. A timeout does not excuse a recorded return that no failed episode can have."""
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
    """Return the largest difference in words; empty if all returns are equal."""
    differences = {
        index: abs(new - old) for index, (old, new) in enumerate(zip(recorded, now, strict=True)) if new != old
    }
    if not differences:
        return ""
    worst = max(differences, key=differences.__getitem__)
    largest = f"{differences[worst]:.3g} (case {worst}: recorded {recorded[worst]!r}, now {now[worst]!r})"
    return f"; largest difference {largest}"
