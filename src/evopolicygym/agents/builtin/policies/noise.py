"""A fixed action with noise around it. Without noise it is a constant; with scores, a biased coin.

The noise follows from the first observation: the randomness of a policy differs from run to run, and a search with the
same seed is to be the same search.
"""

import json
from pathlib import Path

import numpy as np
from features import action_maker, entries, width

SETTINGS = json.loads(Path(__file__).with_name("parameters.json").read_text())


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.obs_space, self.make_action = obs_space, action_maker(action_space)
        self.width = width(action_space)
        self.bias = np.array(SETTINGS["bias"])
        self.spread = SETTINGS["spread"]
        self.hold = SETTINGS["hold"]

    def reset(self, episode_index):
        self.step = 0

    def act(self, obs):
        if self.step == 0:
            self.random = np.random.default_rng(list(entries(self.obs_space, obs).tobytes()))
        if self.step % self.hold == 0:
            self.noise = self.random.normal(size=self.width)
        self.step += 1
        return self.make_action(self.bias + self.spread * self.noise)
