"""The certificate of the fast Fetch environments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from certificate import Oracle, certify, pair, physics, same

from evopolicygym.tasks.simulator import opengl

REQUIRES = ("gymnasium_robotics",)
TASKS = {"FetchPush-v4": "fetch-push", "FetchPickAndPlace-v4": "fetch-pick-and-place"}
HORIZON = 50


def uniform(rng: np.random.Generator, observation: Any, t: int) -> Any:
    return rng.uniform(-1, 1, 4).astype(np.float32)


def saturated(rng: np.random.Generator, observation: Any, t: int) -> Any:
    return rng.choice([-1.0, 1.0], 4).astype(np.float32)


def out_of_bounds(rng: np.random.Generator, observation: Any, t: int) -> Any:
    """Return actions in double precision, as lists: they are clipped, and scaled in their own precision."""
    action = rng.normal(0, 3, 4)
    return action.tolist() if t % 2 else action


def nothing(rng: np.random.Generator, observation: Any, t: int) -> Any:
    return np.zeros(4, dtype=np.int64)


def stretched(rng: np.random.Generator, observation: Any, t: int) -> Any:
    """Return actions that move the gripper up and as far away from the robot as the arm goes."""
    return np.array([1, 1, 0.5, 1], dtype=np.float32)


def hammering(rng: np.random.Generator, observation: Any, t: int) -> Any:
    """Down onto the cube and the table, again and again, with the fingers opening and shutting."""
    aside = 10 * observation["observation"][6:8]
    return np.array([*aside, 1.0 if t % 9 < 3 else -1.0, 1.0 if t % 4 < 2 else -1.0], dtype=np.float32)


def sweeping(rng: np.random.Generator, observation: Any, t: int) -> Any:
    """Low over the table through the cube, which topples and may fall off."""
    hand, cube = observation["observation"][:3], observation["observation"][3:6]
    through = 1.0 if t % 16 < 8 else -1.0
    return np.array([through, 20 * (cube[1] - hand[1]), 20 * (cube[2] + 0.01 - hand[2]), -1.0], dtype=np.float32)


STREAMS = {
    "oracle": lambda env_id: Oracle(TASKS[env_id]),
    "uniform": lambda _: uniform,
    "saturated": lambda _: saturated,
    "out of bounds": lambda _: out_of_bounds,
    "nothing": lambda _: nothing,
    "stretched": lambda _: stretched,
    "hammering": lambda _: hammering,
    "sweeping": lambda _: sweeping,
}


def episodes(envs: tuple[Any, Any], stream: Any, seeds: Iterable[int], horizon: int = HORIZON) -> list[int]:
    """Lengths of episodes of one pair that is reset again and again; the whole physics must agree in the end, too."""
    lengths = []
    for seed in seeds:
        lengths.append(certify(envs[0].spec.id, stream, seed, horizon, reuse=envs))
        stock, fast = (env.unwrapped for env in envs)
        same(physics(stock), physics(fast), "physics")
        same(stock.goal, fast.goal, "goal")
    return lengths


@pytest.fixture(scope="module", params=TASKS)
def envs(request):
    """Making one takes longer than playing it."""
    return pair(request.param, REQUIRES)


@pytest.mark.parametrize("name", STREAMS)
def test_equal_to_the_bit(envs, name):
    assert episodes(envs, STREAMS[name](envs[0].spec.id), range(2)) == [HORIZON] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("env_id", TASKS)
def test_equal_to_the_bit_in_many_episodes(env_id, name, record_property):
    stream = STREAMS[name](env_id)
    lengths = episodes(pair(env_id, REQUIRES), stream, range(1000, 1040))
    lengths += episodes(pair(env_id, REQUIRES, max_episode_steps=400), stream, range(2000, 2003), horizon=400)
    record_property("episodes", len(lengths))
    record_property("steps", sum(lengths))


@pytest.mark.parametrize("env_id", TASKS)
def test_long_episodes(env_id):
    assert episodes(pair(env_id, REQUIRES, max_episode_steps=250), sweeping, [7], horizon=250) == [250]


def test_the_oracle_earns_rewards(envs):
    """So that what is certified holds the cube in motion, gripped, and at the goal."""
    env, _ = envs
    oracle, seen = Oracle(TASKS[env.spec.id]), set()
    for seed in range(2):
        observation, _ = env.reset(seed=seed)
        for t in range(HORIZON):
            observation, reward, _, _, info = env.step(oracle(np.random.default_rng(0), observation, t))
            seen.add((float(reward), float(info["is_success"])))
    assert seen == {(-1.0, 0.0), (0.0, 1.0)}


@pytest.mark.parametrize("env_id", TASKS)
def test_dense_rewards_and_resets_without_a_seed(env_id):
    stock, fast = pair(env_id, REQUIRES, reward_type="dense")
    stock.reset(seed=4), fast.reset(seed=4)
    rng = np.random.default_rng(4)
    for _ in range(3):
        same(stock.reset(), fast.reset(), "reset")
        for t in range(10):
            action = uniform(rng, None, t)
            same(stock.step(action), fast.step(action), "step")


@pytest.mark.skipif(opengl() is None, reason="no headless OpenGL")
@pytest.mark.parametrize("env_id", TASKS)
def test_the_same_frames(env_id, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", opengl())
    stock, fast = pair(env_id, REQUIRES, render_mode="rgb_array")
    (observation, _), _ = stock.reset(seed=9), fast.reset(seed=9)
    oracle = Oracle(TASKS[env_id])
    for t in range(5):
        same(stock.render(), fast.render(), f"frame {t}")
        action = oracle(np.random.default_rng(0), observation, t)
        step = stock.step(action)
        same(step, fast.step(action), f"step {t}")
        observation = step[0]
    for env in (stock, fast):
        env.close()


def test_angles_of_any_rotation():
    """Through gimbal lock as well, which no simulated cube hits to the bit."""
    from gymnasium_robotics.utils.rotations import euler2mat, mat2euler

    from evopolicygym.fast.fetch import _euler

    rng = np.random.default_rng(0)
    matrices = [euler2mat(rng.uniform(-np.pi, np.pi, 3)) for _ in range(2000)]
    matrices += [
        np.array([[0.0, 0, s], [a, b, 0], [-s * b, s * a, 0]]) for s in (-1, 1) for a in (0, 1) for b in (0, 1)
    ]
    matrices += [np.eye(3), -np.eye(3), np.full((3, 3), 6e-16), np.full((3, 3), 7e-16)]
    for matrix in matrices:
        same(mat2euler(matrix), _euler(matrix.reshape(9)), f"{matrix}")


def test_a_wrong_shape_raises_the_same_error_as_in_stock(envs):
    for env in envs:
        env.reset(seed=0)
        with pytest.raises(ValueError, match="Action dimension mismatch"):
            env.step(np.zeros(3))
