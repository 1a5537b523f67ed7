"""Compiled models that are kept between episodes have the bits of newly compiled ones."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

from evopolicygym.tasks import simulator
from evopolicygym.tasks.registry import find_task

TASKS = ("reacher", "pusher", "half-cheetah", "ant", "fetch-push", "fetch-pick-and-place")


def model_bytes(env: Any) -> bytes:
    model = env.unwrapped.model
    buffer = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return buffer.tobytes()


@pytest.mark.parametrize("name", TASKS)
def test_a_kept_model_is_equal_to_a_compiled_one_also_after_an_environment_has_changed_its_own(name):
    task = find_task(f"core16/{name}")
    stock = simulator.make(task, stock=True)
    first = simulator.make(task)
    compiled = model_bytes(stock)
    assert model_bytes(first) == compiled
    first.unwrapped.model.opt.gravity[:] = 1.0
    assert model_bytes(first) != compiled
    assert model_bytes(simulator.make(task)) == compiled


def test_models_are_compiled_as_ever_outside_of_make(tmp_path):
    simulator.make(find_task("core16/reacher"))
    path = tmp_path / "model.xml"
    masses = []
    for size in (0.1, 0.2):
        path.write_text(f'<mujoco><worldbody><body><geom size="{size}"/></body></worldbody></mujoco>')
        masses.append(float(mujoco.MjModel.from_xml_path(str(path)).body_mass[1]))
    assert masses[0] < masses[1]
