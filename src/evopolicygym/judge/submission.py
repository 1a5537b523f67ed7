"""The way of one submission: check, snapshot, charge, load, play, feedback, verdict, delivery.

Until the charge a refusal is free. From the charge on, a crash at any instant leaves a submission that ``execute`` ends
for the same charge, with the same result.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from evopolicygym.errors import Fault, is_permanent
from evopolicygym.execution.engine import OutOfTime
from evopolicygym.execution.records import Episode, EpisodeResult, FaultReport, LoadResult, Recording, redacted
from evopolicygym.files import is_shortage, sync, sync_tree
from evopolicygym.judge import feedback
from evopolicygym.judge.events import Charged, Closed, Judged, Refunded, episode_stats
from evopolicygym.judge.failpoints import failpoint
from evopolicygym.judge.feedback import FeedbackWriter, summarize
from evopolicygym.judge.judge import Judge
from evopolicygym.judge.ledger import LedgerUnwritable
from evopolicygym.judge.protocol import Reason, Refusal, SubmitRequest, Verdict
from evopolicygym.judge.state import RunPhase, RunState, Submission
from evopolicygym.sandbox.checkpoints import Checkpoint, SnapshotRefused, remove_tree
from evopolicygym.tasks.splits import Split

BUDGET_SPENT: Final = "budget_spent"
JUDGE_FAULTS: Final = "judge_faults"
MAX_REFUNDS: Final = 3  # a judge that fails this often is broken, whatever the cause
PAUSES_S: Final = (0.1, 0.5, 2.0)  # between attempts to deliver, where it is for want of descriptors
log = logging.getLogger(__name__)


def accept(judge: Judge, ask: SubmitRequest) -> Submission:
    """Check, snapshot, charge. The same key again is the same submission, charged once."""
    if known := judge.state.by_key(ask.key):
        return _same(known, ask)
    check_request(ask, judge.state)
    checkpoint = _snapshot(judge)
    failpoint("snapshot-taken")
    number = len(judge.state.submissions) + 1
    try:
        judge.record(Charged(number, ask.key, checkpoint, ask.cases))
    except LedgerUnwritable as error:
        raise Fault(f"{error}; nothing was charged") from error
    failpoint("charged")
    return judge.state.submissions[number]


def check_request(ask: SubmitRequest, state: RunState) -> None:
    """Whether the run can take it now. Raises Refusal."""
    if state.phase is not RunPhase.OPEN:
        raise Refusal(Reason.RUN_CLOSED, _closed(state))
    if running := state.running:
        raise Refusal(Reason.BUSY, f"{running.name} is still running; wait for it and submit again")
    if len(ask.cases) > state.remaining:
        left = f"{state.remaining} of {state.budget} episodes are left"
        raise Refusal(Reason.BUDGET_INVALID, f"{len(ask.cases)} episodes were asked for, but {left}")


def _closed(state: RunState) -> str:
    text = f"the run is closed ({state.closed.reason if state.closed else 'closed'}): nothing more can be submitted"
    if state.closed and state.closed.cause:
        text += f". The judge failed, through no fault of yours: {state.closed.cause}"
    return text


def execute(judge: Judge, submission: Submission) -> None:
    """From the charge to the verdict. A fault of the judge refunds, and delivers nothing."""
    try:
        _judge(judge, submission)
    except Exception as fault:  # whatever went wrong here, the policy's doings are results and not exceptions
        log.exception("%s failed, and is refunded", submission.name)
        remove_tree(judge.paths.feedback / submission.name)
        text = str(fault) or type(fault).__name__
        judge.record(Refunded(submission.number, text, is_permanent(fault)), from_reserve=True)
    else:
        failpoint("judged")
        deliver(judge, submission)
    close_if_over(judge)


def deliver(judge: Judge, submission: Submission) -> None:
    """The agent's copy. Its workspace is its own: what it broke there is not repaired, and costs nobody anything."""
    for pause_s in (*PAUSES_S, None):
        try:
            feedback.copy_to_workspace(judge.paths.feedback / submission.name, judge.paths.workspace)
            break
        except feedback.DeliveryFailed as error:
            if pause_s is None or not is_shortage(error.__cause__):
                log.warning("%s", error)
                break
            time.sleep(pause_s)
    failpoint("feedback-delivered")


