"""Features and actions of the trainings have the bits that a submitted policy computes."""

from __future__ import annotations

import gymnasium.spaces as gym_spaces
import numpy as np
import pytest

from evopolicygym.agents.builtin.policies.features import FINE, action_maker, entries, width
from evopolicygym.baselines.encoding import actions_maker, feature_count, feature_writer
from evopolicygym.baselines.rollouts import spaces_of
from evopolicygym.tasks import simulator
from evopolicygym.tasks.registry import core16, find_task
from evopolicygym.tasks.spaces import json_safe, schema_of

UNUSUAL = [
    gym_spaces.Box(-1.0, 1.0, (), np.float32),
    gym_spaces.Box(0, 255, (24, 30, 3), np.uint8),
    gym_spaces.Box(-1.0, 1.0, (2, 3), np.float64),
    gym_spaces.Discrete(5, start=-2),
    gym_spaces.Discrete(5000),
    gym_spaces.MultiDiscrete([2, 3]),
    gym_spaces.MultiBinary(4),
    gym_spaces.Tuple((gym_spaces.Discrete(3), gym_spaces.Box(-1.0, 1.0, (2,), np.float32))),
    gym_spaces.Dict(a=gym_spaces.Text(5), b=gym_spaces.Dict(c=gym_spaces.Discrete(3), d=gym_spaces.MultiBinary(2))),
    gym_spaces.Dict({key: gym_spaces.Box(-1, 1, (2, 2), np.float32) for key in ("achieved_goal", "desired_goal")}),
]


def written(space, observation):
    row = np.full(feature_count(space), np.nan)
    feature_writer(space)(observation, row)
    return row


@pytest.mark.parametrize("name", list(core16()))
def test_features_are_those_of_a_submitted_policy(name):
    task = find_task(name)
    space, env = spaces_of(task).observation, simulator.make(task)
    observation = simulator.reset(env, 3)
    for _ in range(5):
        assert written(space, observation).tobytes() == entries(space, observation, FINE).tobytes()
        observation, *_ = env.step(env.action_space.sample())
    env.close()


@pytest.mark.parametrize("space", UNUSUAL, ids=str)
def test_features_of_any_space(space):
    space.seed(0)
    schema = json_safe(schema_of(space))
    for _ in range(5):
        observation = space.sample()
        assert written(schema, observation).tobytes() == entries(schema, observation, FINE).tobytes()


@pytest.mark.parametrize("task", ["core16/half-cheetah", "core16/car-racing", "core16/acrobot"])
def test_actions_are_those_of_a_submitted_policy(task):
    assert_same_actions(spaces_of(find_task(task)).action)


@pytest.mark.parametrize(
    "space", [gym_spaces.Box(-3.0, 1.0, (2, 2), np.float64), *UNUSUAL[3:4], *UNUSUAL[5:8]], ids=str
)
def test_actions_of_any_space(space):
    assert_same_actions(json_safe(schema_of(space)))


def assert_same_actions(space):
    rows = np.random.default_rng(0).normal(size=(50, width(space)))
    make = action_maker(space)
    for controls, action in zip(rows, actions_maker(space)(rows), strict=True):
        submitted = make(controls)
        assert type(action) is type(submitted)
        parts = zip(action, submitted, strict=True) if isinstance(action, tuple) else [(action, submitted)]
        for first, second in parts:
            assert np.array_equal(first, second) and np.asarray(first).dtype == np.asarray(second).dtype
