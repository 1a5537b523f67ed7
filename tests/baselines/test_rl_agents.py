"""PPO and SAC in numpy: exact gradients, exact replay of what was played, and learning on toy environments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evopolicygym.agents.builtin.learners.networks import TrainableNetwork
from evopolicygym.agents.builtin.learners.ppo import advantages_of, discounted
from evopolicygym.agents.builtin.learners.rl import BATCH, learn_by_playing, make_algorithm
from evopolicygym.agents.builtin.learners.search import Transitions
from evopolicygym.agents.builtin.policies.features import FINE, action_maker, entries
from evopolicygym.baselines.rollouts import play_episode, spaces_of
from evopolicygym.tasks import simulator
from evopolicygym.tasks.registry import find_task
from evopolicygym.tasks.splits import PaperSplits, Split

EXAMINATION = range(900, 916)


class DirectPlayer:
    """Plays actors in the toy itself and records every step; ``shuffles`` gives each step the reward of another."""

    def __init__(self, toy: str, budget: int, shuffles: bool = False) -> None:
        self.task = find_task(f"learnable_toys:{toy}-v0")
        self.spaces, self.remaining, self.shuffles = spaces_of(self.task), budget, shuffles
        self.random = np.random.default_rng(0)

    def seed(self, case: int) -> int:
        return PaperSplits().seed(self.task.id, Split.TRAIN, case)

    def record(self, actor, cases):
        self.remaining -= len(cases)
        episodes = [self.play(actor, self.seed(case)) for case in cases]
        if not self.shuffles:
            return episodes
        rewards = self.random.permutation(np.concatenate([episode.rewards for episode in episodes]))
        parts = np.split(rewards, len(episodes))
        return [replace(episode, rewards=part) for episode, part in zip(episodes, parts, strict=True)]

    def play(self, actor, seed):
        env = simulator.make(self.task)
        rows, rewards, done = [entries(self.spaces.observation, simulator.reset(env, seed), FINE)], [], False
        actor.reset()
        self.controls = []
        while not done:
            self.controls.append(actor.controls(rows[-1]))
            observation, reward, done, _, _ = env.step(action_maker(self.spaces.action)(self.controls[-1]))
            rows.append(entries(self.spaces.observation, observation, FINE))
            rewards.append(reward)
        return Transitions(np.array(rows), np.array(rewards), True)


def learned(toy: str, name: str, budget: int, shuffles: bool = False, seed: int = 0):
    player = DirectPlayer(toy, budget, shuffles)
    algorithm = make_algorithm(name, player.spaces, seed)
    learn_by_playing(algorithm, player, BATCH[name])
    assert player.remaining == 0
    return algorithm.best_guess


def examine(toy: str, actor) -> float:
    player = DirectPlayer(toy, 0)
    return float(
        np.mean([play_episode(player.task, player.spaces, actor, player.seed(case)).total for case in EXAMINATION])
    )


@pytest.mark.parametrize(
    ("toy", "name", "budget"),
    [
        ("Tracking", "ppo", 240),
        ("Sorting", "ppo", 240),
        pytest.param("Tracking", "sac", 40, marks=pytest.mark.slow),
        pytest.param("Sorting", "sac", 40, marks=pytest.mark.slow),
    ],
)
def test_it_learns_but_not_from_shuffled_rewards(toy, name, budget):
    good, bad = (examine(toy, learned(toy, name, budget, shuffles)) for shuffles in (False, True))
    assert good > bad + 1.0, (good, bad)


@pytest.mark.parametrize("name", BATCH)
def test_same_seed_same_weights(name):
    first, again, other = (learned("Tracking", name, 16, seed=seed).weights for seed in (1, 1, 2))
    assert all(np.array_equal(first[key], again[key]) for key in first)
    assert not np.array_equal(first["w0"], other["w0"])


@pytest.mark.parametrize("toy", ["Tracking", "Sorting"])
@pytest.mark.parametrize("name", BATCH)
def test_what_was_played_follows_from_the_observations(toy, name):
    """The recording has clipped actions; the noise is drawn again instead."""
    player = DirectPlayer(toy, 8)
    actor = make_algorithm(name, player.spaces, 0).actor
    episode = player.play(actor, player.seed(3))
    replayed = actor.replayed(episode.features[:-1])
    assert np.allclose(np.tanh(replayed) if actor.squashes else replayed, player.controls)


def test_gradients_are_those_of_small_changes():
    random = np.random.default_rng(0)
    network = TrainableNetwork([3, 5, 4, 2], random, 0.1)
    rows, slope = random.normal(size=(6, 3)), random.normal(size=(6, 2))
    network.forward(rows)
    to_inputs = network.backward(slope)
    for array, gradient in [*zip(network.parameters, network.gradients, strict=True), (rows, to_inputs)]:
        place = tuple(random.integers(size) for size in array.shape)
        array[place] += 1e-6
        above = float((network.forward(rows) * slope).sum())
        array[place] -= 2e-6
        below = float((network.forward(rows) * slope).sum())
        array[place] += 1e-6
        assert gradient[place] == pytest.approx((above - below) / 2e-6, abs=1e-6)


def test_advantages_of_exact_values_are_zero():
    rewards = np.array([1.0, -2.0, 0.5])
    assert discounted(rewards)[0] == pytest.approx(1.0 - 2.0 * 0.99 + 0.5 * 0.99**2)
    assert np.allclose(advantages_of(rewards, np.append(discounted(rewards), 0.0)), 0.0)