def _same(known: Submission, ask: SubmitRequest) -> Submission:
    if known.charged.cases != ask.cases:
        text = f"this Idempotency-Key was used for {known.name} with other cases; use a new key for a new submission"
        raise Refusal(Reason.KEY_REUSED, text)
    return known


def _snapshot(judge: Judge) -> Checkpoint:
    store = judge.context.engine.store
    try:
        checkpoint = store.snapshot(judge.paths.system, settle=sync_tree)
        sync(store.root)
    except SnapshotRefused as error:
        if is_shortage(error.__cause__):
            raise Fault(f"system/ cannot be read: {error.__cause__}; nothing was charged") from error
        text = str(error).replace(str(judge.paths.system), "system")
        raise Refusal(Reason.SNAPSHOT_INVALID, f"system/ cannot be submitted: {text}") from error
    except OSError as error:
        raise Fault(f"system/ cannot be stored: {error.strerror}; nothing was charged") from error
    return checkpoint


def _judge(judge: Judge, submission: Submission) -> None:
    """Load, play, feedback, verdict."""
    began = time.perf_counter()
    staged = FeedbackWriter(judge.paths.feedback)
    try:
        load = redacted(judge.context.engine.load(submission.charged.checkpoint), judge.redact)
        failpoint("loaded")
        verdict, results = _play(judge, submission, staged, load)
        wall_s = time.perf_counter() - began
        summary = summarize(submission, verdict, load, results, wall_s, judge.state.remaining)
        digest = staged.write(summary, load, results)
        failpoint("feedback-staged")
        staged.publish(judge.paths.feedback / submission.name)
    except BaseException:
        staged.discard()
        raise
    failpoint("feedback-written")
    played = episode_stats(results) if verdict is Verdict.OK else None
    judge.record(
        Judged(submission.number, verdict, played, summary["clipped_actions"], wall_s, summary, digest)
    )  # fmt: skip


def _play(
    judge: Judge, submission: Submission, staged: FeedbackWriter, load: LoadResult
) -> tuple[Verdict, list[EpisodeResult]]:
    if load.error:
        return Verdict(load.error.kind), []
    results: list[EpisodeResult] = []
    deadline = time.monotonic() + judge.context.task.limits.submission_wall_s
    try:
        for outcome in judge.context.engine.run(_episodes(judge, submission, staged), deadline):
            if isinstance(outcome, FaultReport):
                raise Fault(outcome.text, outcome.permanent)
            results.append(redacted(outcome, judge.redact))
            failpoint("episode-played")
    except OutOfTime:
        return Verdict.ROLLOUT_TIMEOUT, sorted(results, key=lambda result: result.number)
    return Verdict.OK, sorted(results, key=lambda result: result.number)


def _episodes(judge: Judge, submission: Submission, staged: FeedbackWriter) -> list[Episode]:
    context, charged = judge.context, submission.charged
    return [
        Episode(
            number, charged.checkpoint, case, Recording(str(staged.episode(number)), video=context.videos.wants(number))
        )
        for number, case in enumerate(judge.cases(Split.TRAIN, list(charged.cases)))
    ]


def close_if_over(judge: Judge) -> None:
    """Also after a crash that came between the last verdict and this."""
    state = judge.state
    if state.phase is not RunPhase.OPEN or state.running:
        return
    if state.remaining == 0:
        judge.record(Closed(BUDGET_SPENT), from_reserve=True)
    elif state.is_broken or state.refunds >= MAX_REFUNDS:
        judge.record(Closed(JUDGE_FAULTS, state.last_fault), from_reserve=True)
