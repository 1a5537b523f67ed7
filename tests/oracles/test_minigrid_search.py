"""The search for shortest plans: they work in the simulator, and a search without any bound finds no shorter ones."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import gymnasium
import minigrid  # noqa: F401 (registers the environments)
import pytest

spec = importlib.util.spec_from_file_location(
    "minigrid_optimum", Path(__file__).parents[2] / "benchmarks" / "minigrid_optimum.py"
)
assert spec and spec.loader
optimum = importlib.util.module_from_spec(spec)
spec.loader.exec_module(optimum)
search = optimum.load_search()


class BreadthFirst(search.Search):
    def bound(self, state):
        return 0


@pytest.mark.parametrize(
    "env_id",
    [
        "MiniGrid-FourRooms-v0",
        "MiniGrid-DoorKey-6x6-v0",
        "MiniGrid-KeyCorridorS4R3-v0",
        "MiniGrid-ObstructedMaze-1Dlh-v0",
        "MiniGrid-ObstructedMaze-1Dlhb-v0",
    ],
)
def test_plans_work_and_none_is_shorter(env_id):
    env = gymnasium.make(env_id)
    for seed in range(2):
        env.reset(seed=seed)
        level = optimum.true_level(search, env)
        shortest = len(BreadthFirst(level).plan())
        assert len(search.Search(level).plan()) == shortest
        assert optimum.best_return(search, env) == pytest.approx(1 - 0.9 * shortest / env.unwrapped.max_steps)
