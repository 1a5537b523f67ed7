"""What can move a score moves its id."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conftest import toy_task
from evopolicygym.limits import Limits
from evopolicygym.tasks import ids as module
from evopolicygym.tasks import pins
from evopolicygym.tasks.ids import comparable_facts, ids

TASK = replace(toy_task(), requires=("pygame",))


@pytest.mark.parametrize(
    "other",
    [
        replace(TASK, version=2),
        replace(TASK, horizon=11),
        replace(TASK, limits=Limits(memory_mb=1)),
        replace(TASK, env_id="another"),
        replace(TASK, failure_return=replace(TASK.failure_return, value=-6.0)),
    ],
)
def test_a_changed_task_is_not_comparable(other):
    assert ids(TASK, "paper").comparable_id != ids(other, "paper").comparable_id


def test_splits_and_budget_count():
    assert ids(TASK, "paper") != ids(TASK, "sealed:x")
    assert ids(TASK, "paper") != ids(TASK, "paper", budget=64)
    assert ids(TASK, "paper") == ids(TASK, "paper")


def test_a_package_version_counts(monkeypatch):
    before = ids(TASK, "paper")
    monkeypatch.setattr(module, "installed", lambda name: "0")
    assert ids(TASK, "paper").comparable_id != before.comparable_id


def test_who_draws_the_pixels_counts(monkeypatch):
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
    assert pins.complaints() == []


def test_another_version_is_complained_about(monkeypatch):
    monkeypatch.setattr(pins, "installed", lambda name: "0.0.1" if name == "mujoco" else pins.pins().get(name))
    (complaint,) = pins.complaints()
    assert complaint.startswith("mujoco 0.0.1, but scores are comparable only with")
    assert complaint.endswith(f"pip install mujoco=={pins.pins()['mujoco']}")


def test_pygame_over_pygame_ce_is_complained_about(monkeypatch):
    monkeypatch.setattr(pins, "installed", lambda name: "2.6.1" if name == "pygame" else pins.pins().get(name))
    (complaint,) = pins.complaints()
    assert "pip uninstall -y pygame pygame-ce" in complaint
