"""An agent that learns nothing: it submits random linear policies, one train episode each, and reads no feedback.

Its score is what hidden validation finds among guesses. An agent that scores no more has not used its feedback.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from .api_client import ApiClient, RunOver, ServerUnreachable
from .cases import TRAIN_CASES
from .tuner.evaluator import Spaces, TunerPolicy, write_policy
from .tuner.policies.features import COARSE, Resolution, Vector, blocks, has_goals

POLICIES: Final = 64
WIDEST: Final = 1e3  # half the width of a Box; wider bounds tell nothing about typical values


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


def normalisation(space: dict[str, Any], resolution: Resolution = COARSE) -> tuple[Vector, Vector]:
    """Return centre and scale of each entry of an observation.

    Narrow ranges are stretched to -1 to 1, so that no entry is too small to matter; wide ones keep their scale. The
    centre is 0 and the scale 1 where the space has no useful bounds.
    """
    match space["type"]:
        case "Dict":
            parts = [normalisation(child, resolution) for child in space["spaces"].values()]
            if has_goals(space):
                parts.append(_unit(math.prod(space["spaces"]["desired_goal"]["shape"])))
            return _joined(parts)
        case "Tuple":
            return _joined([normalisation(child, resolution) for child in space["spaces"]])
        case "Discrete":
            return _unit(space["n"] if space["n"] <= resolution.largest else 1)
        case "Text":
            return _unit(0)
    size = math.prod(space["shape"])
    if size > resolution.largest:
        return _unit(blocks(np.zeros(space["shape"]), resolution.blocks).size)
    return _bounds(space, size) if space["type"] == "Box" else _unit(size)


def _bounds(space: dict[str, Any], size: int) -> tuple[Vector, Vector]:
    low, high = (np.broadcast_to(np.asarray(space[name], dtype=float), space["shape"]) for name in ("low", "high"))
    is_bounded = np.isfinite(low) & np.isfinite(high) & (high - low <= 2 * WIDEST) & (high > low)
    low, high = np.where(is_bounded, low, -1.0), np.where(is_bounded, high, 1.0)
    return ((low + high) / 2.0).reshape(size), np.minimum((high - low) / 2.0, 1.0).reshape(size)


def _unit(size: int) -> tuple[Vector, Vector]:
    return np.zeros(size), np.ones(size)


def _joined(parts: list[tuple[Vector, Vector]]) -> tuple[Vector, Vector]:
    return np.concatenate([mean for mean, _ in parts]), np.concatenate([scale for _, scale in parts])


if __name__ == "__main__":
    sys.exit(main())
