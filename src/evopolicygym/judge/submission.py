"""The life of one submission: check, snapshot, charge, load, play, feedback, verdict, delivery.

Until the charge a refusal is free. After a crash at any later instant, ``execute`` completes the submission with the
same result, for the same charge.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from evopolicygym.errors import Fault, is_permanent
from evopolicygym.execution.engine import OutOfTime
from evopolicygym.execution.records import Episode, EpisodeResult, FaultReport, LoadResult, Recording, redacted
from evopolicygym.files import is_shortage, sync, sync_tree
from evopolicygym.judge import delivery
from evopolicygym.judge.contact_sheet import write_sheet
from evopolicygym.judge.delivery import shown_files
from evopolicygym.judge.events import Charged, Closed, Judged, Refunded, episode_stats
from evopolicygym.judge.failpoints import failpoint
from evopolicygym.judge.feedback import FeedbackWriter, change, summarize, worst_episode
from evopolicygym.judge.judge import Judge
from evopolicygym.judge.ledger import LedgerUnwritable
from evopolicygym.judge.protocol import Reason, Refusal, SubmitRequest, Verdict
from evopolicygym.judge.shortage import scarce_resource
from evopolicygym.judge.state import RunPhase, RunState, Submission
from evopolicygym.limits import WORKSPACE_FEEDBACK_BYTES
from evopolicygym.sandbox.checkpoints import Checkpoint, SnapshotRefused, remove_tree
from evopolicygym.tasks.conditions import ERROR_WITHHELD, FeedbackLevel
from evopolicygym.tasks.splits import Split
from evopolicygym.tasks.task import Task

BUDGET_SPENT: Final = "budget_spent"
JUDGE_FAULTS: Final = "judge_faults"
POLICY_ENTERED: Final = "policy_entered"
MAX_REFUNDS: Final = 3  # a judge that fails this often is broken, whatever the cause
PAUSES_S: Final = (0.1, 0.5, 2.0)  # between attempts to deliver feedback when descriptors are scarce
log = logging.getLogger(__name__)


def accept(judge: Judge, request: SubmitRequest) -> Submission:
    """Check, snapshot and charge. A repeated key returns the same submission, charged once. Raises Refusal and
    Fault."""
    if earlier := judge.state.by_key(request.key):
        return _repeated(earlier, request)
    check_request(request, judge.state)
    judge.shortage.check()
    checkpoint = _snapshot(judge, judge.paths.system)
    failpoint("snapshot-taken")
    number = len(judge.state.submissions) + 1
    try:
        judge.record(Charged(number, request.key, checkpoint, request.cases))
    except LedgerUnwritable as error:
        raise Fault(f"{error}; nothing was charged") from error
    failpoint("charged")
    return judge.state.submissions[number]


def enter(judge: Judge, folder: Path) -> Submission:
    """Take a snapshot of a policy that was made elsewhere. It plays no train cases, so nothing is charged."""
    checkpoint = _snapshot(judge, folder)
    judge.record(Charged(1, POLICY_ENTERED, checkpoint, ()))
    return judge.state.submissions[1]


def check_request(request: SubmitRequest, state: RunState) -> None:
    """Raise Refusal if the run cannot take the request now."""
    if state.phase is not RunPhase.OPEN:
        raise Refusal(Reason.RUN_CLOSED, _closed(state))
    if running := state.running:
        raise Refusal(Reason.BUSY, f"{running.name} is still running; wait for it and submit again")
    if len(request.cases) > state.remaining:
        text = (
            f"{len(request.cases)} episodes were asked for, but {state.remaining} of {state.budget} episodes are left"
        )
        raise Refusal(Reason.BUDGET_INVALID, text)


def _closed(state: RunState) -> str:
    text = f"the run is closed ({state.closed.reason if state.closed else 'closed'}): nothing more can be submitted"
    if state.closed and state.closed.cause:
        text += f". The judge failed, through no fault of yours: {state.closed.cause}"
    return text


def execute(judge: Judge, submission: Submission, stop: threading.Event | None = None) -> None:
    """Take a charged submission to its verdict.

    During a shortage (disk, memory, processes) it waits and plays the submission again for the same charge, so that an
    agent that fills the disk gains nothing. When ``stop`` is set meanwhile it raises; the submission stays charged, to
    be continued. Any other fault of the judge refunds it and delivers nothing."""
    try:
        judge.shortage.retry(lambda: _judge(judge, submission), stop)
    except Exception as fault:  # errors of the policy are results, so this is the judge's own
        if stop and stop.is_set() and scarce_resource(fault):
            raise
        log.exception("%s failed and is refunded", submission.name)
        remove_tree(judge.paths.feedback / submission.name)
        text = ERROR_WITHHELD if judge.context.task.view.is_blind else str(fault) or type(fault).__name__
        judge.record(Refunded(submission.number, text, is_permanent(fault)), from_reserve=True)
    else:
        failpoint("judged")
        deliver(judge, submission)
    close_if_over(judge)


def deliver(judge: Judge, submission: Submission) -> None:
    """Copy the feedback to the workspace. Damage by the agent there is logged, not repaired, and costs nothing."""
    for pause_s in (*PAUSES_S, None):
        try:
            _deliver(judge, submission)
            break
        except delivery.DeliveryFailed as error:
            if pause_s is None or not is_shortage(error.__cause__):
                log.warning("%s", error)
                break
            time.sleep(pause_s)
    failpoint("feedback-delivered")


def _deliver(judge: Judge, submission: Submission) -> None:
    judged = judge.state.submissions[submission.number].judged
    assert judged is not None
    feedback, workspace = judge.paths.feedback, judge.paths.workspace
    source, removed = feedback / submission.name, _removed(judge)
    try:
        shown = shown_files(source, judged.summary, judge.context.feedback, submission.name in removed)
    except (OSError, KeyError, TypeError, ValueError) as error:  # a resumed run folder may be forged
        raise delivery.DeliveryFailed(f"the feedback of {submission.name} cannot be read: {error}") from error
    delivery.copy_to_workspace(source, workspace, shown)
    for name in removed:
        delivery.remove_large_files(feedback / name, workspace)


def _removed(judge: Judge) -> list[str]:
    """Return the submissions whose large files the agent no longer has, as its last summary lists them."""
    judged = [submission for submission in judge.state.submissions.values() if submission.judged]
    removed = judged[-1].judged.summary.get("removed") if judged and judged[-1].judged else None
    return [submission.name for submission in judged if isinstance(removed, list) and submission.name in removed]


def _repeated(earlier: Submission, request: SubmitRequest) -> Submission:
    if earlier.charged.cases != request.cases:
        text = f"this Idempotency-Key was used for {earlier.name} with other cases; use a new key for a new submission"
        raise Refusal(Reason.KEY_REUSED, text)
    return earlier


def _snapshot(judge: Judge, folder: Path) -> Checkpoint:
    store = judge.context.engine.store
    try:
        checkpoint = store.snapshot(folder, settle=sync_tree)
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
    """Load and play the checkpoint, publish the feedback, record the verdict."""
    began = time.perf_counter()
    judge.activity.episodes = 0
    writer = FeedbackWriter(judge.paths.feedback)
    try:
        load = redacted(judge.context.engine.load(submission.charged.checkpoint), judge.redact)
        failpoint("loaded")
        verdict, results = _play(judge, submission, writer, load)
        wall_s = time.perf_counter() - began
        shown = [_as_shown(judge.context.task, result) for result in results]
        summary = _summary(judge, submission, verdict, load, shown, wall_s, writer)
        digest = writer.write(summary, load, shown)
        failpoint("feedback-staged")
        writer.publish(judge.paths.feedback / submission.name)
    except BaseException:
        writer.discard()
        raise
    failpoint("feedback-written")
    played = episode_stats(results) if verdict is Verdict.OK and results else None
    judge.record(
        Judged(submission.number, verdict, played, summary["clipped_actions"], wall_s, summary, digest)
    )  # fmt: skip


def _as_shown(task: Task, result: EpisodeResult) -> EpisodeResult:
    """Return a result at the scale of the rewards that the agent sees. A failed episode gets the failure return that
    the agent knows."""
    factor = task.view.reward_scale
    return_so_far = result.return_so_far * factor
    score = min(return_so_far, task.shown_failure_return) if result.error else result.score * factor
    return replace(result, score=score, return_so_far=return_so_far)


def _summary(
    judge: Judge,
    submission: Submission,
    verdict: Verdict,
    load: LoadResult,
    results: list[EpisodeResult],
    wall_s: float,
    writer: FeedbackWriter,
) -> dict[str, Any]:
    """Return the summary with all that compares this submission with earlier ones, and draw its worst episode."""
    context, remaining = judge.context, judge.state.remaining
    summary = summarize(submission, verdict, load, results, wall_s, remaining)
    earlier = [each for each in judge.state.submissions.values() if each.number < submission.number and each.judged]
    summary["change"] = change(summary, earlier)
    worst = worst_episode(summary)
    if worst and context.feedback in (FeedbackLevel.TRAJECTORY, FeedbackLevel.VIDEO):
        worst |= write_sheet(context.engine.obs_space, writer.episode(worst["episode"]), writer.folder)
    sizes = {each.name: judge.delivered_bytes(each.name) for each in earlier}
    sizes[submission.name] = delivery.large_bytes(writer.folder, context.feedback)
    return summary | {"worst": worst, "removed": delivery.over_the_cap(sizes, WORKSPACE_FEEDBACK_BYTES)}


def _play(
    judge: Judge, submission: Submission, writer: FeedbackWriter, load: LoadResult
) -> tuple[Verdict, list[EpisodeResult]]:
    if load.error:
        return Verdict(load.error.kind), []
    results: list[EpisodeResult] = []
    deadline = time.monotonic() + judge.context.task.limits.submission_wall_s
    try:
        for outcome in judge.context.engine.run(_episodes(judge, submission, writer), deadline):
            if isinstance(outcome, FaultReport):
                raise Fault(outcome.text, outcome.permanent)
            results.append(redacted(outcome, judge.redact))
            judge.activity.episodes = len(results)
            failpoint("episode-played")
    except OutOfTime:
        return Verdict.ROLLOUT_TIMEOUT, sorted(results, key=lambda result: result.number)
    return Verdict.OK, sorted(results, key=lambda result: result.number)


def _episodes(judge: Judge, submission: Submission, writer: FeedbackWriter) -> list[Episode]:
    context, charged = judge.context, submission.charged
    return [
        Episode(
            number, charged.checkpoint, case, Recording(str(writer.episode(number)), video=context.videos.wants(number))
        )
        for number, case in enumerate(judge.cases(Split.TRAIN, list(charged.cases)))
    ]


def close_if_over(judge: Judge) -> None:
    """Close the run if its budget is spent or the judge is broken. Also called at start: a crash may have come between
    the last verdict and this."""
    state = judge.state
    if state.phase is not RunPhase.OPEN or state.running:
        return
    if state.remaining == 0:
        judge.record(Closed(BUDGET_SPENT), from_reserve=True)
    elif state.is_broken or state.refunds >= MAX_REFUNDS:
        judge.record(Closed(JUDGE_FAULTS, state.last_fault), from_reserve=True)
