"""Spending of a run: episodes by submission and by case, time, tokens, and the effort before each submission.

The effort before a submission is the tokens that the agent used and the feedback files that it named. Tokens are split
by request where the requests of a turn add up to its metered total, and by turn otherwise: a turn with one submission
counts for that submission; with several submissions the share of each is unknown. A submission was made where its name
first appears in a tool's output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from evopolicygym.agents.transcripts import (
    MAX_EVENTS,
    RECORDED,
    TOKEN_KINDS,
    Tokens,
    TranscriptEvent,
    feedback_files,
    read_transcript,
    split_at_submissions,
    submission_numbers,
    submission_of_file,
    sum_if_known,
    tokens_by_part,
    transcript_bytes,
)
from evopolicygym.analysis.work_limit import WorkLimit
from evopolicygym.gateway.conversation import ConversationStep, StepKind, read_conversation
from evopolicygym.gateway.messages import PartKind
from evopolicygym.gateway.recording.reader import ModelRecording
from evopolicygym.run_record import RunRecord, SubmissionRecord, TurnRecord

INVALID: Final = "invalid_action"


class TokenPrecision(StrEnum):
    """How tokens were assigned to a submission. ``turn``: the whole turn in which it was made. ``mixed``: some kinds of
    tokens by request, others by turn."""

    REQUEST = "request"
    TURN = "turn"
    MIXED = "mixed"


@dataclass(frozen=True)
class SubmissionEffort:
    """Tokens and feedback files since the submission before, or since the start. None: unknown; (): no file."""

    tokens: Tokens | None = None
    tokens_by: TokenPrecision | None = None
    feedback_opened: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TurnTokens:
    """Metered tokens of one turn, and the submissions made in it."""

    turn: int
    submissions: tuple[int, ...]
    tokens: Tokens


@dataclass(frozen=True)
class _Turn:
    """One turn. ``events``: None without a transcript. ``parts``: the events, split at each submission; the last part
    comes after the last submission. None where a submission is not found in the transcript."""

    metered: Tokens
    numbers: tuple[int, ...]
    events: list[TranscriptEvent] | None
    parts: list[list[TranscriptEvent]] | None


def turn_tokens(turn: TurnRecord) -> Tokens:
    """Return the metered tokens of a turn."""
    usage = turn.usage or {}
    return Tokens(**{kind: usage[kind] if type(usage.get(kind)) is int else None for kind in TOKEN_KINDS})


def tokens_by_turn(run: RunRecord) -> tuple[TurnTokens, ...]:
    """Return the metered tokens of each turn with its submissions."""
    return tuple(TurnTokens(i, _submissions_of_turn(run, i), turn_tokens(turn)) for i, turn in enumerate(run.turns, 1))


def effort_by_submission(run: RunRecord, folder: Path, work: WorkLimit | None = None) -> dict[int, SubmissionEffort]:
    """Return the effort before each submission, by its number. A run served by hand has no turns, and so none."""
    recorded = recorded_events(folder)
    reader = _TurnReader(run, folder, work or WorkLimit())
    turns = [reader.read(number, recorded.get(number)) for number in range(1, len(run.turns) + 1)]
    tokens = dict(_split_tokens(turns))
    files = _files(turns)
    return {
        submission.number: SubmissionEffort(*tokens.get(submission.number, (None, None)), files.get(submission.number))
        for submission in run.submissions
    }


def files_opened(efforts: Sequence[SubmissionEffort]) -> int | None:
    """Count opened feedback files, once for each submission that they preceded; None if one is unknown."""
    return sum_if_known(None if effort.feedback_opened is None else len(effort.feedback_opened) for effort in efforts)


def _submissions_of_turn(run: RunRecord, turn: int) -> tuple[int, ...]:
    before = run.turns[turn - 2].submissions if turn > 1 else 0
    return tuple(range(before + 1, run.turns[turn - 1].submissions + 1))


class _TurnReader:
    """Reads the turns of a run. The events of all of them are in memory together, so their number is limited, too."""

    def __init__(self, run: RunRecord, folder: Path, work: WorkLimit) -> None:
        self._run, self._folder, self._work = run, folder, work
        self._remaining = MAX_EVENTS

    def read(self, number: int, recorded: list[TranscriptEvent] | None) -> _Turn:
        """Read the events of a turn from its recorded calls, or from the client's transcript."""
        events, numbers = recorded or self._transcript(number), _submissions_of_turn(self._run, number)
        parts = split_at_submissions(events, numbers) if events else None
        return _Turn(turn_tokens(self._run.turns[number - 1]), numbers, events, parts)

    def _transcript(self, number: int) -> list[TranscriptEvent] | None:
        size = transcript_bytes(self._folder, number)
        if not size or not self._work.read(size):
            return None
        if self._remaining <= 0:
            self._work.note(f"more than {MAX_EVENTS} events of transcripts; the rest was not read")
            return None
        events = read_transcript(self._folder, number, self._remaining)
        self._remaining -= len(events or ())
        return events


