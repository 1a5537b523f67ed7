"""The loop of PPO and SAC: play a batch of episodes in one submission, learn from what was recorded, repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ..api_client import RunOver
from ..evaluator import FRESH_CASES, TRAIN_CASES, Spaces
from ..policies.actor import Actor
from .networks import Moments, NetworkShape
from .ppo import ProximalPolicyOptimisation
from .sac import SoftActorCritic
from .search import Transitions

BATCH: Final = {"ppo": 8, "sac": 4}  # episodes of one submission
FINAL_CASES: Final = 8


class RlAlgorithm(Protocol):
    """Learns from episodes of its own ``actor``; ``best_guess`` is submitted last."""

    @property
    def actor(self) -> Actor: ...

    @property
    def best_guess(self) -> Actor: ...

    def learn(self, actor: Actor, episodes: Sequence[Transitions]) -> None: ...


class RecordingPlayer(Protocol):
    """Plays an actor, and returns the recorded episodes. ``remaining`` is the budget in episodes."""

    remaining: float

    def record(self, actor: Actor, cases: list[int]) -> list[Transitions]: ...


def make_algorithm(name: str, spaces: Spaces, seed: int) -> RlAlgorithm:
    """Return a new learner. Raises RunOver for actions that it cannot play."""
    if not spaces.is_choice and spaces.action["type"] != "Box":
        raise RunOver(f"{name} plays Box and Discrete actions, not {spaces.action['type']}; nothing was submitted")
    shape, moments = NetworkShape.of(spaces, ()), Moments.of(spaces)
    chosen = ProximalPolicyOptimisation if name == "ppo" else SoftActorCritic
    return chosen(shape, spaces.is_choice, moments, seed)


def learn_by_playing(algorithm: RlAlgorithm, player: RecordingPlayer, batch: int) -> None:
    """Learn until the budget is spent. Raises RunOver where nothing is recorded."""
    first = FRESH_CASES
    while player.remaining >= batch + FINAL_CASES:
        actor = algorithm.actor
        cases = [(first + number) % TRAIN_CASES for number in range(batch)]
        episodes = player.record(actor, cases)
        if not episodes:
            raise RunOver("the run shows no trajectories, so there is nothing to learn from: --feedback trajectory")
        algorithm.learn(actor, episodes)
        first += batch
    if player.remaining > 0:
        player.record(algorithm.best_guess, list(range(int(min(player.remaining, 128)))))
