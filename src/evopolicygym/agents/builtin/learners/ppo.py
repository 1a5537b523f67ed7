"""Proximal policy optimisation (Schulman et al. 2017) on the recorded episodes of its own submissions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..policies.actor import FARTHEST, Actor, Vector
from .networks import Moments, NetworkShape, TrainableNetwork, softmax
from .search import Transitions

HIDDEN: Final = (64, 64)
RATE: Final = 3e-4
DISCOUNT: Final = 0.99
TRACE: Final = 0.95  # lambda of the advantage estimate
CLIP: Final = 0.2
EPOCHS: Final = 10
MINIBATCH: Final = 64
MOST_UPDATES: Final = 640  # for one batch: longer episodes get larger minibatches
ENTROPY: Final = 0.01  # of choices
FIRST_SPREAD: Final = 0.6
LARGEST_GRADIENT: Final = 0.5


@dataclass(frozen=True)
class PpoBatch:
    """Steps of a batch: normalised features, what was done (raw controls, or the number of the choice), the logarithm
    of its probability, the advantage, and the return."""

    rows: Vector
    done: Vector
    logarithms: Vector
    advantages: Vector
    returns: Vector


class ProximalPolicyOptimisation:
    """Learns from whole episodes. ``actor`` is the policy that plays the next ones; ``best_guess`` the one without
    exploration where actions are continuous."""

    def __init__(self, shape: NetworkShape, is_choice: bool, moments: Moments, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._is_choice, self._moments = is_choice, moments
        self._policy = TrainableNetwork([shape.inputs, *HIDDEN, shape.outputs], self._random, RATE, 0.01)
        self._value = TrainableNetwork([shape.inputs, *HIDDEN, 1], self._random, RATE)
        self._spread = np.full(shape.outputs, np.log(FIRST_SPREAD))
        self._spread_momentum = np.zeros(shape.outputs)
        self._seen: list[float] = []  # discounted returns, whose spread scales rewards
        self._number = 0

    @property
    def actor(self) -> Actor:
        noise = {"samples": True} if self._is_choice else {"spread": np.exp(self._spread)}
        return Actor(self.best_guess.weights | noise | {"stream": self._number})

    @property
    def best_guess(self) -> Actor:
        weights: dict[str, Any] = self._policy.arrays() | self._moments.normalisation()
        return Actor(weights | ({"samples": True, "stream": self._number} if self._is_choice else {}))

    def learn(self, actor: Actor, episodes: Iterable[Transitions]) -> None:
        """Improve the policy by episodes that ``actor``, the current policy, has played."""
        played = [episode for episode in episodes if len(episode.rewards) and len(episode.features)]
        if not played:
            return
        batch = self._batch(actor, played)
        size = max(MINIBATCH, EPOCHS * len(batch.rows) // MOST_UPDATES)
        for _ in range(EPOCHS):
            order = self._random.permutation(len(batch.rows))
            for start in range(0, len(order), size):
                self._update(batch, order[start : start + size])
        for episode in played:
            self._moments = self._moments.with_rows(episode.features)
        self._number += 1

    def _batch(self, actor: Actor, played: list[Transitions]) -> PpoBatch:
        parts = []
        for episode in played:
            for reward in discounted(episode.rewards):
                self._seen.append(float(reward))
        scale = max(float(np.std(self._seen)), 1e-6)
        for episode in played:
            steps = len(episode.rewards)
            rows = np.clip((episode.features - actor.mean) / actor.scale, -FARTHEST, FARTHEST)
            outputs, raw = actor.outputs(episode.features[:steps]), actor.replayed(episode.features[:steps])
            done = raw.argmax(axis=1)[:, None].astype(float) if self._is_choice else raw
            values = self._value.forward(rows)[:, 0]
            if episode.terminated or len(values) == steps:
                values = np.append(values[:steps], 0.0)
            advantages = advantages_of(episode.rewards / scale, values)
            parts.append((rows[:steps], done, self._log(outputs, done), advantages, advantages + values[:-1]))
        return PpoBatch(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _log(self, outputs: Vector, done: Vector) -> Vector:
        """Return the logarithm of the probability of what was done, up to a constant."""
        if self._is_choice:
            chosen = softmax(outputs)[np.arange(len(outputs)), done[:, 0].astype(int)]
            return np.asarray(np.log(chosen + 1e-12))
        distance = (done - outputs) / np.exp(self._spread)
        return np.asarray((-0.5 * np.square(distance) - self._spread).sum(axis=1))

    def _update(self, batch: PpoBatch, chosen: Any) -> None:
        rows, done, advantages = batch.rows[chosen], batch.done[chosen], batch.advantages[chosen]
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        outputs = self._policy.forward(rows)
        ratio = np.exp(np.clip(self._log(outputs, done) - batch.logarithms[chosen], -20.0, 20.0))
        is_clipped = np.where(advantages > 0.0, ratio > 1.0 + CLIP, ratio < 1.0 - CLIP)
        weight = (np.where(is_clipped, 0.0, -advantages * ratio) / len(rows))[:, None]
        if self._is_choice:
            odds = softmax(outputs)
            slope = weight * (np.eye(outputs.shape[1])[done[:, 0].astype(int)] - odds)
            logs = np.log(odds + 1e-12)
            entropy = -(odds * logs).sum(axis=1, keepdims=True)
            slope = slope + ENTROPY / len(rows) * odds * (logs + entropy)
        else:
            distance = (done - outputs) / np.exp(self._spread)
            slope = weight * distance / np.exp(self._spread)
            self._move_spread((weight * (np.square(distance) - 1.0)).sum(axis=0))
        self._policy.backward(slope)
        self._policy.step(LARGEST_GRADIENT)
        error = self._value.forward(rows)[:, 0] - batch.returns[chosen]
        self._value.backward(error[:, None] / len(rows))
        self._value.step(LARGEST_GRADIENT)

    def _move_spread(self, slope: Vector) -> None:
        self._spread_momentum = 0.9 * self._spread_momentum + 0.1 * np.clip(slope, -1.0, 1.0)
        self._spread = np.clip(self._spread - 10.0 * RATE * self._spread_momentum, -3.0, 0.5)


def discounted(rewards: Vector) -> Vector:
    """Return the discounted sum of the rewards from each step on."""
    sums, total = np.zeros(len(rewards)), 0.0
    for step in range(len(rewards) - 1, -1, -1):
        total = float(rewards[step]) + DISCOUNT * total
        sums[step] = total
    return sums


def advantages_of(rewards: Vector, values: Vector) -> Vector:
    """Return generalised advantage estimates. ``values`` has one more entry than steps: that of the last state."""
    surprises = rewards + DISCOUNT * values[1:] - values[:-1]
    advantages, total = np.zeros(len(rewards)), 0.0
    for step in range(len(rewards) - 1, -1, -1):
        total = float(surprises[step]) + DISCOUNT * TRACE * total
        advantages[step] = total
    return advantages
