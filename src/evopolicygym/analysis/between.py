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

from evopolicygym.analysis.tokens import KINDS, STEPS, Step, Tokens, of_turn, total
from evopolicygym.analysis.transcripts import SUBMISSION, Moment, read_turn
from evopolicygym.run_record import Run


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
    """``moments`` None: nothing is seen of it. ``parts``: its moments, cut where each submission was made; the last
    part is what came after. None where one of them cannot be found."""

    metered: Tokens
    numbers: tuple[int, ...]
    moments: list[Moment] | None
    parts: list[list[Moment]] | None


def by_turn(run: Run) -> tuple[TurnSpent, ...]:
    return tuple(TurnSpent(i, _numbers(run, i), of_turn(turn)) for i, turn in enumerate(run.turns, 1))


def between(run: Run, folder: Path) -> dict[int, Between]:
    """By the number of the submission. Only an agent has turns."""
    turns = [_turn(run, folder, number) for number in range(1, len(run.turns) + 1)]
    tokens = dict(_tokens(turns))
    files = _files(turns)
    return {
        one.number: Between(*tokens.get(one.number, (None, None)), files.get(one.number)) for one in run.submissions
    }


def files_opened(meanwhile: Sequence[Between]) -> int | None:
    """Each file counts once for each submission before which it was opened. Unknown as soon as one of them is."""
    return total(None if one.feedback_opened is None else len(one.feedback_opened) for one in meanwhile)


def _numbers(run: Run, turn: int) -> tuple[int, ...]:
    before = run.turns[turn - 2].submissions if turn > 1 else 0
    return tuple(range(before + 1, run.turns[turn - 1].submissions + 1))


def _turn(run: Run, folder: Path, number: int) -> _Turn:
    moments, numbers = read_turn(folder, number), _numbers(run, number)
    return _Turn(of_turn(run.turns[number - 1]), numbers, moments, _parts(moments, numbers) if moments else None)


def _parts(moments: Sequence[Moment], numbers: Sequence[int]) -> list[list[Moment]] | None:
    parts: list[list[Moment]] = [[]]
    left = list(numbers)
    for moment in moments:
        parts[-1].append(moment)
        while left and left[0] in moment.submissions:
            left.pop(0)
            parts.append([])
    return None if left else parts


@dataclass
class _Purse:
    """Tokens of one kind that no submission has been given yet."""

    carried: int | None = 0
    given: dict[int, tuple[int | None, By]] = field(default_factory=dict)

    def split(self, amounts: Sequence[int], numbers: Sequence[int]) -> None:
        """``amounts`` are those before each of the submissions, and after the last."""
        for number, amount in zip(numbers, amounts[:-1], strict=True):
            self.given[number] = (total([self.carried, amount]), By.REQUEST)
            self.carried = 0
        self.carried = total([self.carried, amounts[-1]])

    def spend(self, amount: int | None, numbers: Sequence[int]) -> None:
        if not numbers:
            self.carried = total([self.carried, amount])
            return
        alone = len(numbers) == 1
        self.given |= {number: (total([self.carried, amount]) if alone else None, By.TURN) for number in numbers}
        self.carried = 0


def _tokens(turns: Sequence[_Turn]) -> Iterator[tuple[int, tuple[Tokens | None, By | None]]]:
    purses = {kind: _Purse() for kind in KINDS}
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
    """Amounts of the parts, by the first rule under which they add up to the turn."""
    metered = getattr(turn.metered, kind)
    if turn.parts is None or metered is None:
        return None
    for rule in STEPS:
        amounts = _amounts(turn.parts, rule, kind)
        if amounts and sum(amounts) == metered:
            return amounts
    return None


def _amounts(parts: Sequence[Sequence[Moment]], rule: Step, kind: str) -> list[int] | None:
    """What several events tell of one request counts once."""
    told: dict[str, tuple[int, int | None]] = {}
    for place, part in enumerate(parts):
        steps = [moment.steps[rule.name] for moment in part if rule.name in moment.steps]
        for count, (name, tokens) in enumerate(steps):
            made = place - 1 if rule.late and place and count == 0 else place
            told.setdefault(name or f"request {len(told)}", (made, getattr(tokens, kind)))
    sums = [total(amount for at, amount in told.values() if at == place) for place in range(len(parts))]
    return [one for one in sums if one is not None] if told and None not in sums else None


def _files(turns: Sequence[_Turn]) -> dict[int, tuple[str, ...] | None]:
    """Known where all that came since the submission before is seen. A client whose calls are never seen shows none."""
    if not any(moment.called for turn in turns for moment in turn.moments or ()):
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
            for path in (path for moment in part for path in moment.files):
                opened.setdefault(max(number, _own(path) + 1), {})[path] = None
        following += len(turn.numbers)
    last = following - 1
    return {n: None if n in unseen else tuple(opened.get(n, {})) for n in range(1, last + 1)}


def _own(path: str) -> int:
    """The submission whose feedback it is: it cannot have been opened before that was made."""
    found = SUBMISSION.search(path)
    return int(found[1]) if found else 0
