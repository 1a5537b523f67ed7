"""Events of a run from the recorded calls of its agent: the same facts for every client.

They take the place of the client's own transcript, which tells less for some clients and nothing for others.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evopolicygym.agents.transcripts import (
    RECORDED,
    TOKEN_KINDS,
    Tokens,
    TranscriptEvent,
    feedback_files,
    submission_numbers,
)
from evopolicygym.gateway.conversation import ConversationStep, StepKind, read_conversation
from evopolicygym.gateway.messages import PartKind
from evopolicygym.gateway.recording import ModelRecording


def recorded_events(run_folder: Path) -> dict[int, list[TranscriptEvent]]:
    """Return the events of each turn; empty without a recording, and if a part of it is missing or damaged."""
    recording = ModelRecording(run_folder)
    if not recording.exists:
        return {}
    conversation = read_conversation(recording)
    if recording.notes or conversation.notes:
        return {}
    steps = sorted((step for thread in conversation.threads for step in thread.steps), key=lambda step: step.at)
    turns: dict[int, list[TranscriptEvent]] = {}
    for step in steps:
        for event in _events(step):
            turns.setdefault(step.turn, []).append(event)
    return turns


def _events(step: ConversationStep) -> Iterator[TranscriptEvent]:
    if step.kind is StepKind.ASSISTANT:
        inputs = [part.text for part in step.parts if part.kind is PartKind.CALL]
        requests = {RECORDED: (str(step.call), _tokens(step))} if step.usage else {}
        yield TranscriptEvent(bool(inputs), feedback_files(inputs), frozenset(), requests)
    elif step.kind is StepKind.TOOL:
        yield TranscriptEvent(False, (), submission_numbers(part.text for part in step.parts), {})


def _tokens(step: ConversationStep) -> Tokens:
    return Tokens(**{kind: getattr(step.usage, kind) for kind in TOKEN_KINDS})
