"""BipedalWalker-v3: stock and fast, side by side, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from certificate import certify, pair, same
from gymnasium.envs.box2d.bipedal_walker import BipedalWalkerHeuristics

ENV = "BipedalWalker-v3"


def uniform(rng: Any, obs: Any, t: int) -> Any:
    return rng.uniform(-1, 1, size=4).astype(np.float32)


def zero(rng: Any, obs: Any, t: int) -> Any:
    return np.zeros(4, dtype=np.float32)


def bang_bang(rng: Any, obs: Any, t: int) -> Any:
    return rng.choice([-1.0, 1.0], size=4).astype(np.float32)


def held(rng: Any, obs: Any, t: int) -> Any:
    """All motors one way for a while, then the other: falls on its back, or backwards off the left end."""
    return np.full(4, 1 if t % 120 < 60 else -1, dtype=np.float32)


def tiny(rng: Any, obs: Any, t: int) -> Any:
    """Torques that round, negative zero, denormal numbers."""
    return np.array([rng.normal() * 1e-4, -0.0, 1e-42, rng.normal() * 1e-38], dtype=np.float32)


def out_of_bounds(rng: Any, obs: Any, t: int) -> Any:
    return rng.uniform(-3, 3, size=4).astype(np.float32)


def doubles(rng: Any, obs: Any, t: int) -> Any:
    return rng.uniform(-1.5, 1.5, size=4)


def integers(rng: Any, obs: Any, t: int) -> Any:
    return rng.integers(-2, 3, size=4)


def half_precision(rng: Any, obs: Any, t: int) -> Any:
    return rng.uniform(-1.5, 1.5, size=4).astype(np.float16)


def listed(rng: Any, obs: Any, t: int) -> Any:
    return rng.uniform(-1.5, 1.5, size=4).tolist()


class Walker:
    """Gymnasium's own heuristic, which walks until it stumbles, at times to the end of the terrain."""

    def __call__(self, rng: Any, obs: Any, t: int) -> Any:
        if t == 0:
            self.heuristic = BipedalWalkerHeuristics()
        return np.asarray(self.heuristic.step_heuristic(obs), dtype=np.float32).copy()


STREAMS = (uniform, zero, bang_bang, held, tiny, out_of_bounds, doubles, integers, half_precision, listed)


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.__name__)
def test_episodes_are_equal_to_the_bit(stream: Any) -> None:
    for seed in range(3):
        certify(ENV, stream, seed, horizon=500)


def test_walks_far_and_is_truncated() -> None:
    envs = pair(ENV)
    assert certify(ENV, Walker(), seed=0, horizon=1601, reuse=envs) == 1600
    assert envs[0].unwrapped.hull.position.x > 80


@pytest.mark.parametrize(("shift", "reward"), [(-5.3, -100), (84.5, None)], ids=["left", "right"])
def test_ends_of_the_terrain(shift: float, reward: int | None) -> None:
    envs = pair(ENV)
    for env in envs:
        env.reset(seed=0)
        for body in (env.unwrapped.hull, *env.unwrapped.legs):
            body.position = (body.position.x + shift, body.position.y)
    expected, actual = (env.step(uniform(np.random.default_rng(0), None, 0)) for env in envs)
    same(expected, actual, "end")
    assert expected[2] and (expected[1] == reward or reward is None)


@pytest.mark.parametrize("stream", [uniform, Walker()], ids=["uniform", "walker"])
def test_hardcore(stream: Any) -> None:
    for seed in range(2):
        certify(ENV, stream, seed, horizon=400, reuse=pair(ENV, hardcore=True))


def test_one_object_many_resets() -> None:
    envs = pair(ENV)
    for seed in (0, 1, 2, 3, 0):
        certify(ENV, uniform, seed, horizon=300, reuse=envs)


def test_video_frames() -> None:
    envs = pair(ENV, render_mode="rgb_array")
    for env in envs:
        env.reset(seed=5)
    walker = Walker()
    obs = np.zeros(24, dtype=np.float32)
    for t in range(150):
        action = walker(None, obs, t)
        expected, actual = (env.step(action) for env in envs)
        same(expected, actual, f"step {t}")
        if t < 25 or t % 10 == 0:  # the first frames show the lidar
            same(*(env.render() for env in envs), f"frame {t}")
        obs = expected[0]


@pytest.mark.slow
@pytest.mark.parametrize("stream", [*STREAMS, Walker()], ids=lambda stream: getattr(stream, "__name__", "walker"))
def test_many_episodes(stream: Any) -> None:
    lengths = [certify(ENV, stream, seed, horizon=1601) for seed in range(1000, 1040)]
    print(f"{len(lengths)} episodes, {sum(lengths)} steps")


@pytest.mark.slow
@pytest.mark.parametrize("stream", [uniform, bang_bang, Walker()], ids=["uniform", "bang_bang", "walker"])
def test_many_episodes_of_one_object(stream: Any) -> None:
    envs = pair(ENV)
    lengths = [certify(ENV, stream, seed, horizon=1601, reuse=envs) for seed in range(2000, 2030)]
    print(f"{len(lengths)} episodes of one object, {sum(lengths)} steps")


@pytest.mark.slow
def test_many_hardcore_episodes() -> None:
    lengths = [certify(ENV, Walker(), s, horizon=1601, reuse=pair(ENV, hardcore=True)) for s in range(3000, 3030)]
    print(f"hardcore: {len(lengths)} episodes, {sum(lengths)} steps")
