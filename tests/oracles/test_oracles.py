"""Hand-written policies solve the tasks through the jail: proof that contract, exchange and limits leave room to play.

They are for tests only and never part of the package: an agent must not find them.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from conftest import one_of_each_kind
from evopolicygym.execution.conformance import probe_folder
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.evaluation import evaluate_folder
from evopolicygym.tasks.registry import CORE16_ORDER, core16
from evopolicygym.tasks.splits import PaperSplits, Split, cases

HERE = Path(__file__).parent
TARGETS: dict[str, Any] = tomllib.loads((HERE / "targets.toml").read_text())
SLOW_SIMULATORS = {"car-racing": 2}
CASES = 8


def mean(slug: str, folder: Path, count: int) -> float:
    task = core16()[f"core16/{slug}"]
    train = cases(PaperSplits(), task.id, Split.TRAIN, list(range(count)))
    with LocalEngine(task, jobs=2) as engine:
        report = evaluate_folder(engine, task, folder, train, "paper")
    assert report.failed == 0, [result.error for result in report.episodes if result.error]
    assert report.mean is not None
    return report.mean


@pytest.mark.parametrize("slug", one_of_each_kind(TARGETS))
def test_an_oracle_beats_its_target_through_the_jail(slug):
    target = TARGETS[slug]
    assert mean(slug, HERE / target["folder"], SLOW_SIMULATORS.get(slug, CASES)) > target["threshold"]
    assert target["threshold"] > target["trivial_best"]


EXPERTS = [slug for slug, target in TARGETS.items() if "expert" in target]


@pytest.mark.parametrize("slug", one_of_each_kind(EXPERTS))
def test_an_expert_beats_the_oracle_through_the_jail(slug):
    target, count = TARGETS[slug], SLOW_SIMULATORS.get(slug, CASES)
    assert mean(slug, HERE / target["expert"], count) > mean(slug, HERE / target["folder"], count)


@pytest.mark.slow
@pytest.mark.parametrize("slug", TARGETS)
@pytest.mark.parametrize("play", ["zero", "low", "high", "random"])
def test_trivial_policies_miss_the_target(slug, play, tmp_path):
    assert mean(slug, probe_folder(tmp_path, play), CASES) < TARGETS[slug]["threshold"]


def test_every_family_has_an_oracle():
    families = {core16()[f"core16/{slug}"].family for slug in TARGETS}
    assert families == {task.family for task in core16().values()}
    assert len(TARGETS) >= 8
    assert set(TARGETS) <= set(CORE16_ORDER)