@dataclass
class _TokenSplit:
    """Tokens of one kind, assigned to submissions. ``carried``: tokens that wait for the next submission."""

    carried: int | None = 0
    assigned: dict[int, tuple[int | None, TokenPrecision]] = field(default_factory=dict)

    def by_request(self, amounts: Sequence[int], numbers: Sequence[int]) -> None:
        """Assign the amounts before each submission; the last amount comes after the last submission."""
        for number, amount in zip(numbers, amounts[:-1], strict=True):
            self.assigned[number] = (sum_if_known([self.carried, amount]), TokenPrecision.REQUEST)
            self.carried = 0
        self.carried = sum_if_known([self.carried, amounts[-1]])

    def by_turn(self, amount: int | None, numbers: Sequence[int]) -> None:
        """Assign the amount of a whole turn with these submissions."""
        if not numbers:
            self.carried = sum_if_known([self.carried, amount])
            return
        alone = len(numbers) == 1
        self.assigned |= {
            number: (sum_if_known([self.carried, amount]) if alone else None, TokenPrecision.TURN) for number in numbers
        }
        self.carried = 0


def _split_tokens(turns: Sequence[_Turn]) -> Iterator[tuple[int, tuple[Tokens | None, TokenPrecision | None]]]:
    splits = {kind: _TokenSplit() for kind in TOKEN_KINDS}
    for turn in turns:
        for kind, split in splits.items():
            amounts = _by_request(turn, kind)
            if amounts is None:
                split.by_turn(getattr(turn.metered, kind), turn.numbers)
            else:
                split.by_request(amounts, turn.numbers)
    for number in (number for turn in turns for number in turn.numbers):
        assigned = {kind: split.assigned[number] for kind, split in splits.items()}
        amounts_by_kind = {kind: amount for kind, (amount, _) in assigned.items() if amount is not None}
        precisions = {assigned[kind][1] for kind in amounts_by_kind}
        yield (
            number,
            (Tokens(**amounts_by_kind), precisions.pop() if len(precisions) == 1 else TokenPrecision.MIXED)
            if amounts_by_kind
            else (None, None),
        )


def _by_request(turn: _Turn, kind: str) -> list[int] | None:
    metered = getattr(turn.metered, kind)
    return None if turn.parts is None or metered is None else tokens_by_part(turn.parts, kind, metered)


def _files(turns: Sequence[_Turn]) -> dict[int, tuple[str, ...] | None]:
    """Return the files opened before each submission; None where part of the transcript is missing.

    Empty for a client whose transcript never shows the input of a tool.
    """
    if not any(event.calls_tool for turn in turns for event in turn.events or ()):
        return {}
    opened: dict[int, dict[str, None]] = {}
    unseen: set[int] = set()
    following = 1
    for turn in turns:
        if turn.parts is None:
            unseen |= {*turn.numbers, (turn.numbers[-1] if turn.numbers else following - 1) + 1}
            following = turn.numbers[-1] + 1 if turn.numbers else following
            continue
        for offset, part in enumerate(turn.parts):
            number = following + offset
            for path in (path for event in part for path in event.feedback_files):
                opened.setdefault(max(number, submission_of_file(path) + 1), {})[path] = None
        following += len(turn.numbers)
    last = following - 1
    return {n: None if n in unseen else tuple(opened.get(n, {})) for n in range(1, last + 1)}


@dataclass(frozen=True)
class SubmissionSpending:
    """Spent by one submission. ``agent_s``: from the previous reply (or the opening of the run) to this request.
    ``between``: effort of the agent meanwhile."""

    submission: int
    episodes: int
    agent_s: float | None
    judge_s: float | None
    between: SubmissionEffort


@dataclass(frozen=True)
class Spending:
    """Spent by a run. Refunded submissions cost nothing and count in ``refunded`` alone. ``repeated_episodes`` played a
    case that an earlier episode had played. Rates are None when nothing was played. ``tokens``: of all turns."""

    budget: int
    charged: int
    unused: int
    accepted: int
    failed: int
    refunded: int
    refused: dict[str, int]
    distinct_cases: int
    repeated_episodes: int
    episodes_per_case: dict[int, int]
    agent_s: float | None
    judge_s: float | None
    clipped_action_rate: float | None
    invalid_action_rate: float | None
    tokens: Tokens
    by_submission: tuple[SubmissionSpending, ...]
    by_turn: tuple[TurnTokens, ...]


