"""A linear controller: controls = weights @ normalised entries of the observation + bias."""

import json
from pathlib import Path

import numpy as np
from features import action_maker, entries

SETTINGS = json.loads(Path(__file__).with_name("parameters.json").read_text())


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.obs_space, self.make_action = obs_space, action_maker(action_space)
        self.mean, self.scale, self.weights, self.bias = (
            np.array(SETTINGS[name]) for name in ("mean", "scale", "weights", "bias")
        )

    def reset(self, episode_index):
        pass

    def act(self, obs):
        normal = (entries(self.obs_space, obs) - self.mean) / self.scale
        return self.make_action(self.weights @ normal + self.bias)
