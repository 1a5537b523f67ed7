"""Acrobot-v1: stock and fast, side by side, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from certificate import certify, pair, same

ENV = "Acrobot-v1"


def uniform(rng: Any, obs: Any, t: int) -> Any:
    return rng.integers(3)


def backwards(rng: Any, obs: Any, t: int) -> Any:
    return 0


def nothing(rng: Any, obs: Any, t: int) -> Any:
    return 1


def forwards(rng: Any, obs: Any, t: int) -> Any:
    return 2


def bang_bang(rng: Any, obs: Any, t: int) -> Any:
    return 2 * ((t // 7) % 2)


def swing(rng: Any, obs: Any, t: int) -> Any:
    """Push the way the joint turns: pumps energy until the goal is reached."""
    return 2 if obs[5] > 0 else 0


STREAMS = (uniform, backwards, nothing, forwards, bang_bang, swing)


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.__name__)
def test_episodes_are_equal_to_the_bit(stream: Any) -> None:
    lengths = [certify(ENV, stream, seed, horizon=501) for seed in range(6)]
    assert stream is not swing or max(lengths) < 500
    assert stream is not nothing or min(lengths) == 500


def configured(**settings: Any) -> tuple[Any, Any]:
    envs = pair(ENV)
    for env in envs:
        for name, value in settings.items():
            setattr(env.unwrapped, name, value)
    return envs


SETTINGS = ({"book_or_nips": "nips"}, {"torque_noise_max": 0.7}, {"dt": 0.05}, {"LINK_MASS_2": 1.3, "LINK_MOI": 0.9})


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: next(iter(settings)))
def test_configured_environments_are_equal_to_the_bit(settings: Any) -> None:
    certify(ENV, uniform, seed=1, horizon=300, reuse=configured(**settings))


def wild(seeds: range) -> int:
    """Starts anywhere: the first angles are wrapped several times and the velocities cut at their bounds."""
    steps, envs, rng = 0, pair(ENV), np.random.default_rng(seeds.start)
    for seed in seeds:
        same(*(env.reset(seed=seed, options={"low": -30, "high": 30}) for env in envs), "reset")
        for t in range(60):
            action = uniform(rng, None, t)
            expected, actual = (env.step(action) for env in envs)
            same(expected, actual, f"seed {seed} step {t}")
            same(*(env.unwrapped.state for env in envs), f"seed {seed} step {t} state")
            steps += 1
            if expected[2]:
                break
    return steps


def test_wild_starts() -> None:
    wild(range(40))


def test_one_object_many_resets() -> None:
    envs = pair(ENV)
    for seed in (0, 1, 2, 0):
        certify(ENV, swing, seed, horizon=501, reuse=envs)


def test_video_frames() -> None:
    envs = pair(ENV, render_mode="rgb_array")
    for env in envs:
        env.reset(seed=0)
    for t in range(30):
        same(*(env.render() for env in envs), f"frame {t}")
        same(*(env.step(bang_bang(None, None, t)) for env in envs), f"step {t}")


@pytest.mark.slow
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.__name__)
def test_many_episodes(stream: Any) -> None:
    lengths = [certify(ENV, stream, seed, horizon=501) for seed in range(1000, 1200)]
    print(f"{stream.__name__}: {len(lengths)} episodes, {sum(lengths)} steps")


@pytest.mark.slow
def test_many_wild_starts() -> None:
    print(f"wild: 4000 episodes, {wild(range(5000, 9000))} steps")
