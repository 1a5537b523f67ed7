"""Generated grid worlds: drawn the same from the same key, always solvable, and solved by the expert in the fewest
steps."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from evopolicygym.tasks.contract import first_sentence
from evopolicygym.tasks.novel.generate import measure
from evopolicygym.tasks.novel.measure import features, returns
from evopolicygym.tasks.novel.rules import world as rules
from evopolicygym.tasks.novel.rules.chain import FORWARD, LET_GO, NOTHING, OFF_CHAIN, Role
from evopolicygym.tasks.novel.rules.world import RulesEnv, RulesWorld

LEVELS = (1, 2, 3, 4)
MOST_STATES = 3_000_000
FEW_WORLDS = {1: 6, 2: 3, 3: 1, 4: 1}  # in which all states are tried on every run of the tests


def world_of(level: int, key: int = 0) -> RulesWorld:
    return rules.draw(np.random.default_rng(key), level)


def env_of(world: RulesWorld, seed: int) -> RulesEnv:
    env = RulesEnv(world)
    env.reset(seed=seed)
    return env


def solve(world: RulesWorld, seed: int) -> tuple[int, float]:
    """Return the steps and the return of the expert."""
    env = env_of(world, seed)
    act, total = world.expert(env), 0.0
    while not env.done:
        _, reward, _, truncated, _ = env.step(act(None))
        total += reward
        assert env.done or not truncated
    return env.clock, total


def fewest_steps(world: RulesWorld, seed: int) -> int:
    """Return the fewest steps to the goal, by trying all actions in all states of the environment itself."""
    env = env_of(world, seed)
    start = _state(env)
    layer, known, steps = [start], {start}, 0
    while layer:
        steps, after = steps + 1, []
        for state in layer:
            for meaning in world.meanings:
                _restore(env, state)
                env.advance(meaning)
                if env.done:
                    return steps
                if (reached := _state(env)) not in known:
                    known.add(reached)
                    after.append(reached)
        assert len(known) < MOST_STATES, "too many states to prove anything"
        layer = after
    raise AssertionError("the goal cannot be reached")


def _state(env: RulesEnv) -> Any:
    timers = tuple((when - env.clock, cell, ripe) for when, cell, ripe in env.timers)
    return bytes(env.cells), env.place, env.facing, env.stun, env.held, timers


def _restore(env: RulesEnv, state: Any) -> None:
    cells, env.place, env.facing, env.stun, env.held, timers = state
    env.cells, env.clock, env.done, env.links = bytearray(cells), 0, False, 0
    env.timers = list(timers)


def same(first: RulesWorld, second: RulesWorld) -> bool:
    arrays = all(np.array_equal(getattr(first, name), getattr(second, name)) for name in ("codes", "order"))
    rest = ("book", "plan", "meanings", "shares", "prize", "names", "hues", "horizon")
    return arrays and all(getattr(first, name) == getattr(second, name) for name in rest)


@pytest.mark.parametrize("level", LEVELS)
def test_a_world_follows_from_its_generator(level: int) -> None:
    assert same(world_of(level), world_of(level))


@pytest.mark.parametrize("level", LEVELS)
def test_two_keys_share_neither_codes_nor_rules(level: int) -> None:
    first, second = world_of(level, 1), world_of(level, 2)
    kinds = min(len(first.codes), len(second.codes))
    assert np.mean(first.codes[:kinds] == second.codes[:kinds]) < 0.1
    assert {astuple(rule) for rule in first.book.rules} != {astuple(rule) for rule in second.book.rules}
    assert first.meanings != second.meanings


@pytest.mark.parametrize("level", LEVELS)
def test_a_chain_has_the_depth_of_its_level(level: int) -> None:
    for key in range(20):
        book = world_of(level, key).book
        links = [rule.link for rule in book.rules if rule.link != OFF_CHAIN] + ([book.push.link] if book.push else [])
        assert sorted(links) == list(range(2 * level))


def test_worlds_have_all_kinds_of_rules() -> None:
    books = [world_of(level, key).book for level in (3, 4) for key in range(10)]
    roles = {role for book in books for role in book.roles}
    assert roles == set(Role)
    assert any(book.ripening for book in books) and any(book.push for book in books)
    assert {bool(book.stun) for book in books} == {True, False}


@pytest.mark.parametrize("level", LEVELS)
def test_an_episode_repeats_to_the_bit(level: int) -> None:
    world = world_of(level, 3)
    first, second = env_of(world, 5), env_of(world, 5)
    first.action_space.seed(0)
    for _ in range(world.horizon):
        action = first.action_space.sample()
        one, two = first.step(action), second.step(action)
        assert np.array_equal(one[0], two[0]) and one[1:] == two[1:]
        assert first.observation_space.contains(one[0])
    assert one[3]


def test_cases_differ_by_seed() -> None:
    world = world_of(2)
    assert env_of(world, 1).cells != env_of(world, 2).cells


@pytest.mark.parametrize("level", LEVELS)
def test_the_expert_solves_every_case_and_gets_every_reward(level: int) -> None:
    for key in range(4):
        world = world_of(level, key)
        for seed in range(2):
            steps, total = solve(world, seed)
            way = sum(face + do for face, do in world.shares)
            assert total == pytest.approx(way + world.prize * (1 - 0.9 * steps / world.horizon))
            assert 0.0 < total <= 1.0


@pytest.mark.parametrize("level", LEVELS)
def test_the_expert_needs_the_fewest_steps(level: int) -> None:
    for key in range(FEW_WORLDS[level]):
        world = world_of(level, key)
        assert solve(world, 0)[0] == fewest_steps(world, 0), key


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_the_expert_needs_the_fewest_steps_in_many_worlds(level: int) -> None:
    for key in range(40):
        world = world_of(level, key)
        assert solve(world, 1)[0] == fewest_steps(world, 1), key


def test_a_reward_is_given_once() -> None:
    worlds = (world_of(1, key) for key in range(20))
    world = next(world for world in worlds if world.book.roles[world.book.rules[0].target] is Role.SOURCE)
    env = env_of(world, 0)
    act, first = world.expert(env), 0.0
    while not env.links:
        action = act(None)
        _, first, _, _, _ = env.step(action)
    env.step(world.meanings.index(LET_GO))
    assert env.held == NOTHING
    _, second, _, _, _ = env.step(action)
    assert first > 0.0 and second == 0.0 and env.held != NOTHING


def test_both_ways_of_moving_are_drawn() -> None:
    assert {FORWARD in world_of(1, key).meanings for key in range(10)} == {True, False}


@pytest.mark.parametrize("level", LEVELS)
def test_texts_tell_the_rules_at_full_and_none_at_brief(level: int) -> None:
    world = world_of(level, 4)
    texts = world.texts()
    for rule in world.book.rules:
        assert f"({world.codes[rule.target]})" in texts["dynamics"]
    assert f"{world.codes[0]} floor" in texts["observation_notes"]
    brief = [first_sentence(texts[name]) for name in ("objective", "observation_notes", "action_notes", "reward")]
    others = [first_sentence(world_of(level, 5).texts()[name]) for name in ("objective", "observation_notes", "reward")]
    assert set(others) <= set(brief)
    assert not any(character.isdigit() for character in "".join(brief).replace("between 0 and 1", ""))


def test_a_picture_shows_all_cells_and_changes_with_the_world() -> None:
    world = world_of(4)
    env = RulesEnv(world, "rgb_array")
    env.reset(seed=0)
    before = env.render()
    assert before.shape == (28 * world.plan.height + 40, 28 * world.plan.width, 3) and before.dtype == np.uint8
    act = world.expert(env)
    for _ in range(5):
        env.step(act(None))
    assert not np.array_equal(before, env.render())


@pytest.mark.parametrize("level", LEVELS)
def test_the_expert_clearly_beats_chance(level: int) -> None:
    world, seeds = world_of(level, 6), range(3)
    chance = returns(world, lambda env: lambda _: int(env.np_random.integers(len(world.meanings))), seeds)
    assert min(returns(world, world.expert, seeds)) > max(chance)


def test_a_search_can_tell_codes_apart() -> None:
    codes = features(np.arange(1000, dtype=np.int16))
    assert len(set(codes.round(6))) == 1000 and codes.min() >= -1.0 and codes.max() <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_most_draws_are_worth_playing(level: int) -> None:
    keys = [f"proof {number}".encode() for number in range(10)]
    assert sum(measure("rules", level, key, 0).objection() is None for key in keys) >= 5
