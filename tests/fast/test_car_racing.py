"""CarRacing-v3: stock and fast, side by side, to the bit: every pixel of every frame."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pygame
import pytest
from certificate import certify, pair, same

ENV = "CarRacing-v3"


def act(steer: float, gas: float, brake: float) -> Any:
    return np.array([steer, gas, brake], dtype=np.float32)


def uniform(rng: Any, obs: Any, t: int) -> Any:
    return act(rng.uniform(-1, 1), rng.uniform(0, 1), rng.uniform(0, 1))


def zero(rng: Any, obs: Any, t: int) -> Any:
    return act(0, 0, 0)


def full_gas(rng: Any, obs: Any, t: int) -> Any:
    """Straight off the road and out of the playfield."""
    return act(0, 1, 0)


def left_then_right(rng: Any, obs: Any, t: int) -> Any:
    return act(1 if t % 80 < 40 else -1, 1, 0)


def all_at_once(rng: Any, obs: Any, t: int) -> Any:
    return act(-1, 1, 1)


def spinning(rng: Any, obs: Any, t: int) -> Any:
    """Fast, then steer and brake hard: skids, on grass and road, and the wheels block."""
    return act(0.1, 1, 0) if t % 120 < 90 else act(rng.choice([-1.0, 1.0]), 0, rng.choice([0.4, 0.9, 1.0]))


def out_of_bounds(rng: Any, obs: Any, t: int) -> Any:
    """Actions outside the space, which stock takes as they are."""
    return act(rng.uniform(-3, 3), rng.uniform(-1, 2), rng.uniform(-1, 2) if rng.random() < 0.3 else 0)


class Driver:
    """Drives on the road: steers at a tile ahead, with an eye on the speed. Finishes most laps."""

    def __init__(self, env: Any) -> None:
        self.env = env.unwrapped

    def __call__(self, rng: Any, obs: Any, t: int) -> Any:
        hull, track = self.env.car.hull, np.array(self.env.track)[:, 2:]
        x, y = hull.position
        nearest = int(np.argmin(np.hypot(track[:, 0] - x, track[:, 1] - y)))
        ahead, far = track[(nearest + 4) % len(track)], track[(nearest + 12) % len(track)]
        error = turn(hull.angle, ahead - (x, y))
        speed = math.hypot(*hull.linearVelocity)
        wanted = 55 - 25 * min(1.0, abs(turn(hull.angle, far - (x, y))))
        return act(np.clip(-2 * error, -1, 1), 0.6 if speed < wanted else 0, 0.3 if speed > wanted + 10 else 0)


def turn(heading: float, towards: Any) -> float:
    """Return the angle from the direction of the car to another one, in (-pi, pi]."""
    angle = math.atan2(-towards[0], towards[1]) - heading
    return math.remainder(angle, 2 * math.pi)


STREAMS = (uniform, zero, full_gas, left_then_right, all_at_once, spinning, out_of_bounds)


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.__name__)
def test_episodes_are_equal_to_the_bit(stream: Any) -> None:
    certify(ENV, stream, seed=3, horizon=90)


def test_driver_makes_progress() -> None:
    envs = pair(ENV)
    certify(ENV, Driver(envs[0]), seed=5, horizon=220, reuse=envs)
    assert envs[0].unwrapped.tile_visited_count > 40


def test_one_object_many_resets() -> None:
    envs = pair(ENV)
    for seed in (1, 2, 1):
        certify(ENV, spinning, seed, horizon=25, reuse=envs)


def test_lap_finished() -> None:
    assert certify(ENV, full_gas, 0, horizon=30, reuse=pair(ENV, lap_complete_percent=0.0)) == 1


def test_playfield_left() -> None:
    envs = pair(ENV)
    for env in envs:
        env.reset(seed=0)
    place(envs, 340.0, 10.0, 0.3)
    expected, actual = (env.step(act(0, 1, 0)) for env in envs)
    same(expected, actual, "outside")
    assert expected[1] == -100 and expected[2]


def test_discrete_actions() -> None:
    def stream(rng: Any, obs: Any, t: int) -> int:
        return int(rng.choice(5, p=[0.1, 0.2, 0.2, 0.4, 0.1]))

    certify(ENV, stream, seed=4, horizon=70, reuse=pair(ENV, continuous=False))


def test_domain_randomize() -> None:
    envs = pair(ENV, domain_randomize=True)
    certify(ENV, uniform, seed=6, horizon=15, reuse=envs)
    for randomize in (True, False):
        same(*(env.reset(options={"randomize": randomize}) for env in envs), f"randomize {randomize}")
        same(*(env.step(act(0, 1, 0)) for env in envs), f"randomize {randomize}")


def test_video_frames() -> None:
    envs = pair(ENV, render_mode="rgb_array")
    assert [env.unwrapped.render() for env in envs] == [None, None]
    for env in envs:
        env.reset(seed=8)
    rng = np.random.default_rng(8)
    for t in range(125):
        action = spinning(rng, None, t)
        same(*(env.step(action) for env in envs), f"step {t}")
        if t % 10 == 9:
            same(*(env.render() for env in envs), f"frame {t}")
    assert envs[0].unwrapped.car.particles


def test_state_pixels_mode() -> None:
    envs = pair(ENV, render_mode="state_pixels")
    assert [env.unwrapped.render() for env in envs] == [None, None]
    for env in envs:
        env.reset(seed=8)
    same(*(env.render() for env in envs), "frame")


def place(envs: Any, x: float, y: float, angle: float) -> None:
    for env in envs:
        env.unwrapped.car.hull.position = (x, y)
        env.unwrapped.car.hull.angle = angle


def frames(envs: Any, where: str) -> None:
    same(*(env.unwrapped._render("state_pixels") for env in envs), where)


def views(envs: Any, seed: int, count: int) -> None:
    """The car anywhere (on the road, at the edge of the field, outside), any way round, at any time of the zoom."""
    rng = np.random.default_rng(seed)
    for env in envs:
        env.reset(seed=seed)
    track = np.array(envs[0].unwrapped.track)[:, 2:]
    for i in range(count):
        x, y = rng.uniform(-420, 420, size=2) if i % 2 else track[rng.integers(len(track))] + rng.normal(0, 20, size=2)
        square = rng.integers(-8, 9) * math.pi / 2 + rng.choice([0, 0, 1e-7, -2e-6, 1e-3])
        angle = rng.uniform(-9, 9) if i % 3 else square
        place(envs, x, y, angle)
        now = float(rng.choice([0.0, 0.02, 0.3, 1.0])) if i % 5 == 0 else 7.0
        for env in envs:
            env.unwrapped.t = now
        frames(envs, f"view {i} {x} {y} {angle}")


def test_rendered_views_are_equal() -> None:
    views(pair(ENV), seed=9, count=80)


def test_indicators_beyond_their_bar() -> None:
    envs = pair(ENV)
    for env in envs:
        env.reset(seed=1)
    for value in (0.0, 1e-5, 1.0001e-4, 3.0, 100.0, 399.9, 450.0, 3000.0, 4e4):
        for signed in (value, -value):
            for env in envs:
                car = env.unwrapped.car
                car.hull.linearVelocity = (signed, value / 3)
                car.hull.angularVelocity = signed / 50
                for wheel, factor in zip(car.wheels, (1, -1, 0.5, 2), strict=True):
                    wheel.omega, wheel.phase = signed * factor, signed * factor / 7
                env.unwrapped.reward = signed
            frames(envs, f"indicators {signed}")


def test_pygame_quit_in_between() -> None:
    envs = pair(ENV)
    for env in envs:
        env.reset(seed=2)
    pygame.quit()
    for t in range(3):
        same(*(env.step(act(0.2, 1, 0)) for env in envs), f"step {t}")


@pytest.mark.slow
@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.__name__)
def test_many_episodes(stream: Any) -> None:
    lengths = [certify(ENV, stream, seed, horizon=1001 if seed < 1003 else 250) for seed in range(1000, 1027)]
    print(f"{stream.__name__}: {len(lengths)} episodes, {sum(lengths)} steps")


@pytest.mark.slow
def test_many_laps() -> None:
    lengths, envs = [], pair(ENV)
    for seed in range(2000, 2020):
        lengths.append(certify(ENV, Driver(envs[0]), seed, horizon=1001, reuse=envs))
    assert min(lengths) < 1000, "no lap was finished"
    print(f"driver: {len(lengths)} episodes of one object, {sum(lengths)} steps")


@pytest.mark.slow
def test_many_views() -> None:
    for seed in range(3000, 3020):
        views(pair(ENV), seed, count=200)
    print("views: 4000 frames")