def run_spending(run: RunRecord, efforts: Mapping[int, SubmissionEffort]) -> Spending:
    """Sum up what a run spent."""
    paid = [submission for submission in run.submissions if not submission.refunded]
    cases = Counter(case for submission in paid for case in submission.cases)
    spent = _by_submission(run, efforts)
    return Spending(
        budget=run.budget.total,
        charged=run.budget.charged,
        unused=run.budget.remaining,
        accepted=len(paid),
        failed=sum(submission.verdict not in (None, "ok") for submission in paid),
        refunded=len(run.submissions) - len(paid),
        refused=run.budget.refused,
        distinct_cases=len(cases),
        repeated_episodes=cases.total() - len(cases),
        episodes_per_case=dict(sorted(cases.items())),
        agent_s=_sum([submission.agent_s for submission in spent]),
        judge_s=_sum([submission.judge_s for submission in spent]),
        clipped_action_rate=_clipped_rate(paid),
        invalid_action_rate=_invalid_rate(paid),
        tokens=_tokens(run),
        by_submission=spent,
        by_turn=tokens_by_turn(run),
    )


def _by_submission(run: RunRecord, efforts: Mapping[int, SubmissionEffort]) -> tuple[SubmissionSpending, ...]:
    spent = []
    since: datetime | None = run.times.opened
    for submission in run.submissions:
        agent_s = None if since is None else (submission.charged_at - since).total_seconds()
        if not submission.refunded:
            effort = efforts[submission.number]
            spent.append(SubmissionSpending(submission.number, submission.charged, agent_s, submission.wall_s, effort))
        since = submission.judged_at
    return tuple(spent)


def _sum(seconds: list[float | None]) -> float | None:
    """Sum the seconds; None if any of them is unknown."""
    present = [value for value in seconds if value is not None]
    return sum(present) if len(present) == len(seconds) else None


def _tokens(run: RunRecord) -> Tokens:
    """Sum the metered tokens of all turns; None without turns, or if one is unknown."""
    turns = [turn_tokens(turn) for turn in run.turns]
    return Tokens(
        **{kind: sum_if_known(getattr(turn, kind) for turn in turns) if turns else None for kind in TOKEN_KINDS}
    )


def _clipped_rate(paid: list[SubmissionRecord]) -> float | None:
    """Return clipped actions per step played."""
    steps = sum(sum(submission.train.lengths) for submission in paid if submission.train)
    return sum(submission.clipped_actions for submission in paid) / steps if steps else None


def _invalid_rate(paid: list[SubmissionRecord]) -> float | None:
    """Return the share of episodes that an invalid action ended."""
    errors = [error for submission in paid if submission.train for error in submission.train.errors]
    return errors.count(INVALID) / len(errors) if errors else None


def recorded_events(run_folder: Path) -> dict[int, list[TranscriptEvent]]:
    """Return the events of each turn from the recorded calls; empty without a recording, and if a part of it is missing
    or damaged. They take the place of the client's own transcript, which has less for some clients and nothing for
    others."""
    recording = ModelRecording(run_folder)
    if not recording.exists:
        return {}
    conversation = read_conversation(recording)
    if recording.notes or conversation.notes:
        return {}
    steps = sorted((step for thread in conversation.threads for step in thread.steps), key=lambda step: step.at)
    turns: dict[int, list[TranscriptEvent]] = {}
    for step in steps:
        for event in _step_events(step):
            turns.setdefault(step.turn, []).append(event)
    return turns


def _step_events(step: ConversationStep) -> Iterator[TranscriptEvent]:
    if step.kind is StepKind.ASSISTANT:
        inputs = [part.text for part in step.parts if part.kind is PartKind.CALL]
        requests = {RECORDED: (str(step.call), _step_tokens(step))} if step.usage else {}
        yield TranscriptEvent(bool(inputs), feedback_files(inputs), frozenset(), requests)
    elif step.kind is StepKind.TOOL:
        yield TranscriptEvent(False, (), submission_numbers(part.text for part in step.parts), {})


def _step_tokens(step: ConversationStep) -> Tokens:
    return Tokens(**{kind: getattr(step.usage, kind) for kind in TOKEN_KINDS})
