"""A rhythm: every control follows a sine wave of one common frequency with its own size, phase and offset.

The waves grow over the first period, so that the start does not throw the body over.
"""

import json
from pathlib import Path

import numpy as np
from features import action_maker

SETTINGS = json.loads(Path(__file__).with_name("parameters.json").read_text())


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.make_action = action_maker(action_space)
        self.turn = 2.0 * np.pi * SETTINGS["frequency"]  # per step
        self.sine, self.cosine, self.offset = (np.array(SETTINGS[name]) for name in ("sine", "cosine", "offset"))

    def reset(self, episode_index):
        self.step = 0

    def act(self, obs):
        angle = self.turn * self.step
        self.step += 1
        effort = min(1.0, angle / (2.0 * np.pi))
        wave = self.sine * np.sin(angle) + self.cosine * np.cos(angle)
        return self.make_action(effort * (self.offset + wave))
