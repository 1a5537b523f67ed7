#!/usr/bin/env python3
"""An agent in Python: a random search over linear policies that climbs from the best one found so far.

    python examples/agents/random_search.py                          Acrobot, 64 training episodes
    python examples/agents/random_search.py --budget 16 --seed 3 --folder runs/mine

It plays any task with a flat observation and a Discrete or flat Box action. `docs/python.md` explains the API.
"""

from __future__ import annotations

import argparse
import random
from typing import Any

import evopolicygym

CASES = [0, 1, 2, 3]
POLICY = '''\
import numpy as np

WEIGHTS = np.array({weights})


class Policy:
    """Linear in the observation: the largest of the outputs, or the outputs themselves."""

    def __init__(self, obs_space, action_space, env_meta):
        self.action = action_space

    def reset(self, episode_index):
        pass

    def act(self, obs):
        outputs = WEIGHTS @ np.append(np.ravel(obs), 1.0)
        if self.action["type"] == "Discrete":
            return int(np.argmax(outputs)) + self.action.get("start", 0)
        return np.tanh(outputs).reshape(self.action["shape"])
'''


def random_search(workspace: evopolicygym.Workspace) -> None:
    """Draw weights around the best ones, submit, and keep what is better."""
    draw = random.Random(workspace.seed)
    meta = workspace.info()["env_meta"]
    inputs, outputs = size(meta["obs_space"]) + 1, size(meta["action_space"])
    best, best_mean = [[0.0] * inputs for _ in range(outputs)], float("-inf")
    while workspace.remaining >= len(CASES):
        weights = [[round(weight + draw.gauss(0, 1), 3) for weight in row] for row in best]
        workspace.policy.write_text(POLICY.format(weights=weights))
        feedback = workspace.submit(CASES)
        print(feedback.submit_id, feedback.status, feedback.mean, flush=True)
        if feedback.mean is not None and feedback.mean > best_mean:
            best, best_mean = weights, feedback.mean


def size(space: dict[str, Any]) -> int:
    """Return how many numbers an observation has, or how many outputs an action needs."""
    if space["type"] == "Discrete":
        return int(space["n"])
    count = 1
    for length in space["shape"]:
        count *= length
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="core16/acrobot")
    parser.add_argument("--budget", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", help="default: a new one in runs/")
    options = parser.parse_args()
    run = evopolicygym.run(
        options.task, random_search, budget=options.budget, seed=options.seed, folder=options.folder,
        progress=lambda step: print(f"{step.phase}: {step.charged} of {step.budget} episodes, {step.best_train_mean}"),
    )  # fmt: skip
    print(f"{run.folder}: {run.outcome}, held-out score {run.score}")


if __name__ == "__main__":
    main()
