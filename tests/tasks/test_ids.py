"""Whatever can change a score changes its id."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from conftest import toy_task
from evopolicygym.limits import Limits
from evopolicygym.tasks import ids as module
from evopolicygym.tasks import pins
from evopolicygym.tasks.ids import comparable_facts, ids
from evopolicygym.tasks.registry import core16

TASK = replace(toy_task(), requires=("pygame",))


@pytest.mark.parametrize(
    "other",
    [
        replace(TASK, version=2),
        replace(TASK, horizon=11),
        replace(TASK, limits=Limits(memory_mb=1)),
        replace(TASK, env_id="another"),
        replace(TASK, env_options={"is_slippery": True}),
        replace(TASK, failure_return=replace(TASK.failure_return, value=-6.0)),
    ],
)
def test_a_changed_task_is_not_comparable(other):
    assert ids(TASK, "paper").comparable_id != ids(other, "paper").comparable_id


def test_options_of_the_environment_are_told_apart():
    """FrozenLake with and without ice had one id."""
    distinct = {ids(replace(TASK, env_options=options), "paper") for options in ({}, {"a": True}, {"a": False})}
    assert len(distinct) == 3


def test_an_infinite_option_has_an_id_and_facts_that_strict_json_can_hold():
    facts = comparable_facts(replace(TASK, env_options={"reach": math.inf}), "paper")
    assert json.loads(json.dumps(facts, allow_nan=False))["env_options"] == {"reach": "inf"}


def test_a_task_without_options_or_modules_of_its_own_has_the_facts_that_it_always_had():
    """Ids of Core16 are in records."""
    for task in core16().values():
        assert not {"env_options", "sources"} & set(comparable_facts(task, "paper"))


@pytest.mark.parametrize("of_task", [{"env_id": "ownenv:Env-v0"}, {"env_id": "Env-v0", "requires": ("ownenv",)}])
def test_an_edited_module_of_ones_own_moves_the_id(tmp_path, monkeypatch, of_task):
    monkeypatch.chdir(tmp_path)
    task = replace(TASK, **of_task)
    (tmp_path / "ownenv.py").write_text("GRAVITY = 9.81\n")
    before = ids(task, "paper")
    assert ids(task, "paper") == before
    (tmp_path / "ownenv.py").write_text("GRAVITY = 1.62\n")
    after = ids(task, "paper")
    assert after.comparable_id != before.comparable_id
    assert after.bit_id != before.bit_id


def test_every_python_file_of_a_package_of_ones_own_counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ownpackage").mkdir()
    (tmp_path / "ownpackage" / "__init__.py").write_text("")
    (tmp_path / "ownpackage" / "physics.py").write_text("GRAVITY = 9.81\n")
    before = pins.source_hashes("ownpackage:Env-v0", ())
    (tmp_path / "ownpackage" / "physics.py").write_text("GRAVITY = 1.62\n")
    assert list(before) == ["ownpackage"]
    assert pins.source_hashes("ownpackage:Env-v0", ()) != before


@pytest.mark.parametrize("name", ["gymnasium:CartPole-v1", "minigrid:Any-v0", "ray:Any-v0", "no_such_module:Any-v0"])
def test_installed_and_missing_modules_have_no_source_of_ones_own(name):
    assert pins.source_hashes(name, ("minigrid", "mujoco")) == {}


def test_splits_and_budget_count():
    assert ids(TASK, "paper") != ids(TASK, "sealed:x")
    assert ids(TASK, "paper") != ids(TASK, "paper", budget=64)
    assert ids(TASK, "paper") == ids(TASK, "paper")


def test_a_package_version_counts(monkeypatch):
    before = ids(TASK, "paper")
    monkeypatch.setattr(module, "installed", lambda name: "0")
    assert ids(TASK, "paper").comparable_id != before.comparable_id


def test_the_rendering_package_counts(monkeypatch):
    before = ids(TASK, "paper")
    monkeypatch.setattr(module, "pygame_provider", lambda: "pygame 2.6.1 over pygame-ce 2.5.8")
    assert ids(TASK, "paper").comparable_id != before.comparable_id


@pytest.mark.parametrize("fact", ["cpu_features", "libc", "python"])
def test_the_machine_counts_for_bits_only(monkeypatch, fact):
    before, facts = ids(TASK, "paper"), module.machine_facts()
    monkeypatch.setattr(module, "machine_facts", lambda: facts | {fact: "other"})
    after = ids(TASK, "paper")
    assert after.comparable_id == before.comparable_id
    assert after.bit_id != before.bit_id


def test_facts_name_the_simulators_of_the_task():
    facts = comparable_facts(replace(TASK, requires=("gymnasium_robotics", "highway_env")), "paper")
    assert {"numpy", "scipy", "gymnasium", "mujoco", "gymnasium-robotics", "highway-env", "pandas"} == set(
        facts["packages"]
    )


def test_installed_versions_are_the_pins():
    assert pins.version_mismatches() == []


def test_another_version_is_complained_about(monkeypatch):
    monkeypatch.setattr(pins, "installed", lambda name: "0.0.1" if name == "mujoco" else pins.pins().get(name))
    (complaint,) = pins.version_mismatches()
    assert complaint.startswith("mujoco 0.0.1, but scores are comparable only with")
    assert complaint.endswith(f"pip install mujoco=={pins.pins()['mujoco']}")


def test_pygame_over_pygame_ce_is_complained_about(monkeypatch):
    monkeypatch.setattr(pins, "installed", lambda name: "2.6.1" if name == "pygame" else pins.pins().get(name))
    (complaint,) = pins.version_mismatches()
    assert "pip uninstall -y pygame pygame-ce" in complaint
