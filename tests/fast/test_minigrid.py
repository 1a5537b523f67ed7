"""The certificate of the fast MiniGrid environments."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificate import certify, pair, same

REQUIRES = ("minigrid",)
TASKS = {  # the longest episode of each
    "MiniGrid-DoorKey-16x16-v0": 2560,
    "MiniGrid-KeyCorridorS4R3-v0": 480,
    "MiniGrid-FourRooms-v0": 100,
    "MiniGrid-ObstructedMaze-1Q-v1": 720,
}
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
EMPTY, WALL, DOOR, KEY, BALL, BOX, GOAL = 1, 2, 4, 5, 6, 7, 8
OPEN, CLOSED, LOCKED = range(3)


class Explorer:
    """The competent one: it maps, searches, moves obstacles, and solves all four tasks."""

    def __init__(self) -> None:
        path = Path(__file__).parents[1] / "oracles" / "minigrid" / "policy.py"
        spec = importlib.util.spec_from_file_location("minigrid_oracle", path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.policy = module.Policy()

    def __call__(self, rng: np.random.Generator, observation: Any, t: int) -> int:
        if t == 0:
            self.policy.reset(0)
        return int(self.policy.act(observation))


class Meddler:
    """Does something to whatever it meets: opens and shuts doors, lifts, drops and opens things. Notes what it met."""

    def __init__(self) -> None:
        self.met: set[tuple[str, int, int]] = set()

    def __call__(self, rng: np.random.Generator, observation: Any, t: int) -> int:
        (kind, _, state), (carried, _, _) = observation["image"][3, 5].tolist(), observation["image"][3, 6].tolist()
        self.met |= {("faced", kind, state), ("carried", carried, 0)}
        choices = {
            DOOR: [TOGGLE, TOGGLE, FORWARD, FORWARD, DROP],
            BOX: [PICKUP, TOGGLE, FORWARD, LEFT],
            EMPTY: [FORWARD] * 8 + [DROP, TOGGLE, LEFT, RIGHT],
            WALL: [LEFT, RIGHT, LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE],
        }.get(kind, [PICKUP, PICKUP, TOGGLE, DROP, FORWARD, LEFT, RIGHT])
        return int(rng.choice(choices))


def uniform(rng: np.random.Generator, observation: Any, t: int) -> np.int64:
    return rng.integers(7)


def into_walls(rng: np.random.Generator, observation: Any, t: int) -> int:
    return FORWARD if t % 40 else int(rng.integers(2))


def spinning(rng: np.random.Generator, observation: Any, t: int) -> int:
    return (LEFT, RIGHT)[t // 9 % 2]


def idle(rng: np.random.Generator, observation: Any, t: int) -> int:
    return DONE


def hands_only(rng: np.random.Generator, observation: Any, t: int) -> np.uint8:
    return np.uint8(rng.choice([LEFT, PICKUP, DROP, TOGGLE]))


STREAMS = {
    "uniform": lambda: uniform,
    "explorer": Explorer,
    "meddler": Meddler,
    "into walls": lambda: into_walls,
    "spinning": lambda: spinning,
    "idle": lambda: idle,
    "hands only": lambda: hands_only,
}


def episodes(env_id: str, stream: Any, seeds: range) -> list[int]:
    """Lengths of episodes of one pair that is reset again and again; the worlds must agree in the end, too."""
    stock, fast = envs = pair(env_id, REQUIRES)
    lengths = []
    for seed in seeds:
        lengths.append(certify(env_id, stream, seed, TASKS[env_id], reuse=envs))
        same(world(stock.unwrapped), world(fast.unwrapped), "world")
    return lengths


def world(env: Any) -> Any:
    return env.agent_pos, env.agent_dir, [described(item) for item in [env.carrying, *env.grid.grid]]


def described(item: Any) -> Any:
    """All that an object of the world has, and what it contains."""
    return item and (type(item), vars(item) | {"contains": described(item.contains)})


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("env_id", TASKS)
def test_equal_to_the_bit(env_id, name):
    lengths = episodes(env_id, STREAMS[name](), range(2))
    if name == "explorer":
        assert max(lengths) < TASKS[env_id], "not solved"
    if name in ("spinning", "idle"):
        assert min(lengths) == TASKS[env_id], "not truncated"


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("env_id", TASKS)
def test_equal_to_the_bit_in_many_episodes(env_id, name, record_property):
    lengths = episodes(env_id, STREAMS[name](), range(1000, 1030 if name in ("spinning", "idle") else 1100))
    record_property("episodes", len(lengths))
    record_property("steps", sum(lengths))


@pytest.mark.parametrize("env_id", TASKS)
def test_each_episode_in_a_new_environment(env_id):
    for seed in range(3):
        certify(env_id, Explorer(), 50 + seed, 60, REQUIRES)


def test_the_certified_episodes_cover_every_kind_of_cell():
    """In what was certified above, every kind of cell was faced and every thing that can be carried was."""
    meddler = Meddler()
    for env_id in TASKS:
        episodes(env_id, meddler, range(2))
    doors = {("faced", DOOR, state) for state in (OPEN, CLOSED, LOCKED)}
    cases = {("faced", kind, 0) for kind in (EMPTY, KEY, BALL, BOX, WALL, GOAL)}
    assert meddler.met >= doors | cases | {("carried", kind, 0) for kind in (EMPTY, KEY, BALL, BOX)}


@pytest.mark.parametrize("env_id", TASKS)
def test_resets_without_a_seed(env_id):
    stock, fast = pair(env_id, REQUIRES)
    stock.reset(seed=4), fast.reset(seed=4)
    for _ in range(5):
        same(stock.reset(), fast.reset(), "reset")
        for action in (FORWARD, FORWARD, PICKUP, LEFT, TOGGLE):
            same(stock.step(action), fast.step(action), "step")


@pytest.mark.parametrize("options", [{}, {"agent_pov": True}, {"highlight": False, "tile_size": 8}])
@pytest.mark.parametrize("env_id", TASKS)
def test_the_same_frames(env_id, options):
    stock, fast = pair(env_id, REQUIRES, render_mode="rgb_array", **options)
    (expected, _), _ = stock.reset(seed=9), fast.reset(seed=9)
    explorer = Explorer()
    for t in range(12):
        same(stock.render(), fast.render(), f"frame {t}")
        action = explorer(np.random.default_rng(0), expected, t)
        expected = stock.step(action)[0]
        same(expected, fast.step(action)[0], f"observation {t}")


@pytest.mark.parametrize("options", [{"agent_view_size": 5}, {"see_through_walls": True}])
def test_unusual_view_sizes_use_the_stock_environment(options):
    envs = pair("MiniGrid-FourRooms-v0", REQUIRES, **options)
    assert type(envs[0].unwrapped) is type(envs[1].unwrapped)
    certify("MiniGrid-FourRooms-v0", uniform, 3, 50, reuse=envs)


@pytest.mark.parametrize("action", [7, np.int64(-1), "left"])
def test_impossible_actions_raise_the_same_error_as_in_stock(action):
    messages = []
    for env in pair("MiniGrid-DoorKey-16x16-v0", REQUIRES):
        env.reset(seed=0)
        with pytest.raises(ValueError) as error:
            env.step(action)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
