"""Feedback from chosen entries of the observation, saturated: small weights are linear, large ones switch.

drive = tanh(weights @ normalised entries + bias), controls = offset + mixing @ drive.
"""

import json
from pathlib import Path

import numpy as np
from features import action_maker, entries

SETTINGS = json.loads(Path(__file__).with_name("parameters.json").read_text())


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.obs_space, self.make_action = obs_space, action_maker(action_space)
        self.used = np.array(SETTINGS["used"], dtype=int)
        names = ("mean", "scale", "weights", "bias", "mixing", "offset")
        self.mean, self.scale, self.weights, self.bias, self.mixing, self.offset = (
            np.array(SETTINGS[name]) for name in names
        )

    def reset(self, episode_index):
        pass

    def act(self, obs):
        normal = (entries(self.obs_space, obs)[self.used] - self.mean) / self.scale
        drive = np.tanh(self.weights @ normal + self.bias)
        return self.make_action(self.offset + self.mixing @ drive)
