"""A fast version is used for exactly the versions it was written for, and for no others."""

from __future__ import annotations

import gymnasium
import pytest

from evopolicygym.fast import catalogue
from evopolicygym.fast.catalogue import CATALOGUE, upgrade, why_stock
from evopolicygym.tasks.pins import pins
from evopolicygym.tasks.registry import core16
from evopolicygym.tasks.simulator import implementation


def test_the_pins_are_what_the_fast_versions_were_written_for():
    for fast in CATALOGUE.values():
        assert {name: pins()[name] for name in fast.versions} == dict(fast.versions)


def test_another_version_runs_as_stock_and_says_why(monkeypatch):
    monkeypatch.setattr(catalogue, "installed", lambda name: "9.9.9" if name == "gymnasium" else "0")
    env = gymnasium.make("Acrobot-v1")
    assert upgrade(env) is False
    assert type(env.unwrapped).__module__.startswith("gymnasium.")
    assert why_stock("Acrobot-v1") == "the fast version is written for gymnasium 1.4.0, but 9.9.9 is installed"


def test_a_missing_package_is_named(monkeypatch):
    assert catalogue.installed("no-such-package") is None
    monkeypatch.setattr(catalogue, "installed", lambda name: None)
    assert why_stock("Acrobot-v1") == "gymnasium is not installed"


def test_an_environment_without_a_fast_version_stays_as_it_is():
    env = gymnasium.make("CartPole-v1")
    assert upgrade(env) is False
    assert type(env.unwrapped).__module__.startswith("gymnasium.")


@pytest.mark.parametrize("task", [task for task in core16().values() if task.env_id in CATALOGUE], ids=lambda t: t.id)
def test_every_fast_version_is_used_here(task):
    assert implementation(task) == "fast"
    assert implementation(task, stock=True) == "stock"
