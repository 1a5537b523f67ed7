"""A policy that plays simply, and crashes on request: the corpus of `task check`, and the trivial baselines.

`probe.json` beside it says how: {"play": "zero" | "low" | "high" | "random" | "constant", "crash_at": STEP or null,
"repeat": which of many streams of random actions, "action": the constant}.
"""

import json
import os

import numpy as np


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        with open(os.path.join(os.path.dirname(__file__), "probe.json")) as file:
            settings = json.load(file)
        self.action_space = action_space
        self.play = settings["play"]
        self.crash_at = settings["crash_at"]
        self.action = settings.get("action")
        self.random = np.random.default_rng([settings.get("repeat", 0), int.from_bytes(os.urandom(8), "little")])
        self.steps = 0

    def reset(self, episode_index):
        self.steps = 0

    def act(self, obs):
        if self.steps == self.crash_at:
            raise RuntimeError(f"told to crash at step {self.steps}")
        self.steps += 1
        return self.action if self.play == "constant" else self.choose(self.action_space)

    def choose(self, space):
        if space["type"] == "Dict":
            return {key: self.choose(child) for key, child in space["spaces"].items()}
        if space["type"] == "Tuple":
            return tuple(self.choose(child) for child in space["spaces"])
        low, high = self.bounds(space)
        if space["type"] == "Discrete":
            return int(self.pick_integer(low, high))
        if space["dtype"].startswith("float"):
            return self.pick_real(low, high).astype(space["dtype"])
        return self.pick_integer(low, high)

    def bounds(self, space):
        """Lowest and highest action; unbounded directions are cut at 1."""
        if space["type"] == "Discrete":
            return space["start"], space["start"] + space["n"] - 1
        if space["type"] == "MultiBinary":
            return np.zeros(space["shape"], int), np.ones(space["shape"], int)
        if space["type"] == "MultiDiscrete":
            start = np.asarray(space["start"])
            return start, start + np.asarray(space["nvec"]) - 1
        low = np.broadcast_to(np.asarray(space["low"], float), space["shape"])
        high = np.broadcast_to(np.asarray(space["high"], float), space["shape"])
        return np.where(np.isfinite(low), low, -1.0), np.where(np.isfinite(high), high, 1.0)

    def pick_integer(self, low, high):
        if self.play == "random":
            return self.random.integers(low, np.asarray(high) + 1)
        return high if self.play == "high" else low

    def pick_real(self, low, high):
        choices = {"zero": np.clip(0.0, low, high), "low": low, "high": high}
        return np.asarray(choices[self.play]) if self.play in choices else self.random.uniform(low, high)
