"""Soft actor-critic (Haarnoja et al. 2018; for choices Christodoulou 2019) on all recorded episodes of its
submissions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from ..policies.actor import FARTHEST, SPREADS, Actor, Vector
from .networks import Moments, NetworkShape, TrainableNetwork, softmax
from .search import Transitions

HIDDEN: Final = (64, 64)
RATE: Final = 1e-3
DISCOUNT: Final = 0.99
FOLLOW: Final = 0.005
MINIBATCH: Final = 128
UPDATES: Final = (500, 4000)  # least and most after one submission; between them one for each step
CHOICE_ENTROPY: Final = 0.3  # wanted, as a share of that of a uniform choice
Batch = tuple[Vector, Vector, Vector, Vector, Vector]


class SoftActorCritic:
    """Learns from single steps, of all episodes so far. ``actor`` explores; ``best_guess`` does not where actions are
    continuous."""

    def __init__(self, shape: NetworkShape, is_choice: bool, moments: Moments, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._is_choice, self._moments, self._size = is_choice, moments, shape.outputs
        outputs = shape.outputs if is_choice else 2 * shape.outputs
        inputs, values = (shape.inputs, shape.outputs) if is_choice else (shape.inputs + shape.outputs, 1)
        self._policy = TrainableNetwork([shape.inputs, *HIDDEN, outputs], self._random, RATE, 0.01)
        self._critics = [TrainableNetwork([inputs, *HIDDEN, values], self._random, RATE) for _ in range(2)]
        self._targets = [TrainableNetwork([inputs, *HIDDEN, values], self._random, RATE) for _ in range(2)]
        for target, critic in zip(self._targets, self._critics, strict=True):
            target.follow(critic, 1.0)
        self._temperature = np.log(0.2)
        self._wanted = CHOICE_ENTROPY * np.log(shape.outputs) if is_choice else -float(shape.outputs)
        self._memory: list[Batch] = []
        self._number = 0

    @property
    def actor(self) -> Actor:
        """The policy that plays the next episodes; of the first ones, random actions."""
        noise: dict[str, Any] = {"samples": True} if self._is_choice else {"spreads": True, "squashes": True}
        return Actor(self._policy.arrays() | self._moments.normalisation() | noise | {"stream": self._number})

    @property
    def best_guess(self) -> Actor:
        if self._is_choice:
            return self.actor
        arrays = self._policy.arrays()
        last = len(HIDDEN)
        arrays |= {name: arrays[name][..., : self._size] for name in (f"w{last}", f"b{last}")}
        return Actor(arrays | self._moments.normalisation() | {"squashes": np.array(True)})

    def learn(self, actor: Actor, episodes: Iterable[Transitions]) -> None:
        """Remember episodes that ``actor`` has played, and improve by steps of all."""
        played = [episode for episode in episodes if len(episode.rewards) and len(episode.features)]
        if not played:
            return
        for episode in played:
            self._memory.append(remembered(actor, episode, self._is_choice))
            self._moments = self._moments.with_rows(episode.features)
        memory: Batch = tuple(np.concatenate(column) for column in zip(*self._memory, strict=True))  # type: ignore[assignment]
        normal, scale = self._moments.normalisation(), max(float(np.std(memory[2])), 1e-6)
        fresh = sum(len(episode.rewards) for episode in played)
        for _ in range(int(np.clip(fresh, *UPDATES))):
            chosen = self._random.integers(len(memory[2]), size=MINIBATCH)
            rows, done, rewards, following, ended = (column[chosen] for column in memory)
            rows, following = (normalised(part, normal) for part in (rows, following))
            self._update(rows, done, rewards / scale, following, ended)
        self._number += 1

    def _update(self, rows: Vector, done: Vector, rewards: Vector, following: Vector, ended: Vector) -> None:
        update = self._update_choice if self._is_choice else self._update_controls
        entropy = update(rows, done, rewards, following, ended)
        self._temperature -= RATE * np.exp(self._temperature) * (entropy - self._wanted)
        self._temperature = float(np.clip(self._temperature, -7.0, 1.0))
        for target, critic in zip(self._targets, self._critics, strict=True):
            target.follow(critic, FOLLOW)

    def _update_choice(self, rows: Vector, done: Vector, rewards: Vector, following: Vector, ended: Vector) -> float:
        """Update critics and policy; return the mean entropy of the policy."""
        heat = float(np.exp(self._temperature))
        odds = softmax(self._policy.forward(following))
        lowest = np.minimum(*(target.forward(following) for target in self._targets))
        ahead = (odds * (lowest - heat * np.log(odds + 1e-12))).sum(axis=1)
        wanted = rewards + DISCOUNT * (1.0 - ended) * ahead
        taken = np.eye(self._size)[done[:, 0].astype(int)]
        for critic in self._critics:
            error = (critic.forward(rows) * taken).sum(axis=1) - wanted
            critic.backward(taken * error[:, None] / len(rows))
            critic.step()
        values = np.minimum(*(critic.forward(rows) for critic in self._critics))
        odds = softmax(self._policy.forward(rows))
        logs = np.log(odds + 1e-12)
        costs = heat * logs - values
        self._policy.backward(odds * (costs - (odds * costs).sum(axis=1, keepdims=True)) / len(rows))
        self._policy.step()
        return float(-(odds * logs).sum(axis=1).mean())

    def _update_controls(self, rows: Vector, done: Vector, rewards: Vector, following: Vector, ended: Vector) -> float:
        """Update critics and policy; return the mean entropy of the policy."""
        heat = float(np.exp(self._temperature))
        controls, logs, _, _ = self._sample(following)
        inputs = np.concatenate([following, controls], axis=1)
        ahead = np.minimum(*(target.forward(inputs)[:, 0] for target in self._targets)) - heat * logs
        wanted = rewards + DISCOUNT * (1.0 - ended) * ahead
        for critic in self._critics:
            error = critic.forward(np.concatenate([rows, done], axis=1))[:, 0] - wanted
            critic.backward(error[:, None] / len(rows))
            critic.step()
        controls, logs, noise, is_free = self._sample(rows)
        inputs = np.concatenate([rows, controls], axis=1)
        values = np.array([critic.forward(inputs)[:, 0] for critic in self._critics])
        slopes = [critic.backward(np.ones((len(rows), 1)))[:, rows.shape[1] :] for critic in self._critics]
        rise = np.where((values[0] <= values[1])[:, None], *slopes)
        slope = heat * 2.0 * controls - rise * (1.0 - np.square(controls))
        spread_slope = (slope * noise - heat) * is_free
        self._policy.forward(rows)
        self._policy.backward(np.concatenate([slope, spread_slope], axis=1) / len(rows))
        self._policy.step()
        return float(-logs.mean())

    def _sample(self, rows: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        """Return controls drawn from the policy, the logarithms of their densities, the noise in them, and where their
        spread is within its bounds."""
        mean, logarithm = np.split(self._policy.forward(rows), 2, axis=1)
        is_free = (logarithm > SPREADS[0]) & (logarithm < SPREADS[1])
        logarithm = np.clip(logarithm, *SPREADS)
        draws = self._random.normal(size=mean.shape)
        noise = np.exp(logarithm) * draws
        controls = np.tanh(mean + noise)
        density = -0.5 * np.square(draws) - logarithm - 0.5 * np.log(2.0 * np.pi)
        logs = (density - np.log(1.0 - np.square(controls) + 1e-6)).sum(axis=1)
        return controls, logs, noise, is_free.astype(float)


def normalised(rows: Vector, normal: dict[str, Vector]) -> Vector:
    return np.clip((rows - normal["mean"]) / normal["scale"], -FARTHEST, FARTHEST)


def remembered(actor: Actor, episode: Transitions, is_choice: bool) -> Batch:
    """Return the steps of an episode: features, what was done, rewards, the next features, and whether it ended there.
    An episode that was cut short did not end: its last step is left out if the state after it is missing."""
    following = episode.features[1:]
    steps = min(len(episode.rewards), len(following))
    raw = actor.replayed(episode.features[: len(episode.rewards)])[:steps]
    done = raw.argmax(axis=1)[:, None].astype(float) if is_choice else np.tanh(raw)
    ended = np.zeros(steps)
    if steps:
        ended[-1] = float(episode.terminated and steps == len(episode.rewards))
    return episode.features[:steps], done, episode.rewards[:steps], following[:steps], ended
