"""Making the environment of a task."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from types import ModuleType

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from evopolicygym.errors import Fault, UserError
from evopolicygym.tasks import simulator
from evopolicygym.tasks.registry import core16, find_task
from evopolicygym.tasks.task import Task
from toys import Toy

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
    values = [step(action)[:2] for _ in range(20)]
    values += [(env.unwrapped.data.qpos, env.unwrapped.data.qvel)]
    return [np.asarray(value).tobytes() for pair in values for value in (_flat(pair[0]), pair[1])]


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


@pytest.mark.parametrize("module", [None, ModuleType("mujoco")], ids=["blocked", "a stub"])
def test_a_broken_mujoco_does_not_stop_other_tasks(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", module)
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


def test_any_task_may_turn_out_to_draw_with_mujoco(monkeypatch):
    """Which environments import it is known only when it is too late to choose how it draws."""
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(simulator, "opengl", lambda: "osmesa")
    simulator.make(ACROBOT)
    assert os.environ.pop("MUJOCO_GL") == "osmesa"
    monkeypatch.setenv("MUJOCO_GL", "egl")
    simulator.make(ACROBOT)
    assert os.environ["MUJOCO_GL"] == "egl"


def test_mujoco_without_opengl_is_refused_before_it_aborts(monkeypatch):
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(simulator, "opengl", lambda: None)
    with pytest.raises(UserError, match="MuJoCo cannot draw"):
        simulator.make(find_task("FetchReach-v4"), video=True)


@pytest.mark.skipif(simulator.opengl() is None, reason="no headless OpenGL")
def test_mujoco_outside_core16_draws_without_a_screen():
    code = (
        "from evopolicygym.tasks import registry, simulator\n"
        "env = simulator.make(registry.find_task('FetchReach-v4'), video=True)\n"
        "simulator.reset(env, 1)\n"
        "assert env.render().std() > 0\n"
    )
    headless = {name: value for name, value in os.environ.items() if name not in ("MUJOCO_GL", "DISPLAY")}
    done = subprocess.run([sys.executable, "-c", code], env=headless, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class OldFashioned(Toy):
    def reset(self, *, seed=None, options=None):
        np.random.seed(seed)
        return super().reset(seed=seed)


class Unwilling(Toy):
    def reset(self, *, seed=None, options=None):
        raise RuntimeError("no reset today")


def test_an_environment_that_cannot_take_a_sealed_seed_is_told_what_to_do():
    """The message does not show the seed."""
    with pytest.raises(
        Fault, match="OldFashioned cannot be reset with a seed of more than 32 bits: ValueError"
    ) as caught:
        simulator.reset(OldFashioned(), 2**62 + 1)
    assert "self.np_random, which super().reset(seed=seed) seeds" in str(caught.value)
    assert str(2**62 + 1) not in str(caught.value)
    simulator.reset(OldFashioned(), 2**31)


def test_an_environment_that_cannot_be_reset_is_named():
    with pytest.raises(Fault, match=r"Unwilling cannot be reset: RuntimeError: no reset today$"):
        simulator.reset(Unwilling(), 2**62)
