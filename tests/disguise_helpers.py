"""Policies for the plain task, composed with the inverse of a disguise, so that they play the disguised one."""

from __future__ import annotations

import shutil
from pathlib import Path

from evopolicygym.tasks import disguise, disguise_codes, disguise_parts, simulator
from evopolicygym.tasks.conditions import TaskView, TextLevel, Variant, variant_key
from evopolicygym.tasks.task import Task

ORACLES = Path(__file__).parent / "oracles"
MODULES = (disguise, disguise_codes, disguise_parts)  # they need nothing but numpy and each other
WRAPPER = """\
from numpy import inf

from disguise import Disguise
from plain_policy import Policy as PlainPolicy

OBSERVATION = {observation!r}
ACTION = {action!r}


class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.disguise = Disguise({key!r}, OBSERVATION, ACTION, {kinds!r})
        assert self.disguise.obs_space == obs_space, obs_space
        assert self.disguise.action_space == action_space, action_space
        self.policy = PlainPolicy(OBSERVATION, ACTION, {meta!r})

    def reset(self, episode_index):
        self.policy.reset(episode_index)

    def act(self, obs):
        return self.disguise.undo_action(self.policy.act(self.disguise.undo_observation(obs)))
"""


def disguised(task: Task, number: int) -> Task:
    """Return a task as it is played in disguise, under one of several keys."""
    key = variant_key(bytes([number]) * 32, task.id, Variant.DISGUISED)
    return task.seen(TaskView(TextLevel.BLIND, Variant.DISGUISED, key))


def write_wrapped(folder: Path, plain: Path, task: Task) -> Path:
    """Write the policy for a disguised task that plays as the one in the folder ``plain`` plays the plain task."""
    shutil.copytree(plain, folder)
    (folder / "policy.py").rename(folder / "plain_policy.py")
    for module in MODULES:
        source = Path(module.__file__ or "")
        (folder / source.name).write_text(source.read_text().replace("from evopolicygym.tasks.", "from "))
    env = simulator.make(task)
    observation, action = simulator.own_schemas(task, env)
    env.close()
    meta = task.seen(TaskView()).env_meta()
    text = WRAPPER.format(observation=observation, action=action, key=task.view.key, kinds=task.disguise, meta=meta)
    (folder / "policy.py").write_text(text)
    return folder
