"""Generated control tasks: drawn the same from the same key, and worth solving."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evopolicygym.tasks.novel import control
from evopolicygym.tasks.novel.control import ControlWorld, Goal
from evopolicygym.tasks.novel.measure import returns

LEVELS = (1, 2, 3, 4)


def world_of(level: int, key: int = 0) -> ControlWorld:
    return control.draw(np.random.default_rng(key), level)


def constants(world: ControlWorld) -> tuple[bytes, ...]:
    values = [*vars(world.system).values(), world.sensors, world.offset, world.colour]
    return tuple(np.asarray(value).tobytes() for value in values if not isinstance(value, Goal))


@pytest.mark.parametrize("level", LEVELS)
def test_a_key_draws_one_world_and_another_key_another(level):
    first, again, other = world_of(level), world_of(level), world_of(level, 1)
    assert constants(first) == constants(again) and first.texts() == again.texts()
    shared = set(constants(first)) & set(constants(other)) - {np.asarray(delay).tobytes() for delay in range(5)}
    assert not shared  # a delay has few values; nothing else may be equal


@pytest.mark.parametrize("level", LEVELS)
def test_an_episode_repeats_to_the_bit_within_its_spaces(level):
    world = world_of(level)
    actions = np.random.default_rng(1).uniform(-1, 1, (world.horizon, len(world.system.push))).astype(np.float32)
    episodes = []
    for _ in range(2):
        env = world.make()
        observation, _ = env.reset(seed=7)
        steps = [(observation, 0.0, False)]
        for action in actions:
            observation, reward, _, truncated, _ = env.step(action)
            assert env.observation_space.contains(observation) and 0.0 <= reward <= 1.0
            steps.append((observation, reward, truncated))
        episodes.append([(observation.tobytes(), *rest) for observation, *rest in steps])
    assert episodes[0] == episodes[1]
    assert [truncated for *_, truncated in episodes[0]] == [False] * world.horizon + [True]


def test_the_motion_is_the_one_in_the_text():
    """Against the formulas of the full text, written out, with its delay."""
    world = next(world for key in range(99) if (world := world_of(3, key)).system.delay == 2)
    system, env = world.system, world.make()
    env.reset(seed=3)
    place, speed = env.motion.position.copy(), env.motion.velocity.copy()
    actions = np.random.default_rng(2).uniform(-1, 1, (6, len(system.push)))
    for step, action in enumerate(actions, 1):
        observation, reward, *_ = env.step(action)
        acting = actions[step - 3] if step > 2 else np.zeros(len(system.push))
        bent = system.well * np.sin(system.wave * place)
        speed = speed + control.STEP_S * (place @ system.pull + bent - system.friction * speed + acting @ system.push)
        place = place + control.STEP_S * speed
        error = float(place @ system.driven) - system.wanted(step)
        worth = 0.7 * math.exp(-((error / system.width) ** 2) / 2) + 0.3 / (1 + error**2)
        assert math.isclose(reward, worth, rel_tol=1e-6)
        measured = np.concatenate((place, speed, (system.wanted(step),))) @ world.sensors + world.offset
        np.testing.assert_allclose(observation, measured, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_the_expert_is_far_above_doing_nothing(level):
    world = next(world for key in range(99) if (world := world_of(level, key)).system.goal is Goal.TRACK)
    nothing = np.zeros(len(world.system.push), np.float32)
    (idle,), (expert,) = returns(world, lambda _: lambda _: nothing, [1]), returns(world, world.expert, [1])
    assert expert > idle + 20.0


def test_the_picture_shows_the_state():
    env = world_of(2).make("rgb_array")
    env.reset(seed=1)
    first = env.render()
    for _ in range(20):
        env.step(np.ones(1, np.float32))
    assert first.shape == (240, 360, 3) and first.dtype == np.uint8 and not np.array_equal(first, env.render())
