"""Play one run with a search method or an RL algorithm.

A restarted process repeats the same submissions in the same order, and so continues the run.
"""

from __future__ import annotations

import argparse
import os
import sys

from ..api_client import ApiClient, RunOver, ServerUnreachable
from ..tuner.evaluator import Spaces
from .api_player import ApiPlayer
from .methods import METHODS, make_method
from .networks import Moments, NetworkShape, sees_images
from .rl import BATCH, learn_by_playing, make_algorithm
from .search import IMAGE_CASES, SearchState, actor_of, confirm, search

POPULATION = 12


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", choices=[*METHODS, *BATCH])
    parser.add_argument("--hidden", type=int, default=0, help="units of a hidden layer; 0 for a linear policy")
    parser.add_argument("--population", type=int, default=POPULATION, help="candidates of a generation")
    options = parser.parse_args()
    seed = int(os.environ.get("EVOPOLICYGYM_SEED") or 0) % 2**31
    api = ApiClient(f"{options.method}-{seed}")
    try:
        info = api.info()
        spaces = Spaces(info["env_meta"]["obs_space"], info["env_meta"]["action_space"])
        player = ApiPlayer(api, spaces, info["episode_budget"])
        if options.method in BATCH:
            learn_by_playing(make_algorithm(options.method, spaces, seed), player, BATCH[options.method])
        else:
            play_search(player, spaces, options.method, seed, options.hidden, options.population)
    except RunOver as closed:
        print(f"{options.method}: done: {closed}")
    except ServerUnreachable as error:
        print(f"{options.method}: {error}", file=sys.stderr)
        return 1
    return 0


def play_search(player: ApiPlayer, spaces: Spaces, name: str, seed: int, hidden: int, population: int) -> None:
    """Search until the budget is spent. Raises RunOver if it is spent before the end."""
    shape = NetworkShape.of(spaces, (hidden,) if hidden else ())
    method = make_method(name, shape.parameters, seed, population)
    state = SearchState(Moments.of(spaces))
    guesses = list(search(method, player, shape, state, IMAGE_CASES if sees_images(spaces.observation) else 1))
    centre = actor_of(shape, method.centre, state.moments.normalisation())
    confirm(player, guesses[-1] if guesses else centre)  # a budget too small for one generation is spent all the same


if __name__ == "__main__":
    sys.exit(main())
