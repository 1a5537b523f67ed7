"""A policy composed with the inverse of the disguise gets the same returns, to the bit, through the jail."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_oracles import HERE, SLOW_SIMULATORS, TARGETS

from conftest import write_policy
from disguise_helpers import disguised, write_wrapped
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.evaluation import Evaluation, evaluate_folder
from evopolicygym.tasks.registry import CORE16_ORDER, core16
from evopolicygym.tasks.splits import PaperSplits, Split, cases
from evopolicygym.tasks.task import Task

# For the task without an oracle: any policy whose actions depend on every entry of the observation.
MIXING = """
import numpy as np

class Policy:
    def __init__(self, obs_space, action_space, env_meta):
        self.weights = np.sin(np.arange(7 * 23) + 1.0).reshape(7, 23)

    def reset(self, episode_index):
        pass

    def act(self, obs):
        return 3.0 * np.tanh(self.weights @ obs)
"""


def played(task: Task, folder: Path, count: int) -> Evaluation:
    with LocalEngine(task, jobs=2) as engine:
        train = cases(PaperSplits(), task.id, Split.TRAIN, list(range(count)))
        report = evaluate_folder(engine, task, folder, train, "paper")
    assert report.failed == 0, [result.error for result in report.episodes if result.error]
    return report


def check(slug: str, keys: range, count: int, folder: Path) -> None:
    task = core16()[f"core16/{slug}"]
    oracle = HERE / TARGETS[slug]["folder"] if slug in TARGETS else write_policy(folder / "mixing", MIXING)
    plain = played(task, oracle, count)
    for key in keys:
        wrapped = write_wrapped(folder / str(key), oracle, disguised(task, key))
        report = played(disguised(task, key), wrapped, count)
        assert [value.hex() for value in report.returns] == [value.hex() for value in plain.returns]
        for name in ("length", "terminated", "truncated", "clipped_actions"):
            assert [getattr(result, name) for result in report.episodes] == [
                getattr(result, name) for result in plain.episodes
            ]


@pytest.mark.parametrize("slug", ["acrobot", "mountain-car-continuous", "four-rooms", "parking"])
def test_a_policy_behind_the_inverse_plays_the_same(slug, tmp_path):
    check(slug, range(1), 2, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_a_policy_behind_the_inverse_plays_the_same_on_every_task(slug, tmp_path):
    check(slug, range(1, 4), SLOW_SIMULATORS.get(slug, 4), tmp_path)
