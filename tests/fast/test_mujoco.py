"""The certificate of the fast versions of Gymnasium's MuJoCo environments."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificate import Oracle, Stream, certify, pair, physics, same

from evopolicygym.tasks.simulator import opengl

HORIZONS = {"Reacher-v5": 50, "Pusher-v5": 100, "HalfCheetah-v5": 1000, "Ant-v5": 1000}
ENVS = list(HORIZONS)
Actions = Callable[[np.random.Generator, Any, int], Any]  # from a generator, the action space and the step


def pushing(rng: np.random.Generator, observation: Any, t: int) -> Any:
    """Turns the arm towards the puck, stretches and lowers it: it touches the puck and shoves it around."""
    base = np.array([0, -0.6, 0])
    wrist, puck = observation[14:17] - base, observation[17:20] - base
    turn = np.arctan2(puck[1], puck[0]) - np.arctan2(wrist[1], wrist[0])
    stretch = np.hypot(puck[0], puck[1]) - np.hypot(wrist[0], wrist[1])
    action = np.array([3 * turn, 4 * (wrist[2] + 0.3), 0, 4 * stretch, 0, 0, 0]) - 0.5 * observation[7:14]
    return np.clip(action, -2, 2).astype(np.float32)


COMPETENT: dict[str, Callable[[], Stream]] = {
    "Reacher-v5": lambda: Oracle("reacher"),
    "Pusher-v5": lambda: pushing,
    "HalfCheetah-v5": lambda: Oracle("half-cheetah"),
    "Ant-v5": lambda: Oracle("ant"),
}


def uniform(rng: np.random.Generator, space: Any, t: int) -> Any:
    return rng.uniform(space.low, space.high).astype(np.float32)


def clipped(rng: np.random.Generator, space: Any, t: int) -> Any:
    """Far out of bounds before the judge clips it: mostly corners of the space."""
    return np.clip(rng.normal(0, 4, space.shape).astype(np.float32), space.low, space.high)


def saturated(rng: np.random.Generator, space: Any, t: int) -> Any:
    """Return the largest actions: all one way for a while, then the other."""
    return (space.high if t % 40 < 25 else space.low).copy()


def nothing(rng: np.random.Generator, space: Any, t: int) -> Any:
    return np.full(space.shape, -0.0 if t % 2 else 0.0, dtype=np.float32)


def tiny(rng: np.random.Generator, space: Any, t: int) -> Any:
    """Squares that round, underflow and vanish; now and then one that does not."""
    sizes = rng.choice([1e-3, 1e-20, 1e-22, 1e-42, 1.0], space.shape)
    return (rng.normal(0, 1, space.shape) * sizes).astype(np.float32)


def out_of_bounds(rng: np.random.Generator, space: Any, t: int) -> Any:
    """Return actions outside of their bounds. MuJoCo clips them itself, but the penalty is that of the action as it was
    given."""
    return rng.normal(0, 5, space.shape).astype(np.float32)


def other_types(rng: np.random.Generator, space: Any, t: int) -> Any:
    """Return actions of types that the judge never passes: doubles, lists, integers, half precision, a strided view."""
    action = rng.uniform(-1.5, 1.5, space.shape)
    strided = np.repeat(action.astype(np.float32), 2)[::2]
    return (action, action.tolist(), rng.integers(-2, 3, space.shape), action.astype(np.float16), strided)[t % 5]


STREAMS: dict[str, Actions] = {
    stream.__name__: stream for stream in (uniform, clipped, saturated, nothing, tiny, out_of_bounds, other_types)
}
NAMES = ("competent", *STREAMS)


def stream_of(env: Any, name: str) -> Stream:
    if name == "competent":
        return COMPETENT[env.spec.id]()
    return lambda rng, observation, t: STREAMS[name](rng, env.action_space, t)


def episodes(envs: tuple[Any, Any], name: str, seeds: Iterable[int], horizon: int = 1000) -> list[int]:
    """Lengths of episodes of one pair that is reset again and again; the whole physics must agree in the end, too."""
    lengths = []
    for seed in seeds:
        lengths.append(certify(envs[0].spec.id, stream_of(envs[0], name), seed, horizon, reuse=envs))
        stock, fast = (env.unwrapped for env in envs)
        same(physics(stock), physics(fast), "physics")
        same(np.array(stock.data.cfrc_ext), np.array(fast.data.cfrc_ext), "forces")
    return lengths


@pytest.fixture(scope="module", params=ENVS)
def envs(request):
    """Also certifies that repeated resets forget alike."""
    return pair(request.param)


@pytest.mark.parametrize("name", NAMES)
def test_equal_to_the_bit(envs, name):
    assert min(episodes(envs, name, range(2), horizon=120)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("env_id", ENVS)
def test_equal_to_the_bit_in_many_episodes(env_id, name, record_property):
    """Also far beyond the horizon, where the arms have been everywhere and the ant has lain on its back."""
    lengths = episodes(pair(env_id), name, range(1000, 1000 + max(40, 20_000 // HORIZONS[env_id])))
    endless = {"terminate_when_unhealthy": False} if env_id == "Ant-v5" else {}
    lengths += episodes(pair(env_id, max_episode_steps=2000, **endless), name, range(2000, 2003), horizon=2000)
    record_property("episodes", len(lengths))
    record_property("steps", sum(lengths))


@pytest.mark.parametrize("env_id", ENVS)
def test_truncated_at_the_horizon(env_id):
    assert episodes(pair(env_id), "nothing", [3]) == [HORIZONS[env_id]]


def test_the_certified_policies_reach_their_goals():
    """So that what is certified holds a fingertip at its target, a shoved puck, and robots at a run."""
    ends = {env_id: played(env_id) for env_id in ENVS}
    assert np.hypot(*ends["Reacher-v5"][0][8:]) < 0.02
    assert np.hypot(*(ends["Pusher-v5"][0] - ends["Pusher-v5"][1])[17:19]) > 0.03
    assert ends["HalfCheetah-v5"][2] > 20 and ends["Ant-v5"][2] > 5


def played(env_id: str) -> tuple[Any, Any, float]:
    """Last and first observation of a competent episode, and how far it went."""
    _, env = pair(env_id)
    stream, rng = stream_of(env, "competent"), np.random.default_rng(0)
    first, _ = env.reset(seed=1)
    last, info = first, {}
    for t in range(min(400, HORIZONS[env_id])):
        last, _, _, _, info = env.step(stream(rng, last, t))
    return last, first, float(info.get("x_position", 0.0))


def test_ants_at_the_bounds_of_healthy_heights():
    """Endings at both bounds of the healthy heights, and none where they do not end the episode."""
    envs = pair("Ant-v5")
    for height in (0.199, 0.2, 0.201, 0.999, 1.0, 1.001, 3.0):
        for env in envs:
            env.reset(seed=0)
            state = env.unwrapped.init_qpos.copy()
            state[2] = height
            env.unwrapped.set_state(state, env.unwrapped.init_qvel)
        same(*(env.step(np.zeros(8, dtype=np.float32)) for env in envs), f"height {height}")
    lengths = episodes(envs, "clipped", range(3))
    assert min(lengths) < 1000
    assert episodes(pair("Ant-v5", terminate_when_unhealthy=False), "clipped", range(1)) == [1000]


@pytest.mark.parametrize("speed", [1e9, 1e160, 1e300, np.inf, np.nan])
def test_physics_that_explodes(envs, speed, tmp_path, monkeypatch):
    """MuJoCo resets a state that is not finite at the next step, and notes it in a file; huge squares overflow."""
    monkeypatch.chdir(tmp_path)
    for env in envs:
        env.reset(seed=0)
        env.unwrapped.data.qvel[:] = speed
    for t in range(3):
        action = np.zeros(envs[0].action_space.shape, dtype=np.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            same(*(env.step(action) for env in envs), f"step {t}")


def test_sums_of_squares_of_actions():
    from evopolicygym.fast.mujoco import squares

    rng = np.random.default_rng(0)
    for shape in [(2,), (6,), (7,), (8,), (14, 6)] * 500:
        numbers = rng.normal(0, 1, shape) * rng.choice([1, 1e-5, 1e-22], shape)
        for kind in (np.float32, np.float64):
            same(squares(numbers.astype(kind)), np.sum(np.square(numbers.astype(kind))), f"{numbers}")


OPTIONS: dict[str, list[dict[str, Any]]] = {
    "Reacher-v5": [{"reward_dist_weight": 0.3, "reward_control_weight": 0.7}],
    "Pusher-v5": [{"reward_near_weight": 0.3, "reward_dist_weight": 0.7, "reward_control_weight": 3}],
    "HalfCheetah-v5": [
        {"forward_reward_weight": 0.3, "ctrl_cost_weight": 0.7},
        {"exclude_current_positions_from_observation": False, "reset_noise_scale": 0.5},
    ],
    "Ant-v5": [
        {"forward_reward_weight": 0.3, "ctrl_cost_weight": 0.7, "contact_cost_weight": 0.1, "healthy_reward": 2},
        {"exclude_current_positions_from_observation": False, "main_body": "front_left_leg"},
        {"include_cfrc_ext_in_observation": False, "contact_force_range": (-0.1, 0.3), "healthy_z_range": (0.4, 0.6)},
    ],
}


@pytest.mark.parametrize("env_id", ENVS)
def test_other_options(env_id):
    for options in OPTIONS[env_id]:
        episodes(pair(env_id, **options), "uniform", [4], horizon=60)


MOTORS = {
    "Reacher-v5": '<motor ctrllimited="true" ctrlrange="-1.0 1.0" gear="50.0" joint="target_x"/>',
    "Pusher-v5": '<motor joint="obj_slidex" ctrlrange="-2.0 2.0" ctrllimited="true"/>',
    "HalfCheetah-v5": '<motor gear="20" joint="rooty" name="gyro"/>',
    "Ant-v5": '<motor ctrllimited="true" ctrlrange="-1.0 1.0" joint="hip_1" gear="50"/>',
}


@pytest.mark.parametrize("env_id", ENVS)
def test_a_custom_model_file(env_id, tmp_path):
    """The file has one motor more than the standard one."""
    model = Path(pair(env_id)[0].unwrapped.fullpath).read_text()
    own = tmp_path / "own.xml"
    own.write_text(model.replace("</actuator>", MOTORS[env_id] + "</actuator>"))
    envs = pair(env_id, xml_file=str(own))
    assert envs[1].action_space.shape == (len(pair(env_id)[1].action_space.low) + 1,)
    for name in ("uniform", "other_types"):
        episodes(envs, name, [4], horizon=60)


def test_returned_observations_do_not_change_later(envs):
    _, fast = envs
    observation, _ = fast.reset(seed=1)
    handed_out = [observation]
    before = [observation.copy()]
    for _ in range(5):
        observation, *_ = fast.step(fast.action_space.high)
        handed_out.append(observation)
        before.append(observation.copy())
    same(handed_out, before, "observations")
    assert all(not np.shares_memory(array, other) for array in handed_out for other in handed_out if array is not other)


def test_resets_without_a_seed_and_states_set_by_hand(envs):
    rng = np.random.default_rng(5)
    for env in envs:
        env.reset(seed=5)
    for t in range(3):
        same(*(env.reset() for env in envs), "reset")
        model = envs[0].unwrapped.model
        state = rng.uniform(-0.5, 0.5, model.nq), rng.uniform(-2, 2, model.nv)
        for env in envs:
            env.unwrapped.set_state(*state)
        for _ in range(5):
            action = uniform(rng, envs[0].action_space, t)
            same(*(env.step(action) for env in envs), "step")


def test_a_copy_has_a_simulation_of_its_own(envs):
    """What was looked up in one environment must not be used by its copy."""
    stock, fast = envs
    copy = pickle.loads(pickle.dumps(fast.unwrapped))
    answers = []
    for env in (stock.unwrapped, copy):
        env.reset(seed=2)
        answers.append(env.step(env.action_space.high))
    same(*answers, "step")


@pytest.mark.parametrize("shape", [(1,), (99,), (1, 2), ()])
def test_a_wrong_shape_raises_the_same_error_as_in_stock(envs, shape):
    for env in envs:
        env.reset(seed=0)
        with pytest.raises(ValueError, match="Action dimension mismatch"):
            env.step(np.zeros(shape, dtype=np.float32))


@pytest.mark.skipif(opengl() is None, reason="no headless OpenGL")
@pytest.mark.parametrize("env_id", ENVS)
def test_the_same_frames(env_id, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", opengl())
    stock, fast = pair(env_id, render_mode="rgb_array")
    stock.reset(seed=9), fast.reset(seed=9)
    rng = np.random.default_rng(9)
    for t in range(5):
        same(stock.render(), fast.render(), f"frame {t}")
        action = uniform(rng, stock.action_space, t)
        same(stock.step(action), fast.step(action), f"step {t}")
    for env in (stock, fast):
        env.close()
