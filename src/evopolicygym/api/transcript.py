"""Read what an agent and its model said in a run: as one conversation, or event by event while it is played."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evopolicygym.errors import UserError

if TYPE_CHECKING:
    from evopolicygym.gateway.conversation import ConversationStep, ModelConversation, SubmissionMark
    from evopolicygym.run_record import RunRecord, SubmissionRecord
    from evopolicygym.runs.tail import TailEvent

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class RunTranscript:
    """The conversation of a run (``conversation``) and the record of the run."""

    record: RunRecord
    conversation: ModelConversation

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as `transcript --format json` prints it."""
        agent = self.record.agent
        usage = self.conversation.usage
        return {
            "run": self.record.id,
            "task": self.record.task.id,
            "agent": agent.name if agent else None,
            "model": agent.model if agent else None,
            "source": self.conversation.source,
            "usage": asdict(usage) if usage else None,
            "notes": list(self.conversation.notes),
            "threads": [
                {
                    "kind": str(thread.kind),
                    "tools": list(thread.tools),
                    "steps": [_step_values(step) for step in thread.steps],
                }
                for thread in self.conversation.threads
            ],
        }

    def as_atif(self) -> dict[str, Any]:
        """Return the conversation in ATIF, the interchange format of the Harbor project."""
        from evopolicygym.gateway.atif import to_atif

        agent = self.record.agent
        facts = {"name": agent.name, "version": agent.version, "model": agent.model} if agent else {}
        return to_atif(self.conversation, facts, self.record.id)


def transcript(run: PathLike) -> RunTranscript:
    """Read the conversation of a run: from the calls that the model gateway recorded, or, for a run without them, as
    far as possible from what the client printed.

    Args:
        run: The folder of a run, which may come from another person.

    Raises:
        UserError: The folder holds no run, or no transcript.

    >>> import evopolicygym
    >>> try:
    ...     print(evopolicygym.transcript("examples/runs/acrobot__tuner__s0").as_dict()["usage"])
    ... except evopolicygym.UserError as error:
    ...     print(error.message.partition(": ")[2])
    tuner made no recorded call to a model, and printed no JSON events
    """
    from evopolicygym.gateway.recording.reader import ModelRecording
    from evopolicygym.run_paths import check_run_folder
    from evopolicygym.run_record import load

    folder = Path(run)
    record = load(folder)
    check_run_folder(folder)
    marks = list(_marks(record))
    recording = ModelRecording(folder)
    if recording.exists:
        conversation = _recorded(recording, marks)
        if conversation.threads:
            return RunTranscript(record, conversation)
    conversation = _of_client(record, folder, marks)
    if not conversation.threads:
        raise UserError(f"{folder} has no transcript: {_why_none(record)}", "`evopolicygym analyze` reads its scores.")
    return RunTranscript(record, conversation)


def _recorded(recording: Any, marks: list[SubmissionMark]) -> ModelConversation:
    from dataclasses import replace

    from evopolicygym.gateway.conversation import read_conversation

    conversation = read_conversation(recording, marks)
    return replace(conversation, notes=(*recording.notes, *conversation.notes))


def _of_client(record: RunRecord, folder: Path, marks: list[SubmissionMark]) -> ModelConversation:
    from dataclasses import replace

    from evopolicygym.agents.transcripts import read_client_texts, transcript_bytes
    from evopolicygym.analysis.work_limit import WorkLimit
    from evopolicygym.gateway.conversation import client_conversation

    work, numbers = WorkLimit(), range(1, len(record.turns) + 1)
    sizes = {number: transcript_bytes(folder, number) for number in numbers}
    turns = [read_client_texts(folder, turn) if sizes[turn] and work.read(sizes[turn]) else None for turn in numbers]
    conversation = client_conversation(turns, [turn.submissions for turn in record.turns], marks)
    return replace(conversation, notes=(*conversation.notes, *work.notes))


def _why_none(record: RunRecord) -> str:
    if record.agent is None:
        return "it was served, and played without an agent"
    if not record.turns:
        return "its agent has not finished a turn"
    return f"{record.agent.name} made no recorded call to a model, and printed no JSON events"


def _marks(record: RunRecord) -> Iterator[SubmissionMark]:
    from evopolicygym.gateway.conversation import SubmissionMark

    remaining = record.budget.total
    for submission in record.submissions:
        remaining -= 0 if submission.refunded else submission.charged
        text = _submission_text(submission, remaining)
        yield SubmissionMark(submission.number, submission.charged_at.timestamp(), text)


def _submission_text(submission: SubmissionRecord, remaining: int) -> str:
    verdict = "refunded" if submission.refunded else submission.verdict or "not judged yet"
    mean = f", mean return {submission.train.mean:.6g}" if submission.train else ""
    played = f"{submission.charged} episode{'' if submission.charged == 1 else 's'}"
    return f"submission {submission.number}: {verdict}, {played}{mean}; {remaining} left"


def _step_values(step: ConversationStep) -> dict[str, Any]:
    values: dict[str, Any] = {"kind": str(step.kind), "at": step.at or None, "turn": step.turn}
    if step.call:
        values |= {"call": step.call, "model": step.model, "seconds": step.seconds}
        values["usage"] = asdict(step.usage) if step.usage else None
    if step.submission:
        values["submission"] = step.submission
    values["parts"] = [
        {name: str(value) for name, value in asdict(part).items() if value and name != "role"} for part in step.parts
    ]
    return values


def tail(
    run: str | os.PathLike[str], *, follow: bool = True, notice: Callable[[str], object] | None = None
) -> Iterator[TailEvent]:
    """Yield what happens in a run, from its beginning: turns, what the agent says and does, submissions with their
    scores, the outcome. Works from any process, and locks nothing.

    Args:
        run: The run's folder, which may come from another person. If it does not exist yet, the iterator waits for it.
        follow: Wait for more until the run is finished or suspended; without it, yield what there is now.
        notice: Called once with a text if there is no run in the folder yet.

    Returns:
        An iterator of ``TailEvent``: ``at``, ``kind``, ``text``, ``name``, ``turn``, ``submission`` and ``data``.

    Raises:
        UserError: There is no run in the folder and it is not followed, or the run is an imported one.

    >>> import evopolicygym
    >>> events = list(evopolicygym.tail("examples/runs/acrobot__tuner__s0"))
    >>> [event.kind for event in (events[0], events[-1])], events[1].text
    (['opened', 'finished'], 'turn 1 begins')
    """
    from evopolicygym.runs.tail import follow_run

    return follow_run(Path(run), follow, lambda: notice(f"waiting for a run in {run}") if notice else None)
