"""The loop of every search method: candidates of a generation play the same cases, and the next ones follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from ..evaluator import FRESH_CASES, cases_needed, next_cases
from ..policies.actor import Actor, Vector
from .networks import Moments, NetworkShape

IMAGE_CASES: Final = 4  # tasks with images are slow, and the judge validates every submitted policy: submit fewer
FIRST_CASES: Final = 2
FINAL_CASES: Final = 4
MAX_CASES: Final = 128  # of one submission
WORST: Final = -1e30  # in place of the return of a policy that did not load


class SearchMethod(Protocol):
    """A search over vectors of numbers of about unit size. ``centre`` is its best guess. ``plays_centre``: the centre
    is not among the candidates, and plays beside them. ``adapts``: the scale of observations follows what was seen in
    each generation; otherwise it stays as it was after the first episodes."""

    plays_centre: bool
    adapts: bool

    def ask(self) -> list[Vector]: ...

    def tell(self, candidates: list[Vector], means: Vector) -> None: ...

    @property
    def centre(self) -> Vector: ...


@dataclass(frozen=True)
class Rollouts:
    """Episodes of one actor: its returns in the order of the cases, and rows of features of observations."""

    returns: Vector
    observations: Vector
    steps: int


@dataclass(frozen=True)
class Transitions:
    """One recorded episode: rows of features (one more than steps), rewards, and whether it ended by itself. If it did
    not, its horizon or a limit of the recording cut it short."""

    features: Vector
    rewards: Vector
    terminated: bool


class Player(Protocol):
    """Plays actors. ``remaining`` is the budget in episodes."""

    remaining: float

    def play(self, actors: Sequence[Actor], cases: list[int]) -> list[Rollouts]: ...


@dataclass
class SearchState:
    """The state of a search between two generations."""

    moments: Moments
    generation: int = 0
    cases: int = FIRST_CASES
    episodes: int = 0
    steps: int = 0


def explorer(shape: NetworkShape, moments: Moments) -> Actor:
    """Return an actor that takes random actions."""
    zeros = shape.arrays(np.zeros(shape.parameters))
    return Actor(zeros | moments.normalisation() | {"spread": np.ones(shape.outputs)})


def search(
    method: SearchMethod, player: Player, shape: NetworkShape, state: SearchState, least_cases: int = 1
) -> Iterator[Actor]:
    """Search until the budget is nearly spent, and yield the best guess after each generation. ``state`` is up to date
    then; a method that was told the same continues from it with the same search."""
    if state.generation == 0:
        explore(player, shape, state, least_cases)
    while True:
        candidates = method.ask()
        centre = [method.centre] if method.plays_centre else []
        if player.remaining < len([*centre, *candidates]) * state.cases + FINAL_CASES:
            return
        normalisation = state.moments.normalisation()
        actors = [actor_of(shape, numbers, normalisation) for numbers in (*centre, *candidates)]
        played = player.play(actors, next_cases(state.generation - 1, state.cases))
        returns = np.array([rollouts.returns for rollouts in played[len(centre) :]])
        means = returns.mean(axis=1)
        method.tell(candidates, np.where(np.isfinite(means), means, WORST))
        if state.generation == 1:
            state.cases = max(least_cases, cases_for(np.where(np.isfinite(returns), returns, WORST)))
        count(state, played, method.adapts)
        yield actor_of(shape, method.centre, state.moments.normalisation())


def cases_for(returns: Vector) -> int:
    """Return 1 or 2 cases for each candidate, by the returns of the first generation. Where they are all the same, one
    is enough: only more candidates can find a difference."""
    return 1 if np.ptp(returns) == 0.0 else min(FIRST_CASES, cases_needed(returns))


def explore(player: Player, shape: NetworkShape, state: SearchState, least_cases: int) -> None:
    """See what observations look like under random actions, before the first generation."""
    state.cases = max(FIRST_CASES, least_cases)
    played = player.play([explorer(shape, state.moments)], list(range(FRESH_CASES)))
    count(state, played, True)


def count(state: SearchState, played: Sequence[Rollouts], adapts: bool) -> None:
    """Add what was played to the state."""
    for rollouts in played:
        state.episodes += len(rollouts.returns)
        state.steps += rollouts.steps
        if adapts:
            state.moments = state.moments.with_rows(rollouts.observations)
    state.generation += 1


def confirm(player: Player, actor: Actor) -> None:
    """Spend the remaining budget on the best guess."""
    if player.remaining > 0:
        player.play([actor], list(range(int(min(player.remaining, MAX_CASES)))))


def actor_of(shape: NetworkShape, numbers: Vector, normalisation: dict[str, Vector]) -> Actor:
    return Actor(shape.arrays(numbers) | normalisation)
