"""What an agent did from one accepted submission to the next: the tokens it used, the feedback files it named.

Tokens are split by request where the requests of a turn add up to what the turn was metered at, and else by turn: a
turn with one submission is that submission's, and of a turn with several nobody knows who used what. A submission was
made where its name first stands in a tool's answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

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
from evopolicygym.run_record import RunRecord, TurnRecord


class By(StrEnum):
    """How finely tokens are known. ``turn``: the whole of the turn in which the submission was made. ``mixed``: some
    kinds of tokens so, the others so."""

    REQUEST = "request"
    TURN = "turn"
    MIXED = "mixed"


@dataclass(frozen=True)
class Between:
    """From the submission before (or the beginning) to this one. None is unknown; no file is an empty tuple."""

    tokens: Tokens | None = None
    tokens_by: By | None = None
    feedback_opened: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TurnSpent:
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


def by_turn(run: RunRecord) -> tuple[TurnSpent, ...]:
    return tuple(TurnSpent(i, _numbers(run, i), turn_tokens(turn)) for i, turn in enumerate(run.turns, 1))


def between(run: RunRecord, folder: Path) -> dict[int, Between]:
    """By the number of the submission. Only an agent has turns."""
    turns = [_turn(run, folder, number) for number in range(1, len(run.turns) + 1)]
    tokens = dict(_tokens(turns))
    files = _files(turns)
    return {
        one.number: Between(*tokens.get(one.number, (None, None)), files.get(one.number)) for one in run.submissions
    }


def files_opened(meanwhile: Sequence[Between]) -> int | None:
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
    given: dict[int, tuple[int | None, By]] = field(default_factory=dict)

    def split(self, amounts: Sequence[int], numbers: Sequence[int]) -> None:
        """``amounts`` are those before each of the submissions, and after the last."""
        for number, amount in zip(numbers, amounts[:-1], strict=True):
            self.given[number] = (sum_if_known([self.carried, amount]), By.REQUEST)
            self.carried = 0
        self.carried = sum_if_known([self.carried, amounts[-1]])

    def spend(self, amount: int | None, numbers: Sequence[int]) -> None:
        if not numbers:
            self.carried = sum_if_known([self.carried, amount])
            return
        alone = len(numbers) == 1
        self.given |= {number: (sum_if_known([self.carried, amount]) if alone else None, By.TURN) for number in numbers}
        self.carried = 0


def _tokens(turns: Sequence[_Turn]) -> Iterator[tuple[int, tuple[Tokens | None, By | None]]]:
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
        yield number, (Tokens(**known), ways.pop() if len(ways) == 1 else By.MIXED) if known else (None, None)


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
