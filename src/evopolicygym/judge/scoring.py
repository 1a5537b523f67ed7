"""Hidden scoring after the agent has ended: validate every candidate, select one, measure it on held-out, and beside
it the first submission, so that the record shows what the feedback between the two was worth.

Each step is one line in the ledger, so a crash repeats at most the step that was under way.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import takewhile
from typing import Any, Final

from evopolicygym.errors import Fault
from evopolicygym.execution.engine import Engine
from evopolicygym.execution.records import Episode, EpisodeError, EpisodeResult, FaultReport, not_played
from evopolicygym.judge.events import (
    Closed,
    EpisodeStats,
    Finished,
    Repeated,
    Scored,
    Selected,
    Validated,
    episode_stats,
)
from evopolicygym.judge.failpoints import failpoint
from evopolicygym.judge.judge import Judge
from evopolicygym.judge.state import RunPhase, RunState, Submission
from evopolicygym.sandbox.checkpoints import Checkpoint
from evopolicygym.sandbox.policy.protocol import ErrorKind
from evopolicygym.tasks.splits import Case, Split
from evopolicygym.tasks.task import Task

Advance = Callable[[], Any]
WALL_FACTOR: Final = 3.0  # mean wall time per case that a candidate may take, as a multiple of its CPU limit


def close(judge: Judge, reason: str) -> None:
    if judge.state.phase is RunPhase.OPEN:
        judge.record(Closed(reason, judge.state.last_fault if judge.state.is_unjudged else None))
        failpoint("closed")


def finish(judge: Judge, advance: Advance = lambda: None, before_finished: Callable[[], None] = lambda: None) -> None:
    """Take a closed run to its outcome. Steps that an earlier attempt has done are not repeated.

    ``advance`` is called after each episode. ``before_finished`` is called after scoring and before the last line: it
    writes parts of the record that must not endanger the score."""
    validate(judge, advance)
    select(judge)
    measure(judge, advance)
    before_finished()
    if judge.state.phase is not RunPhase.FINISHED:
        judge.record(Finished())
        failpoint("finished")


def validate(judge: Judge, advance: Advance = lambda: None) -> None:
    """Play the validation cases with every candidate, byte-identical ones once."""
    for checkpoint in unvalidated(judge.state):
        judge.record(Validated(checkpoint.hash, *_play(judge, checkpoint, Split.VALIDATION, advance)))
        failpoint("validated")


def unvalidated(state: RunState) -> list[Checkpoint]:
    checkpoints = {candidate.charged.checkpoint.hash: candidate.charged.checkpoint for candidate in state.candidates}
    return [checkpoint for checkpoint in checkpoints.values() if checkpoint.hash not in state.validation]


def select(judge: Judge) -> None:
    if judge.state.phase is RunPhase.CLOSED:
        winner = best(judge.state)
        judge.record(Selected(winner.number if winner else None))
        failpoint("selected")


def best(state: RunState) -> Submission | None:
    """Return the candidate with the highest validation mean; ties go to the later one. NaN and infinities cannot
    win."""
    means = {
        candidate.number: state.validation[candidate.charged.checkpoint.hash].tally.mean
        for candidate in state.candidates
    }
    finite = [(mean, number) for number, mean in means.items() if math.isfinite(mean)]
    return state.submissions[max(finite)[1]] if finite else None


def measure(judge: Judge, advance: Advance = lambda: None) -> None:
    """Play held-out with the winner, twice: the second pass shows whether the policy is deterministic. Then play it
    once with the first ``ok`` submission."""
    if judge.state.selected is None:
        return
    winner = judge.state.submissions[judge.state.selected].charged.checkpoint
    score(judge, winner, advance)
    failpoint("scored")
    if judge.state.repeated is None:
        again, wall_s = _play(judge, winner, Split.HELDOUT, advance)
        judge.record(Repeated(again.returns, wall_s))
        failpoint("repeated")
    if first := judge.state.first_ok:
        score(judge, first.charged.checkpoint, advance)
        failpoint("first-scored")


def score(judge: Judge, checkpoint: Checkpoint, advance: Advance = lambda: None) -> None:
    """Play held-out with one checkpoint, unless the ledger has its result."""
    if checkpoint.hash not in judge.state.heldout:
        judge.record(Scored(checkpoint.hash, *_play(judge, checkpoint, Split.HELDOUT, advance)))


def _play(judge: Judge, checkpoint: Checkpoint, split: Split, advance: Advance) -> tuple[EpisodeStats, float]:
    """Play a hidden split with a checkpoint, after checking its hash. A fault leaves the run as it is, to be
    continued."""
    judge.context.engine.store.check(checkpoint)
    judge.activity.episodes = 0
    began, chosen = time.perf_counter(), judge.cases(split, list(range(count(judge.state, split))))

    def played() -> None:
        failpoint("hidden-episode-played")
        judge.activity.episodes += 1
        advance()

    try:
        results = play_cases(judge.context.engine, judge.context.task, checkpoint, chosen, played)
    except Fault as fault:
        text = f"a hidden episode has no score: {fault}; finish the run again to continue from here"
        raise Fault(text, fault.permanent) from fault
    return episode_stats(results), time.perf_counter() - began


def play_cases(
    engine: Engine, task: Task, checkpoint: Checkpoint, chosen: list[Case], advance: Advance = lambda: None
) -> list[EpisodeResult]:
    """Play one checkpoint on ``chosen``.

    All cases together may take ``WALL_FACTOR`` times the CPU limit of wall time. Only time spent waiting for the policy
    counts, so neither a slow simulator nor the number of jobs changes a score. When it is used up, the cases that have
    not begun fail: a policy that sleeps must not hold the machine for days."""
    limit_s = WALL_FACTOR * task.limits.episode_cpu_s * len(chosen)
    episodes = [Episode(number, checkpoint, case) for number, case in enumerate(chosen)]
    results: dict[int, EpisodeResult] = {}

    def is_late() -> bool:
        return sum(result.policy_wall_s for result in results.values()) > limit_s

    for outcome in engine.run(takewhile(lambda _: not is_late(), episodes), background=True):
        if isinstance(outcome, FaultReport):
            raise Fault(outcome.text, outcome.permanent)
        results[outcome.number] = outcome
        advance()
    error = EpisodeError(ErrorKind.TIMEOUT, f"the cases before took {limit_s:g} s of wall time together")
    skipped = [episode for episode in episodes if episode.number not in results]
    results |= {episode.number: not_played(episode, task.failed_score(0.0), error) for episode in skipped}
    return [results[number] for number in sorted(results)]


def count(state: RunState, split: Split) -> int:
    """Return how many cases of a hidden split the run plays."""
    if state.opened is None:
        return 0
    return {Split.VALIDATION: state.opened.validation_cases, Split.HELDOUT: state.opened.heldout_cases}[split]


def unmeasured(state: RunState) -> list[Checkpoint]:
    """Return the checkpoints of candidates and of the first ``ok`` submission without a held-out result."""
    submissions = [*([state.first_ok] if state.first_ok else []), *state.candidates]
    checkpoints = {submission.charged.checkpoint.hash: submission.charged.checkpoint for submission in submissions}
    return [checkpoint for checkpoint in checkpoints.values() if checkpoint.hash not in state.heldout]


def remaining_episodes(state: RunState) -> int:
    """Return the number of episodes until the outcome, for a progress bar. Until a checkpoint is selected it is an
    upper bound: if the first submission wins, it is not measured a second time."""
    validation = len(unvalidated(state)) * count(state, Split.VALIDATION)
    return validation + _heldout_passes(state) * count(state, Split.HELDOUT)


def _heldout_passes(state: RunState) -> int:
    """Return how many times held-out is still to be played: by the winner, by the winner again, by the first."""
    if state.first_ok is None or state.phase is RunPhase.FINISHED:
        return 0
    first = state.first_ok.charged.checkpoint.hash
    if state.phase is not RunPhase.SELECTED:
        return 2 + ({candidate.charged.checkpoint.hash for candidate in state.candidates} != {first})
    if state.selected is None:
        return 0
    winner = state.submissions[state.selected].charged.checkpoint.hash
    return len({winner, first} - set(state.heldout)) + (state.repeated is None)
