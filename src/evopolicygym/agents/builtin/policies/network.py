"""A network from the observation to the action; its numbers are in weights.npz."""

from pathlib import Path

import numpy as np
from actor import Actor
from features import FINE, action_maker, entries

with np.load(Path(__file__).with_name("weights.npz")) as file:
    ACTOR = Actor(dict(file))


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.obs_space, self.make_action = obs_space, action_maker(action_space)

    def reset(self, episode_index):
        ACTOR.reset()

    def act(self, obs):
        return self.make_action(ACTOR.controls(entries(self.obs_space, obs, FINE)))
