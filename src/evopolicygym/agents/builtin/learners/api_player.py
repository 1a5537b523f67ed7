"""Plays actors over the API of a run: each is one submission, within the budget."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ..api_client import ApiClient, RunOver
from ..tuner.evaluator import FEEDBACK_WAIT_S, Spaces, rows_of
from ..tuner.policies.features import FINE, entries
from .networks import write_actor
from .policies.actor import Actor, Vector
from .search import Rollouts, Transitions

EVERY: Final = 8  # steps, of which one is read: enough for the statistics of observations


class ApiPlayer:
    """``budget`` is the budget at the start of the run, also after a restart: the repeated submissions return the same
    results."""

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
