"""parking-v0 and roundabout-v0: stock and fast, side by side, to the bit."""

from __future__ import annotations

import copy
import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from certificate import Stream, certify, pair, same

pytest.importorskip("highway_env")

from highway_env import utils
from highway_env.road.lane import PolyLaneFixedWidth, StraightLane
from highway_env.road.road import RoadNetwork
from highway_env.vehicle.kinematics import Vehicle

from evopolicygym.fast.highway import arithmetic
from evopolicygym.fast.highway.cars import Body
from evopolicygym.fast.highway.lanes import FastNetwork, compile_lane

PARKING, ROUNDABOUT = "parking-v0", "roundabout-v0"
NEEDS = ("highway_env",)
HORIZON = {PARKING: 500, ROUNDABOUT: 11}
LEFT, IDLE, RIGHT, FASTER, SLOWER = range(5)

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date.*")


@pytest.fixture(autouse=True)
def seeded_reset_action(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset draws an unseeded action and reports a reward term for it (``lane_change_reward``): draw the same one."""
    monkeypatch.setattr(gymnasium.spaces.Discrete, "sample", lambda self, *args, **options: np.int64(IDLE))


def drive(throttle: float, steering: float) -> Any:
    return np.array([throttle, steering], dtype=np.float32)


def always(action: Any) -> Stream:
    return lambda rng, obs, t: action


# Parking


def uniform(rng: Any, obs: Any, t: int) -> Any:
    return rng.uniform(-1, 1, 2).astype(np.float32)


def parker(rng: Any, obs: Any, t: int) -> Any:
    """Turns towards the line through the goal, then along it; succeeds in six of seven episodes."""
    _, _, vx, vy, c, s = obs["observation"] * [100, 100, 5, 5, 1, 1]
    offset, side = 100 * (obs["desired_goal"][0] - obs["observation"][0]), obs["desired_goal"][5]
    turn = (math.atan2(side, offset / 3) - math.atan2(s, c) + math.pi) % (2 * math.pi) - math.pi
    speed = 3.5 if abs(turn) < 1 else 2.0
    return np.clip(drive(speed - vx * c - vy * s, 1.5 * turn), -1, 1)


def reversing(rng: Any, obs: Any, t: int) -> Any:
    return drive(-1, 0.2 * math.sin(t))


def circling(rng: Any, obs: Any, t: int) -> Any:
    """A small circle that never ends; float64."""
    return np.array([0.2 if t < 5 else 0.0, 1.0])


def beyond_bounds(rng: Any, obs: Any, t: int) -> Any:
    return rng.uniform(-3, 3, 2)


def bang_bang(rng: Any, obs: Any, t: int) -> Any:
    return rng.choice([-1.0, 1.0], 2).astype(np.float32)


# Roundabout


def any_action(rng: Any, obs: Any, t: int) -> Any:
    return int(rng.integers(5))


def careful(rng: Any, obs: Any, t: int) -> Any:
    """Fast where nobody is near, slow otherwise."""
    near = [np.hypot(*(row[1:3] - obs[0][1:3])) < 0.2 for row in obs[1:] if row[0]]
    return np.int64(SLOWER if any(near) else FASTER)


def weaving(rng: Any, obs: Any, t: int) -> Any:
    return np.int64(LEFT if t % 2 else RIGHT)


def blocking(rng: Any, obs: Any, t: int) -> Any:
    """Into the circle, then standing there: the others brake, change lanes and crash."""
    return FASTER if t < 4 else SLOWER


# "still" stays exactly between two spots, where the closest lane is a tie, to the time limit.
STREAMS: dict[str, dict[str, Stream]] = {
    PARKING: {f.__name__: f for f in (uniform, parker, reversing, circling, beyond_bounds, bang_bang)}
    | {"still": always(drive(0, 0)), "into_wall": always(drive(1, 0))},
    ROUNDABOUT: {f.__name__: f for f in (any_action, careful, weaving, blocking)}
    | {"rushing": always(FASTER), "stopping": always(SLOWER), "idling": always(IDLE)},
}
RANDOM: dict[str, Stream] = {PARKING: uniform, ROUNDABOUT: any_action}
EVERY = [(env_id, name) for env_id in STREAMS for name in STREAMS[env_id]]
APART = {"road", "lane", "goal", "history", "log"}  # other objects, compared on their own or not in use
CAST = {
    "lane_index": lambda index: (*index[:2], int(index[2])),
    "target_lane_index": lambda index: (*index[:2], int(index[2])),
    "timer": float,
    "action": lambda action: sorted(action.items()),
}


def state(env: Any) -> list[dict[str, Any]]:
    """All that a vehicle or object keeps from step to step, apart from the type of some inner numbers."""
    road = env.unwrapped.road
    for body in road.vehicles:
        assert body.lane is road.network.get_lane(body.lane_index)
    return [
        {"type": type(body)}
        | {name: CAST.get(name, lambda x: x)(x) for name, x in vars(body).items() if name not in APART}
        for body in (*road.vehicles, *road.objects)
    ]


def compare(stock: Any, fast: Any, actions: list[Any]) -> None:
    """Step both and compare all that a step returns and all that the vehicles keep, also after the end."""
    for t, action in enumerate(actions):
        same(stock.step(action), fast.step(action), f"step {t}")
        same(state(stock), state(fast), f"state after step {t}")


def certify_states(stream: Stream, seed: int, horizon: int, both: tuple[Any, Any]) -> int:
    """The certificate, and the same state of all vehicles before every action and at the end.

    Observations of the roundabout are rounded to float32; the states are not.
    """

    def checked(rng: Any, obs: Any, t: int) -> Any:
        same(*map(state, both), f"state before step {t}")
        return stream(rng, obs, t)

    steps = certify(both[0].spec.id, checked, seed, horizon, reuse=both)
    same(*map(state, both), "state at the end")
    return steps


@pytest.mark.parametrize(("env_id", "name"), EVERY)
def test_short_episodes_are_equal_to_the_bit(env_id: str, name: str) -> None:
    certify_states(STREAMS[env_id][name], 3, 60, pair(env_id, NEEDS))


@pytest.mark.parametrize("env_id", STREAMS)
def test_reused_objects(env_id: str) -> None:
    both = pair(env_id, NEEDS)
    for seed, stream in enumerate([*STREAMS[env_id].values()][:4]):
        certify_states(stream, seed, 12, both)


@pytest.mark.parametrize("seed", [0, 4, 8])
def test_traffic_continues_after_the_end_of_the_episode(seed: int) -> None:
    """Crashed vehicles, vehicles that leave the road, and lanes that end."""
    stock, fast = pair(ROUNDABOUT, NEEDS)
    same(stock.reset(seed=seed)[0], fast.reset(seed=seed)[0], "reset")
    compare(stock, fast, [FASTER, RIGHT, LEFT, *[IDLE] * 12])


def test_the_car_drives_on_after_the_end_of_the_episode() -> None:
    """Into a wall, and on: pushed out of it, stopping."""
    stock, fast = pair(PARKING, NEEDS)
    same(stock.reset(seed=5)[0], fast.reset(seed=5)[0], "reset")
    compare(stock, fast, [drive(1, 0)] * 40)


def test_driving_over_the_goal_marks_it() -> None:
    """Driving over the goal marks it: a rendering shows that."""
    both = pair(PARKING, NEEDS)
    certify_states(parker, 1, 60, both)
    assert both[1].unwrapped.vehicle.goal.hit


def scramble(env: Any, rng: Any) -> None:
    """Crowd the circle: vehicles close together, changing lanes, on and off their routes, some without any."""
    road = env.unwrapped.road
    indices = [index for index, lane in road.network.lanes_dict().items() if lane.length < 25]
    near = indices[rng.integers(len(indices))]
    for vehicle in road.vehicles:
        index = near if rng.random() < 0.6 else indices[rng.integers(len(indices))]
        lane = road.network.get_lane(index)
        along = rng.uniform(0, lane.length)
        vehicle.position[:] = lane.position(along, rng.normal())
        vehicle.heading = lane.heading_at(along) + 0.1 * rng.normal()
        vehicle.speed = rng.choice([0.0, 0.5, 8.0, 16.0, 45.0]).item()
        vehicle.on_state_update()
        side = road.network.all_side_lanes(vehicle.lane_index)
        vehicle.target_lane_index = side[rng.integers(len(side))]
        vehicle.plan_route_to(rng.choice(["exr", "sxr", "nxr", "wxr", "nowhere"]).item())
        if rng.random() < 0.3:
            vehicle.route = [(*vehicle.lane_index[:2], int(rng.integers(len(side)))), *vehicle.route[1:]]
        elif rng.random() < 0.3:
            vehicle.route = None
        vehicle.timer, vehicle.enable_lane_change = 2 * rng.random(), bool(rng.random() < 0.9)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(100, 400))])
def test_crowded_roundabouts_are_equal_to_the_bit(seed: int) -> None:
    stock, fast = pair(ROUNDABOUT, NEEDS)
    for env in (stock, fast):
        env.reset(seed=seed)
        scramble(env, np.random.default_rng(seed))
    compare(stock, fast, np.random.default_rng(seed).integers(5, size=2).tolist())


def test_a_vehicle_in_the_centre_of_the_roundabout() -> None:
    """All circular lanes are equally close there, up to rounding."""
    stock, fast = pair(ROUNDABOUT, NEEDS)
    for env in (stock, fast):
        env.reset(seed=0)
        vehicle = env.unwrapped.road.vehicles[1]
        vehicle.position[:], vehicle.speed = 0.0, 0.0
    compare(stock, fast, [IDLE, IDLE])


@pytest.mark.parametrize("throttle", [-1, 1])
def test_speed_limits(throttle: float) -> None:
    stock, fast = pair(PARKING, NEEDS, config={"action": {"type": "ContinuousAction", "speed_range": (-2.0, 1.0)}})
    for env in (stock, fast):
        env.reset(seed=0)
    compare(stock, fast, [drive(throttle, 0.3)] * 15)


def test_human_rendering() -> None:
    _, fast = pair(PARKING, NEEDS)
    drawn: list[bool] = []
    fast.reset(seed=0)
    fast.unwrapped.render_mode, fast.unwrapped.render = "human", lambda: drawn.append(True)
    fast.step(drive(0, 0))
    assert drawn


def kinematics(**options: Any) -> dict[str, Any]:
    return {"observation": {"type": "Kinematics", **options}}


def goal(features: str, scales: list[int]) -> dict[str, Any]:
    return {"observation": {"type": "KinematicsGoal", "features": features.split(), "scales": scales}}


CONFIGS: list[tuple[str, dict[str, Any]]] = [
    (ROUNDABOUT, {"neighbour_vehicles_connected_lanes": True}),
    (ROUNDABOUT, {"show_trajectories": True}),
    (ROUNDABOUT, {"other_vehicles_type": "highway_env.vehicle.behavior.AggressiveVehicle"}),
    (ROUNDABOUT, {"action": {"type": "DiscreteAction"}}),
    (ROUNDABOUT, {"policy_frequency": 5, "duration": 2}),
    (ROUNDABOUT, kinematics()),
    (ROUNDABOUT, kinematics(absolute=True)),
    (ROUNDABOUT, kinematics(absolute=True, features=["x", "cos_h"])),
    (ROUNDABOUT, kinematics(absolute=True, vehicles_count=8, clip=False, features_range={"x": [0, 9]})),
    (ROUNDABOUT, kinematics(absolute=True, see_behind=True, features_range={"presence": [0, 2], "vy": [-1, 1]})),
    (PARKING, {"vehicles_count": 3}),
    (PARKING, {"add_walls": False, "policy_frequency": 15}),
    (PARKING, {"duration": 0.4}),
    (PARKING, {"show_trajectories": True}),
    (PARKING, {"action": {"type": "ContinuousAction", "dynamical": True}}),
    (PARKING, goal("x y vx vy cos_h sin_h", [1, 1, 5, 5, 1, 1])),
    (PARKING, goal("y x vx vy cos_h sin_h", [100, 100, 5, 5, 1, 1])),
]


@pytest.mark.parametrize(("env_id", "config"), CONFIGS, ids=str)
def test_other_configurations(env_id: str, config: dict[str, Any]) -> None:
    """Those that the fast version does not cover run as stock."""
    stock, fast = pair(env_id, NEEDS, config=config)
    rng, stream = np.random.default_rng(1), RANDOM[env_id]
    same(stock.reset(seed=1)[0], fast.reset(seed=1)[0], "reset")
    for t in range(3):
        action = stream(rng, None, t)
        same(stock.step(action), fast.step(action), f"step {t}")


def test_lanes_that_are_not_covered() -> None:
    assert compile_lane(("a", "b", 0), StraightLane([0, 0], [0, 9]))
    assert not compile_lane(("a", "b", 0), StraightLane([0, 0], [0, 9], forbidden=True))
    assert not compile_lane(("a", "b", 0), StraightLane([0, 0], [3, 4]))
    assert not compile_lane(("a", "b", 0), PolyLaneFixedWidth([(0, 0), (0, 5), (0, 9)]))


@pytest.mark.parametrize("env_id", STREAMS)
def test_frames(env_id: str) -> None:
    """Also between the steps: a viewer draws every sub-step, the state must be there."""
    stock, fast = pair(env_id, NEEDS, render_mode="rgb_array")
    drawn: dict[str, list[Any]] = {"stock": [], "fast": []}
    for name, env in (("stock", stock), ("fast", fast)):
        env.reset(seed=2)
        display = env.unwrapped.render
        env.unwrapped.render = lambda name=name, display=display: drawn[name].append(display())
        rng = np.random.default_rng(0)
        env.unwrapped.render()
        for t in range(4):
            env.step(RANDOM[env_id](rng, None, t))
            env.unwrapped.render()
    assert len(drawn["stock"]) > 10
    same(drawn["stock"], drawn["fast"], "frames")


@pytest.mark.parametrize("env_id", STREAMS)
def test_a_deep_copy_continues_equally(env_id: str) -> None:
    _, fast = pair(env_id, NEEDS)
    fast.reset(seed=6)
    rng = np.random.default_rng(0)
    fast.step(RANDOM[env_id](rng, None, 0))
    twin = copy.deepcopy(fast.unwrapped)
    for t in range(4):
        action = RANDOM[env_id](rng, None, t)
        same(fast.unwrapped.step(action), twin.step(action), f"step {t}")


@pytest.mark.parametrize("env_id", STREAMS)
def test_closest_lane(env_id: str) -> None:
    """Anywhere, on and near lanes, and where lanes are equally close."""
    _, fast = pair(env_id, NEEDS)
    fast.reset(seed=0)
    network = fast.unwrapped.road.network
    assert type(network) is FastNetwork
    rng, lanes, decided = np.random.default_rng(7), network.lanes_list(), 0
    for i in range(1500):
        lane = lanes[rng.integers(len(lanes))]
        along = rng.uniform(-5, lane.length + 5)
        position = lane.position(along, rng.normal()) if i % 2 else rng.uniform(-180, 180, 2)
        heading = float(lane.heading_at(along) + rng.normal()) if i % 4 else float(rng.uniform(-9, 9))
        position = np.round(position) if i % 10 == 0 else position
        expected = RoadNetwork.get_closest_lane_index(network, position, heading)
        assert network.get_closest_lane_index(position, heading) == expected
        guess = network.roads.lanes[expected if i % 3 else list(network.roads.lanes)[i % len(lanes)]]
        closest = network.roads.closest(*position.tolist(), heading, guess)
        assert closest is None or closest.index == expected
        decided += closest is not None
    assert decided > 1400


def test_closest_lane_of_odd_positions() -> None:
    _, fast = pair(ROUNDABOUT, NEEDS)
    fast.reset(seed=0)
    network = fast.unwrapped.road.network
    for position in ([0.0, 0.0], [math.nan, 0.0], [1e9, 3.0], [24.0, 0.0], [0.0, -22.0]):
        for heading in (0.0, math.pi / 2, None):
            expected = RoadNetwork.get_closest_lane_index(network, np.array(position), heading)
            assert network.get_closest_lane_index(np.array(position), heading) == expected


def test_cars_that_are_clear_do_not_collide() -> None:
    rng, clear = np.random.default_rng(3), 0
    for _ in range(3000):
        first, second = (Vehicle(None, rng.uniform(-4, 4, 2), rng.uniform(-4, 4), rng.uniform(-20, 40)) for _ in "ab")
        intersecting = utils.are_polygons_intersecting(
            first.polygon(), second.polygon(), first.velocity / 15, second.velocity / 15
        )[:2]
        if Body(first).clear_of(Body(second), 1 / 15):
            clear += 1
            assert intersecting == (False, False)
    assert 300 < clear < 2700


def test_arithmetic_is_equal_to_numpy_to_the_bit() -> None:
    rng, pairs = np.random.default_rng(5), arithmetic.Pairs()
    for _ in range(5000):
        first, second = rng.uniform(-150, 150, 2), rng.uniform(-2, 2, 2)
        x, y = first.tolist()
        assert pairs.norm(x, y) == np.linalg.norm(first)
        assert pairs.dot(x, y, *second.tolist()) == np.dot(first, second)
        assert arithmetic.arctan2(y, x) == np.arctan2(first[1], first[0])
        assert (arithmetic.sin(x), arithmetic.cos(x), arithmetic.tan(x)) == (
            np.sin(first[0]),
            np.cos(first[0]),
            np.tan(first[0]),
        )
        assert arithmetic.square(x) == np.power(first[0], 2)
        assert (x + math.pi) % arithmetic.TAU - math.pi == utils.wrap_to_pi(first[0])
        assert arithmetic.not_zero(x / 1e4) == utils.not_zero(first[0] / 1e4)
        assert arithmetic.clip(x, -9.0, 9.0) == np.clip(first[0], -9.0, 9.0)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("env_id", "name"), EVERY)
def test_many_long_episodes_are_equal_to_the_bit(env_id: str, name: str) -> None:
    episodes = 4 if name in ("still", "circling") else 60
    seeds, stream = range(1000, 1000 + episodes), STREAMS[env_id][name]
    steps = sum(certify_states(stream, seed, HORIZON[env_id], pair(env_id, NEEDS)) for seed in seeds)
    print(f"{env_id} {name}: {episodes} episodes, {steps} steps")
