"""The progress of a run, as its owner reports it. Light to import, since it is a public name; runs/progress.py fills
it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RunProgress:
    """How far a run is.

    Attributes:
        phase: ``open`` while the agent plays, ``closed`` while its submissions are validated, ``selected`` while the
            chosen one is measured on held-out cases, ``finished``.
        charged, budget: Training episodes that are used, and all of them.
        submissions, turns, validated: How many there are; validated ones are distinct checkpoints.
        best_train_mean: The best of the submissions so far, None before there is one.
        doing: What happens now, in words: a turn, a submission that is played, a pause.
        hidden_left: Hidden episodes until the outcome, as far as they are known.
        tokens, dollars: Spending of the agent so far, as far as it is reported; None if nothing is.
        last_error: The last error of the agent's turn, its provider or the judge; empty if the last attempt was well.
        elapsed_s: Seconds in which the run was played; the time between an interruption and its continuation does not
            count.
        remaining_s: Estimated seconds until the outcome, None while there is nothing to estimate from.
        next_attempt_s: Seconds until the agent is prompted or its model asked again, None if nothing waits for that.
    """

    phase: str
    charged: int
    budget: int
    submissions: int
    turns: int
    validated: int
    best_train_mean: float | None
    doing: str = ""
    hidden_left: int = 0
    tokens: float | None = None
    dollars: float | None = None
    last_error: str = ""
    elapsed_s: float = field(default=0.0, compare=False)
    remaining_s: float | None = field(default=None, compare=False)
    next_attempt_s: float | None = field(default=None, compare=False)
