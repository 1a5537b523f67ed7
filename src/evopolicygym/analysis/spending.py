"""What a run spent: episodes by submission and by case, time, and actions that did not fit the space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from evopolicygym.agents.transcripts import TOKEN_KINDS, Tokens, sum_if_known
from evopolicygym.analysis.between import Between, TurnSpent, by_turn, turn_tokens
from evopolicygym.run_record import RunRecord, SubmissionRecord

INVALID: Final = "invalid_action"


@dataclass(frozen=True)
class Spent:
    """By one submission. ``agent_s``: from the previous reply (or the opening of the run) to this request. ``between``:
    what the agent used and looked at meanwhile."""

    submission: int
    episodes: int
    agent_s: float | None
    judge_s: float | None
    between: Between


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
    by_submission: tuple[Spent, ...]
    by_turn: tuple[TurnSpent, ...]


def spending(run: RunRecord, meanwhile: Mapping[int, Between]) -> Spending:
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
        by_turn=by_turn(run),
    )


def _by_submission(run: RunRecord, meanwhile: Mapping[int, Between]) -> tuple[Spent, ...]:
    found = []
    since: datetime | None = run.times.opened
    for submission in run.submissions:
        agent_s = None if since is None else (submission.charged_at - since).total_seconds()
        if not submission.refunded:
            told = meanwhile[submission.number]
            found.append(Spent(submission.number, submission.charged, agent_s, submission.wall_s, told))
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
