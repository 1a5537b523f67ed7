"""Play one run with a search method or an RL algorithm.

A restarted process repeats the same submissions in the same order, and so continues the run.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ..api_client import ApiClient, RunOver, ServerUnreachable
from ..evaluator import FEEDBACK_WAIT_S, Spaces, rows_of
from ..policies.actor import Actor, Vector
from ..policies.features import FINE, entries
from .networks import Moments, NetworkShape, sees_images, write_actor
from .rl import BATCH, learn_by_playing, make_algorithm
from .search import IMAGE_CASES, Rollouts, SearchState, Transitions, actor_of, confirm, search
from .search_methods import METHODS, make_method

POPULATION: Final = 12
EVERY: Final = 8  # steps, of which one is read: enough for the statistics of observations


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


class ApiPlayer:
    """Plays actors over the API of a run, one submission each. ``budget`` is the budget at the start of the run, also
    after a restart: the repeated submissions return the same results."""

    def __init__(self, api: ApiClient, spaces: Spaces, budget: int) -> None:
        self._api, self._spaces = api, spaces
        self.remaining: float = budget

    def play(self, actors: Sequence[Actor], cases: list[int]) -> list[Rollouts]:
        """Submit each actor for the cases, or for as many of them as the budget allows. Raises RunOver."""
        return [self._rollouts(*self.submit(actor, cases)) for actor in actors]

    def submit(self, actor: Actor, cases: list[int]) -> tuple[Vector, Path]:
        """Submit one actor; return its returns, and the folder of its feedback."""
        if self.remaining <= 0:
            raise RunOver("the budget is spent")
        affordable = cases[: int(self.remaining)]
        write_actor(actor, self._api.system)
        reply = self._api.submit(affordable)
        self.remaining = reply.remaining
        mean = float(np.mean(reply.returns)) if reply.returns else float("nan")
        print(f"{reply.submit_id}: {reply.status}, mean {mean:.6g}, {reply.remaining} left", flush=True)
        returns = np.array(reply.returns) if reply.returns else np.full(len(affordable), -np.inf)
        return returns, self._api.feedback / reply.submit_id

    def record(self, actor: Actor, cases: list[int]) -> list[Transitions]:
        """Submit an actor and return its recorded episodes: none if the run shows no trajectories. Raises RunOver."""
        _, feedback = self.submit(actor, cases)
        return [self._read(path, 1) for path in recorded_episodes(feedback)]

    def _rollouts(self, returns: Vector, feedback: Path) -> Rollouts:
        episodes = [self._read(path, EVERY) for path in recorded_episodes(feedback)]
        rows = [episode.features for episode in episodes if len(episode.features)]
        return Rollouts(returns, np.concatenate(rows) if rows else np.zeros((0, 0)), 0)

    def _read(self, path: Path, every: int) -> Transitions:
        with np.load(path) as file:
            arrays = dict(file)
        space = self._spaces.observation
        observations = rows_of(space, "obs", arrays)[::every]
        features = [entries(space, observation, FINE) for observation in observations]
        return Transitions(np.array(features), arrays["reward"], bool(arrays["terminated"]))


def recorded_episodes(feedback: Path) -> list[Path]:
    """Return the archives of a submission, once they have arrived: the answer can come shortly before its feedback."""
    began = time.monotonic()
    while not (feedback / "summary.json").exists() and time.monotonic() - began < FEEDBACK_WAIT_S:
        time.sleep(0.02)
    return sorted((feedback / "episodes").glob("ep_*/episode.npz"))


if __name__ == "__main__":
    sys.exit(main())
