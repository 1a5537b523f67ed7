"""From a task to an environment."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from evopolicygym.tasks import simulator
from evopolicygym.tasks.files import core16
from evopolicygym.tasks.task import Task

ACROBOT = core16()["core16/acrobot"]
MUJOCO_TASKS = [task for task in core16().values() if "mujoco" in task.requires]


@pytest.mark.parametrize("task", core16().values(), ids=lambda task: task.id)
def test_steps_go_straight_to_the_environment(task: Task):
    env = simulator.make(task, stock=True)
    assert simulator.stepper(task, env) == env.unwrapped.step != env.step


def test_a_limit_shorter_than_the_horizon_is_kept():
    env = TimeLimit(simulator.make(ACROBOT), 7)
    assert simulator.stepper(ACROBOT, env) == env.step
    assert simulator.stepper(replace(ACROBOT, horizon=7), env) == env.unwrapped.step


def test_a_wrapper_that_does_something_is_kept():
    class Halved(gymnasium.RewardWrapper):
        def reward(self, reward):
            return reward / 2

    env = Halved(simulator.make(ACROBOT))
    assert simulator.stepper(ACROBOT, env) == env.step
    assert simulator.stepper(ACROBOT, TimeLimit(env, 500)) == env.step


def clock_readings(env) -> float:
    """Seconds that MuJoCo's stopwatches have counted."""
    return sum(timer.duration for timer in env.unwrapped.data.timer)


def a_few_steps(env, step) -> list[bytes]:
    action = np.full(env.action_space.shape, 0.5, np.float32)
    told = [step(action)[:2] for _ in range(20)]
    told += [(env.unwrapped.data.qpos, env.unwrapped.data.qvel)]
    return [np.asarray(value).tobytes() for pair in told for value in (_flat(pair[0]), pair[1])]


def _flat(observation):
    return np.concatenate(list(observation.values())) if isinstance(observation, dict) else observation


@pytest.mark.parametrize("stock", [True, False], ids=["stock", "fast"])
@pytest.mark.parametrize("task", MUJOCO_TASKS, ids=lambda task: task.id)
def test_steps_do_without_the_stopwatches_of_mujoco_and_are_the_same(task: Task, stock: bool):
    env = simulator.make(task, stock=stock)
    simulator.reset(env, 1)
    timed = a_few_steps(env, env.step)
    assert clock_readings(env) > 0

    env = simulator.make(task, stock=stock)
    simulator.reset(env, 1)
    step, before = simulator.stepper(task, env), clock_readings(env)
    assert a_few_steps(env, step) == timed
    assert clock_readings(env) == before


@pytest.mark.parametrize("found", [None, ModuleType("mujoco")], ids=["blocked", "a stub"])
def test_a_mujoco_that_is_none_is_no_obstacle(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", found)
    assert simulator.stepper(ACROBOT, simulator.make(ACROBOT))


def test_a_clock_of_the_environments_own_is_kept():
    def clock() -> float:
        return 0.0

    mujoco.set_mjcb_time(clock)
    try:
        simulator.stepper(ACROBOT, simulator.make(ACROBOT))
        assert mujoco.get_mjcb_time() is clock
    finally:
        mujoco.set_mjcb_time(None)
