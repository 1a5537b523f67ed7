"""Shifted tasks: values follow from the key and the case, stay within bounds, and really change the simulation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conftest import toy_task
from evopolicygym.errors import UserError
from evopolicygym.execution.conformance import check_task
from evopolicygym.fast.catalogue import CATALOGUE
from evopolicygym.tasks import simulator
from evopolicygym.tasks.conditions import TaskView, TextLevel, Variant
from evopolicygym.tasks.ids import comparable_facts
from evopolicygym.tasks.registry import CORE16_ORDER, core16, find_task, parse_task
from evopolicygym.tasks.shift import WHOLE, ShiftDraw, ShiftKind, ShiftParameter
from evopolicygym.tasks.shifted_env import find_values, parse_index
from evopolicygym.tasks.task import SpaceEntry, Task

SEED = 47113601
FACTOR = ShiftParameter("gain", ShiftKind.ATTRIBUTE, 0.5, 2.0, paths=("power",), each="entry")
TASK_FILE = """
env_id = "{}"
title = "A toy"
family = "toys"
horizon = 10
observation_space = ""
action_space = ""
objective = "Play."
reward = "The action."
termination = "After ten steps."
failure_return = {{ value = -5.0, derivation = "By decree." }}
{}
"""


def shifted(task: Task, key: int = 1) -> Task:
    return task.seen(TaskView(TextLevel.BRIEF, Variant.SHIFTED, bytes([key]) * 32))


def numbers(observation: Any) -> Any:
    """Return an observation as one array; missions are left out."""
    if isinstance(observation, dict):
        parts = [numbers(value) for _, value in sorted(observation.items()) if not isinstance(value, str)]
        return np.concatenate(parts)
    return np.ravel(np.asarray(observation, dtype=float))


def rollout(task: Task, seed: int = SEED, steps: int = 30, stock: bool = False) -> Any:
    """Return all observations and rewards under a fixed stream of actions."""
    env = simulator.make(task, stock=stock)
    space, random = env.action_space, np.random.default_rng(3)
    observations, step = [numbers(simulator.reset(env, seed))], simulator.stepper(task, env)
    for _ in range(steps):
        discrete = hasattr(space, "n")
        action = int(random.integers(space.n)) if discrete else random.uniform(space.low, space.high)
        observation, reward, terminated, truncated, _ = step(action if discrete else action.astype(space.dtype))
        observations.append(np.append(numbers(observation), float(reward)))
        if terminated or truncated:
            break
    env.close()
    return np.concatenate(observations)


@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_the_key_decides_and_fast_equals_stock(slug):
    plain = core16()[f"core16/{slug}"]
    steps = 12 if slug == "car-racing" else 30
    first = rollout(shifted(plain), steps=steps)
    assert np.array_equal(first, rollout(shifted(plain), steps=steps, stock=plain.env_id in CATALOGUE))
    assert not np.array_equal(first, rollout(shifted(plain, 2), steps=steps))
    assert not np.array_equal(first, rollout(plain, steps=steps))


@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_attributes_stay_within_their_bounds(slug):
    """Those of the running environment, read where the table says they are."""
    plain = core16()[f"core16/{slug}"]
    assert 3 <= len(plain.shift) <= 7
    envs = [simulator.make(task) for task in (plain, shifted(plain))]
    for env in envs:
        simulator.reset(env, SEED)
    for parameter in plain.shift:
        for path in parameter.paths:
            values = [find_values(env.unwrapped, path) for env in envs]
            for before, after in zip(*values, strict=True):
                old, new = (np.asarray(value.read(), dtype=float)[value.index] for value in (before, after))
                difference = new - old if parameter.by == "added" else new[old != 0] / old[old != 0]
                slack = 0.01 if np.asarray(before.read()).dtype.kind == "i" else 1e-6
                assert difference.size and np.all(difference >= parameter.low - slack), parameter.name
                assert np.all(difference <= parameter.high + slack), parameter.name
    for env in envs:
        env.close()


def test_numbers_spread_over_their_bounds():
    drawn = [ShiftDraw(FACTOR, bytes([key]) * 32).number(entry) for key in range(40) for entry in range(5)]
    assert 0.5 <= min(drawn) < 0.55 and 1.95 < max(drawn) <= 2.0 and len(set(drawn)) == 200
    whole = replace(FACTOR, kind=ShiftKind.ACTION_DELAY, paths=(), low=1.0, high=3.0)
    assert {ShiftDraw(whole, bytes([key])).number() for key in range(40)} == {1.0, 2.0, 3.0}
    assert ShiftKind.ACTION_DELAY in WHOLE


def test_orders_leave_nothing_in_its_place():
    orders = [ShiftDraw(FACTOR, bytes([key])).order(3) for key in range(40)]
    assert {tuple(order) for order in orders} == {(1, 2, 0), (2, 0, 1)}
    signs = [ShiftDraw(FACTOR, bytes([key])).signs(3) for key in range(40)]
    assert all(-1 in entries for entries in signs) and len({tuple(entries) for entries in signs}) == 7


def test_values_of_a_case_follow_its_seed():
    of_case = replace(FACTOR, per="case")
    assert ShiftDraw(of_case, b"k", 1).number() != ShiftDraw(of_case, b"k", 2).number()
    assert ShiftDraw(FACTOR, b"k", 1).number() == ShiftDraw(FACTOR, b"k", 2).number()
    shared = replace(FACTOR, each="")
    assert ShiftDraw(shared, b"k").number(0) == ShiftDraw(shared, b"k").number(1)


def test_a_second_reset_starts_from_the_original_values():
    task = shifted(core16()["core16/mountain-car-continuous"])
    env, again = simulator.make(task), simulator.make(task)
    simulator.reset(env, 1)
    simulator.reset(env, SEED)
    simulator.reset(again, SEED)
    assert env.unwrapped.power == again.unwrapped.power != 0.0015


def test_another_key_opens_the_door_and_only_at_the_right_toggle():
    task = shifted(core16()["core16/door-key"])
    env = simulator.make(task)
    simulator.reset(env, SEED)
    world = env.unwrapped
    items = {item.type: (i, item) for i, item in enumerate(world.grid.grid) if item is not None}
    key, (index, door) = items["key"][1], items["door"]
    assert key.color == door.key_colour != door.color == "yellow"
    position = index % world.grid.width, index // world.grid.width
    assert not door.toggle(world, position)
    world.carrying = key
    outcomes = []
    for _ in range(door.toggles):
        assert door.is_locked
        outcomes.append(door.toggle(world, position))
    assert door.is_open and not door.is_locked and all(outcomes) and 2 <= door.toggles <= 4


def test_an_own_task_has_generic_changes():
    table = """
    [[shift]]
    name = "meaning"
    kind = "action_order"
    [[shift]]
    name = "delay"
    kind = "action_delay"
    low = 2
    high = 2
    neutral = 1
    [[shift]]
    name = "hidden step"
    kind = "observation_mask"
    entries = "0"
    [[shift]]
    name = "luck"
    kind = "observation_noise"
    entries = "1"
    low = 0.1
    high = 0.2
    [[shift]]
    name = "length"
    kind = "attribute"
    paths = ["length"]
    by = "value"
    low = 7.0
    high = 7.0
    """
    task = shifted(parse_task(TASK_FILE.format("toys:Toy-v0", table), "own"))
    env = simulator.make(task)
    observation = simulator.reset(env, 5)
    luck, rewards, seen, ended = env.unwrapped.luck, [], [observation], False
    while not ended:
        observation, reward, ended, *_ = env.step(0)
        rewards.append(reward - luck)
        seen.append(observation)
    meaning = ShiftDraw(task.shift[0], task.view.key).order(3)[0]
    assert np.allclose(rewards, [1.0, 1.0] + [meaning] * 5) and len(rewards) == 7
    assert all(observation[0] == 0.0 for observation in seen)
    assert 0.01 < np.std([observation[1] for observation in seen]) < 0.6
    assert type(env.unwrapped).length == 10


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('name = "a"\nkind = "attribute"', "paths belong to the kind attribute"),
        ('name = "a"\nkind = "action_gain"', "needs low and high"),
        ('name = "a"\nkind = "action_delay"\nlow = 0.5\nhigh = 1.5', "whole numbers"),
        ('name = "a"\nkind = "action_gain"\nlow = 2.0\nhigh = 1.0', "low not above high"),
        ('name = "a"\nkind = "action_gain"\nlow = 0.5', "needs low and high; high is missing"),
        ('name = "a"\nkind = "action_gain"\nlo = 0.8\nhigh = 1.2', r"unknown key shift\[0\].lo; did you mean low"),
        ('name = "a"\nkind = "teleport"', r"shift\[0\].kind is 'teleport'; it can be 'attribute', 'action_order'"),
        ('name = ""\nkind = "action_order"', "needs a name"),
        ('name = "a"\nkind = "action_order"\n[[shift]]\nname = "a"\nkind = "action_order"', "name of its own"),
    ],
)
def test_a_wrong_table_is_refused(row, reason):
    with pytest.raises(UserError, match=reason) as refused:
        parse_task(TASK_FILE.format("toys:Toy-v0", f"[[shift]]\n{row}\n"), "own")
    assert "docs shifted" in str(refused.value)


@pytest.mark.parametrize(
    ("parameter", "reason"),
    [
        (ShiftParameter("a", ShiftKind.ATTRIBUTE, 1, 2, paths=("gravity.x",)), "has no 'gravity.x'"),
        (ShiftParameter("a", ShiftKind.ATTRIBUTE, 1, 2, paths=("length[",)), "not a path"),
        (ShiftParameter("a", ShiftKind.ACTION_GAIN, 1, 2), "needs a Box action space"),
        (ShiftParameter("a", ShiftKind.OBSERVATION_MASK, entries="9"), "out of bounds"),
        (ShiftParameter("a", ShiftKind.OBSERVATION_MASK, keys=("image",)), "no entries image"),
    ],
)
def test_a_table_that_does_not_fit_the_environment_is_refused(parameter, reason):
    task = shifted(replace(toy_task(), shift=(parameter,)))
    with pytest.raises(UserError, match=f"the shift of toys:Toy-v0 does not fit its environment.*{reason}"):
        simulator.make(task)


def test_task_check_finds_tables_that_do_not_fit():
    """A shift of what a reset makes fits only until the first reset."""
    wrong = ShiftParameter("a", ShiftKind.ATTRIBUTE, 1, 2, paths=("car.weight",), after_reset=True)
    task = replace(toy_task(), shift=(wrong,), observation_space="Box(2,) float64", action_space="Discrete(3)")
    failed = [check for check in check_task(replace(task, disguise={"image": "grid"}), 1, 1) if not check.ok]
    assert [check.rule for check in failed] == ["the disguise fits the environment", "the shift fits the environment"]
    assert "no part 'image'" in failed[0].detail and "car.weight" in failed[1].detail


def test_a_table_that_does_not_fit_says_what_it_needs_and_has():
    row = SpaceEntry("0", "", "", "a")
    task = replace(
        toy_task(),
        observation_space="Box(2,) float64",
        action_space="Discrete(3)",
        observation=(replace(row, name="x"),),
        action=(row, row),
    )
    details = {check.rule: check.detail for check in check_task(task, 1, 1) if not check.ok}
    assert details == {
        "every observation entry is named": "a vector of 2 entries needs 2 different names; the table has rows: 1, "
        "different names: 1",
        "every action entry is named": "Discrete(3) needs 1 row, or 3; the table has rows: 2, different names: 1",
    }


def test_a_task_without_a_table_has_no_shifted_variant():
    with pytest.raises(UserError, match="novel/rules-1: a generated task has no shifted variant"):
        find_task("novel/rules-1").check_variant(Variant.SHIFTED)
    with pytest.raises(UserError, match="no shifted variant"):
        shifted(toy_task())


def test_key_and_table_are_facts_of_a_score():
    task = core16()["core16/acrobot"]
    other = replace(task, shift=task.shift[1:])
    facts = [comparable_facts(each, "paper").get("variant") for each in (shifted(task), shifted(task, 2))]
    facts += [comparable_facts(each, "paper").get("variant") for each in (shifted(other), task)]
    assert facts[3] is None and len({str(fact) for fact in facts}) == 4


def test_indices_are_numpys():
    array = np.arange(24).reshape(4, 6)
    assert np.array_equal(array[parse_index("1:, 2")], array[1:, 2])
    assert np.array_equal(array[parse_index("")], array) and array[parse_index("-1, 0")] == 18
