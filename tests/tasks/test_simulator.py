"""From a task to an environment."""

from __future__ import annotations

from dataclasses import replace

import gymnasium
import pytest
from gymnasium.wrappers import TimeLimit

from evopolicygym.tasks import simulator
from evopolicygym.tasks.files import core16
from evopolicygym.tasks.task import Task

ACROBOT = core16()["core16/acrobot"]


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
