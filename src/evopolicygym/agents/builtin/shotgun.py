"""An agent that learns nothing: it submits random linear policies, one train episode each, and reads no feedback.

Its score is what hidden validation finds among guesses. An agent that scores no more has not used its feedback.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

import numpy as np
from numpy.random import Generator

from .api_client import ApiClient, RunOver, ServerUnreachable
from .evaluator import TRAIN_CASES, Spaces, TunerPolicy, normalisation, write_policy

POLICIES: Final = 64


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policies", type=int, default=POLICIES)
    policies = parser.parse_args().policies
    seed = int(os.environ.get("EVOPOLICYGYM_SEED") or 0) % 2**31
    api = ApiClient(f"shotgun-{seed}")
    try:
        submit_policies(api, policies, seed)
    except RunOver as closed:
        print(f"shotgun: {closed}")
    except ServerUnreachable as error:
        print(f"shotgun: {error}", file=sys.stderr)
        return 1
    return 0


def submit_policies(api: ApiClient, policies: int, seed: int) -> None:
    """Submit the same policies in the same order at every start, so that a restart continues where the last one
    ended."""
    info = api.info()
    spaces = Spaces(info["env_meta"]["obs_space"], info["env_meta"]["action_space"])
    random = np.random.default_rng(seed)
    for number in range(min(policies, info["episode_budget"])):
        write_policy(linear(spaces, random), api.system)
        reply = api.submit([number % TRAIN_CASES])
        print(f"shotgun: {reply.submit_id} {reply.status}, {reply.remaining} episodes left", flush=True)


def linear(spaces: Spaces, random: Generator) -> TunerPolicy:
    """Return a linear policy with weights and bias drawn from the normal distribution."""
    mean, scale = normalisation(spaces.observation)
    weights = random.normal(size=(spaces.controls, len(mean)))
    numbers = {"mean": mean, "scale": scale, "weights": weights, "bias": random.normal(size=spaces.controls)}
    return TunerPolicy("linear", {name: np.round(value, 6).tolist() for name, value in numbers.items()})


if __name__ == "__main__":
    sys.exit(main())
