"""What a run spent: episodes by submission and by case, time, and actions that did not fit the space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from evopolicygym.agents.transcripts import (
    TOKEN_KINDS,
    Tokens,
    TranscriptEvent,
    read_transcript,
    split_at_submissions,
    submission_of_file,
    sum_if_known,
    tokens_by_part,
)
from evopolicygym.run_record import RunRecord, SubmissionRecord, TurnRecord


class TokenPrecision(StrEnum):
    """How finely tokens are known. ``turn``: the whole of the turn in which the submission was made. ``mixed``: some
    kinds of tokens so, the others so."""

    REQUEST = "request"
    TURN = "turn"
    MIXED = "mixed"


@dataclass(frozen=True)
class SubmissionEffort:
    """From the submission before (or the beginning) to this one. None is unknown; no file is an empty tuple."""

    tokens: Tokens | None = None
    tokens_by: TokenPrecision | None = None
    feedback_opened: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TurnTokens:
    """What one turn was metered at, and the submissions made in it."""

    turn: int
    submissions: tuple[int, ...]
    tokens: Tokens


@dataclass(frozen=True)
class _Turn:
    """``events`` None: nothing is seen of it. ``parts``: its events, cut where each submission was made; the last
    part is what came after. None where one of them cannot be found."""

    metered: Tokens
    numbers: tuple[int, ...]
    events: list[TranscriptEvent] | None
    parts: list[list[TranscriptEvent]] | None


def turn_tokens(turn: TurnRecord) -> Tokens:
    """Return the tokens that a turn was metered at."""
    usage = turn.usage or {}
    return Tokens(**{kind: usage[kind] if type(usage.get(kind)) is int else None for kind in TOKEN_KINDS})


def tokens_by_turn(run: RunRecord) -> tuple[TurnTokens, ...]:
    return tuple(TurnTokens(i, _numbers(run, i), turn_tokens(turn)) for i, turn in enumerate(run.turns, 1))


def effort_by_submission(run: RunRecord, folder: Path) -> dict[int, SubmissionEffort]:
    """TokenPrecision the number of the submission. Only an agent has turns."""
    turns = [_turn(run, folder, number) for number in range(1, len(run.turns) + 1)]
    tokens = dict(_split_tokens(turns))
    files = _files(turns)
    return {
        one.number: SubmissionEffort(*tokens.get(one.number, (None, None)), files.get(one.number))
        for one in run.submissions
    }


def files_opened(meanwhile: Sequence[SubmissionEffort]) -> int | None:
    """Each file counts once for each submission before which it was opened. Unknown as soon as one of them is."""
    return sum_if_known(None if one.feedback_opened is None else len(one.feedback_opened) for one in meanwhile)


def _numbers(run: RunRecord, turn: int) -> tuple[int, ...]:
    before = run.turns[turn - 2].submissions if turn > 1 else 0
    return tuple(range(before + 1, run.turns[turn - 1].submissions + 1))


def _turn(run: RunRecord, folder: Path, number: int) -> _Turn:
    events, numbers = read_transcript(folder, number), _numbers(run, number)
    return _Turn(
        turn_tokens(run.turns[number - 1]), numbers, events, split_at_submissions(events, numbers) if events else None
    )


@dataclass
class _Purse:
    """Tokens of one kind that no submission has been given yet."""

    carried: int | None = 0
    given: dict[int, tuple[int | None, TokenPrecision]] = field(default_factory=dict)

    def split(self, amounts: Sequence[int], numbers: Sequence[int]) -> None:
        """``amounts`` are those before each of the submissions, and after the last."""
        for number, amount in zip(numbers, amounts[:-1], strict=True):
            self.given[number] = (sum_if_known([self.carried, amount]), TokenPrecision.REQUEST)
            self.carried = 0
        self.carried = sum_if_known([self.carried, amounts[-1]])

    def spend(self, amount: int | None, numbers: Sequence[int]) -> None:
        if not numbers:
            self.carried = sum_if_known([self.carried, amount])
            return
        alone = len(numbers) == 1
        self.given |= {
            number: (sum_if_known([self.carried, amount]) if alone else None, TokenPrecision.TURN) for number in numbers
        }
        self.carried = 0


def _split_tokens(turns: Sequence[_Turn]) -> Iterator[tuple[int, tuple[Tokens | None, TokenPrecision | None]]]:
    purses = {kind: _Purse() for kind in TOKEN_KINDS}
    for turn in turns:
        for kind, purse in purses.items():
            amounts = _by_request(turn, kind)
            if amounts is None:
                purse.spend(getattr(turn.metered, kind), turn.numbers)
            else:
                purse.split(amounts, turn.numbers)
    for number in (number for turn in turns for number in turn.numbers):
        given = {kind: purse.given[number] for kind, purse in purses.items()}
        known = {kind: amount for kind, (amount, _) in given.items() if amount is not None}
        ways = {given[kind][1] for kind in known}
        yield (
            number,
            (Tokens(**known), ways.pop() if len(ways) == 1 else TokenPrecision.MIXED) if known else (None, None),
        )


def _by_request(turn: _Turn, kind: str) -> list[int] | None:
    metered = getattr(turn.metered, kind)
    return None if turn.parts is None or metered is None else tokens_by_part(turn.parts, kind, metered)


def _files(turns: Sequence[_Turn]) -> dict[int, tuple[str, ...] | None]:
    """Known where all that came since the submission before is seen. A client whose calls are never seen shows none."""
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
        for place, part in enumerate(turn.parts):
            number = following + place
            for path in (path for event in part for path in event.feedback_files):
                opened.setdefault(max(number, submission_of_file(path) + 1), {})[path] = None
        following += len(turn.numbers)
    last = following - 1
    return {n: None if n in unseen else tuple(opened.get(n, {})) for n in range(1, last + 1)}


INVALID: Final = "invalid_action"


@dataclass(frozen=True)
class SubmissionSpending:
    """By one submission. ``agent_s``: from the previous reply (or the opening of the run) to this request. ``between``:
    what the agent used and looked at meanwhile."""

    submission: int
    episodes: int
    agent_s: float | None
    judge_s: float | None
    between: SubmissionEffort


@dataclass(frozen=True)
class Spending:
    """Refunded submissions cost nothing and are in none of these but ``refunded``. ``repeated_episodes`` played a case
    that an earlier episode had played. Rates are null when nothing was played. ``tokens`` are those of all turns."""

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


def run_spending(run: RunRecord, meanwhile: Mapping[int, SubmissionEffort]) -> Spending:
    paid = [submission for submission in run.submissions if not submission.refunded]
    cases = Counter(case for submission in paid for case in submission.cases)
    spent = _by_submission(run, meanwhile)
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
        agent_s=_sum([one.agent_s for one in spent]),
        judge_s=_sum([one.judge_s for one in spent]),
        clipped_action_rate=_clipped_rate(paid),
        invalid_action_rate=_invalid_rate(paid),
        tokens=_tokens(run),
        by_submission=spent,
        by_turn=tokens_by_turn(run),
    )


def _by_submission(run: RunRecord, meanwhile: Mapping[int, SubmissionEffort]) -> tuple[SubmissionSpending, ...]:
    found = []
    since: datetime | None = run.times.opened
    for submission in run.submissions:
        agent_s = None if since is None else (submission.charged_at - since).total_seconds()
        if not submission.refunded:
            told = meanwhile[submission.number]
            found.append(SubmissionSpending(submission.number, submission.charged, agent_s, submission.wall_s, told))
        since = submission.judged_at
    return tuple(found)


def _sum(seconds: list[float | None]) -> float | None:
    """Unknown as soon as a part is unknown."""
    known = [value for value in seconds if value is not None]
    return sum(known) if len(known) == len(seconds) else None


def _tokens(run: RunRecord) -> Tokens:
    """Unknown as soon as one turn is, and without turns."""
    turns = [turn_tokens(turn) for turn in run.turns]
    return Tokens(
        **{kind: sum_if_known(getattr(turn, kind) for turn in turns) if turns else None for kind in TOKEN_KINDS}
    )


def _clipped_rate(paid: list[SubmissionRecord]) -> float | None:
    """Clipped actions per step played."""
    steps = sum(sum(submission.train.lengths) for submission in paid if submission.train)
    return sum(submission.clipped_actions for submission in paid) / steps if steps else None


def _invalid_rate(paid: list[SubmissionRecord]) -> float | None:
    """Share of episodes that an invalid action ended."""
    errors = [error for submission in paid if submission.train for error in submission.train.errors]
    return errors.count(INVALID) / len(errors) if errors else None
