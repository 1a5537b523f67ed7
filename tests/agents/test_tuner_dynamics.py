"""What the tuner learns of a task from its first episodes: the same without names, and in disguise."""

from __future__ import annotations

import numpy as np
import pytest

from disguise_helpers import disguised
from evopolicygym.agents.builtin.evaluator import RecordedEpisode, Spaces
from evopolicygym.agents.builtin.policies.features import action_maker, controls_of, entries
from evopolicygym.agents.builtin.tuner.dynamics import Dynamics
from evopolicygym.tasks import simulator
from evopolicygym.tasks.registry import find_task
from evopolicygym.tasks.spaces import json_safe
from evopolicygym.tasks.task import Task
from evopolicygym.tasks.translation import translation_of


def learned(task: Task, cases=(0, 1), steps=200) -> Dynamics:
    """Play random controls, strong and weak ones, as an agent sees the task."""
    env = simulator.make(task)
    spaces = Spaces(*map(json_safe, simulator.schemas(task, env)))
    translation = translation_of(task, *simulator.own_schemas(task, env))
    see = translation.observation if translation else lambda observation: observation
    do = translation.action if translation else lambda done: done
    episodes = []
    for spread, case in [(spread, case) for spread in (1.0, 0.3) for case in cases]:
        random = np.random.default_rng(case)
        seen, done, rewards = [env.reset(seed=case)[0]], [], []
        for _ in range(steps):
            done.append(action_maker(spaces.action)(spread * random.normal(size=spaces.controls)))
            observation, reward, terminated, truncated, _ = env.step(do(done[-1]))
            seen.append(observation)
            rewards.append(float(reward))
            if terminated or truncated:
                break
        episodes.append(
            RecordedEpisode(
                np.array([entries(spaces.observation, see(state)) for state in seen]),
                np.array([controls_of(spaces.action, state) for state in done]),
                np.array(rewards),
            )
        )
    env.close()
    return Dynamics(spaces, episodes)


@pytest.mark.parametrize("key", [None, 0, 1, 2])
def test_an_arm_is_understood_in_any_disguise(key):
    """Reacher: two motors, each with its velocity; the error that the reward falls with; sines and cosines of both
    joints in the Jacobian. Added controls, copies and noise are left out."""
    task = find_task("core16/reacher")
    dynamics = learned(task if key is None else disguised(task, key))
    (jacobian,) = dynamics.jacobians()
    facts = [dynamics.live, dynamics.velocities, dynamics.own_velocities(), dynamics.error, jacobian.basis]
    assert [len(part) for part in facts] == [2, 2, 2, 2, 4]
    if key is None:
        assert (dynamics.velocities.tolist(), dynamics.error.tolist()) == ([6, 7], [8, 9])
        assert sorted(jacobian.basis) == [0, 1, 2, 3]


@pytest.mark.parametrize("key", [None, 0, 1])
def test_a_single_motor_is_found_among_idle_controls(key):
    """MountainCarContinuous: the family that swings needs the one control that does something, and its velocity."""
    task = find_task("core16/mountain-car-continuous")
    dynamics = learned(task if key is None else disguised(task, key), steps=999)
    assert len(dynamics.live) == len(dynamics.velocities) == 1
    assert not len(dynamics.error)


def test_choices_that_do_the_same_count_once():
    """Acrobot in disguise has one or two actions that do what others do."""
    for key in (0, 1):
        dynamics = learned(disguised(find_task("core16/acrobot"), key), steps=500)
        assert len(dynamics.live) == 3 < dynamics.controls.shape[1]
