"""Observations and actions of any space as vectors, for the policies of the tuner."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from evopolicygym.agents.builtin.policies import features
from evopolicygym.tasks.spaces import json_safe, schema_of

GOALS = spaces.Dict({name: spaces.Box(-np.inf, np.inf, (3,)) for name in ("achieved_goal", "desired_goal")})
SPACES = [
    spaces.Box(-1.0, 1.0, (3,)),
    spaces.Box(np.array([0.0, -np.inf]), np.array([np.inf, 7.0]), dtype=np.float64),
    spaces.Box(-2.0, 2.0, (2, 2)),
    spaces.Box(0, 255, (96, 96, 3), np.uint8),
    spaces.Discrete(4, start=-1),
    spaces.Discrete(1000),
    spaces.MultiDiscrete([2, 3, 4], start=[0, 1, 2]),
    spaces.MultiBinary(5),
    spaces.Tuple((spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,)))),
    spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Tuple((spaces.MultiBinary(2), spaces.Box(0.0, 1.0, (1,))))}),
    GOALS,
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_control_is_an_action_and_back(space):
    """Also from the schema in /info, where infinities are text."""
    schema = json_safe(schema_of(space))
    for seed in range(5):
        controls = np.random.default_rng(seed).normal(size=features.width(schema)) * 2.0
        action = features.action_maker(schema)(controls)
        assert space.contains(np.int64(action) if isinstance(action, int) else action)
        if space is not SPACES[3]:  # a picture's bytes are rounded
            again = features.action_maker(schema)(features.controls_of(schema, action))
            assert str(again) == str(action)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_entry_has_a_kind(space):
    space.seed(0)
    schema = schema_of(space)
    entries = features.entries(schema, space.sample())
    assert entries.ndim == 1 and len(entries) == len(features.entry_kinds(schema)) <= 1000


def test_goals_get_their_difference():
    seen = {"achieved_goal": np.array([1.0, 2.0, 3.0]), "desired_goal": np.array([1.0, 1.0, 1.0])}
    assert features.entries(schema_of(GOALS), seen)[-3:].tolist() == [0.0, 1.0, 2.0]
