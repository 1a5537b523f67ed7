"""Drives an error in the observation to zero, with a Jacobian that was learned from trajectories.

The error changes in one step by J(x) @ motion, where motion is a velocity per control (which the control then pushes to
the wanted value) or, where there is none, the control itself. J is linear in products of some entries x.
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
        self.error, self.velocity, self.basis, self.live = (
            np.array(SETTINGS[name], dtype=int) for name in ("error", "velocity", "basis", "live")
        )
        self.jacobian = np.array(SETTINGS["jacobian"])
        self.push, self.rate, self.gain = (np.array(SETTINGS[name]) for name in ("push", "rate", "gain"))
        self.damping, self.limit = SETTINGS["damping"], SETTINGS["limit"]

    def reset(self, episode_index):
        pass

    def act(self, obs):
        x = entries(self.obs_space, obs)
        wanted = self.rate * self.motion_to_zero(x)
        wanted *= min(1.0, self.limit / max(np.abs(wanted / self.push).max(), 1e-9))
        controls = np.zeros(self.width)
        controls[self.live] = self.gain * (wanted - x[self.velocity]) / self.push if len(self.velocity) else wanted
        return self.make_action(controls)

    def motion_to_zero(self, x):
        """Damped least squares: exact where the Jacobian is well conditioned, modest where it is not."""
        jacobian = self.jacobian @ products(x[self.basis])
        square = jacobian.T @ jacobian
        ridge = self.damping * max(np.trace(square) / len(square), 1e-12)
        return np.linalg.solve(square + ridge * np.eye(len(square)), -jacobian.T @ x[self.error])


def products(x):
    """1, every entry, and every product of two."""
    upper = np.triu_indices(len(x))
    return np.concatenate([[1.0], x, np.outer(x, x)[upper]])
