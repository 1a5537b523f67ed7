"""Generated creatures: drawn the same from the same key, repeated to the bit, and walked by the expert."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evopolicygym.tasks.contract import first_sentence
from evopolicygym.tasks.novel.creature import gait as creature_gait
from evopolicygym.tasks.novel.creature import world as creature
from evopolicygym.tasks.novel.creature.body import DROP, EFFORT, JOINTS, LIMBS, MOST_GAIN, Aim
from evopolicygym.tasks.novel.creature.text import state_names
from evopolicygym.tasks.novel.creature.world import CreatureEnv, CreatureWorld
from evopolicygym.tasks.novel.measure import returns

LEVELS = (1, 2, 3, 4)


def world_of(level: int, key: int = 0) -> CreatureWorld:
    return creature.draw(np.random.default_rng(key), level)


def world_with(aim: Aim, level: int) -> CreatureWorld:
    return next(world for key in range(40) if (world := world_of(level, key)).aim is aim)


def env_of(world: CreatureWorld, seed: int = 0) -> CreatureEnv:
    env = CreatureEnv(world)
    env.reset(seed=seed)
    return env


def episode(env: CreatureEnv, seed: int, actions: Any) -> list[Any]:
    observation, _ = env.reset(seed=seed)
    return [observation.tobytes()] + [(step[0].tobytes(), *step[1:4]) for step in map(env.step, actions)]


def actions_of(env: CreatureEnv, count: int) -> list[Any]:
    env.action_space.seed(0)
    return [env.action_space.sample() for _ in range(count)]


@pytest.mark.parametrize("level", LEVELS)
def test_a_world_follows_from_its_generator(level: int) -> None:
    first, second = world_of(level), world_of(level)
    assert first.body == second.body and first.body.model() == second.body.model()
    assert first.texts() == second.texts()


@pytest.mark.parametrize("level", LEVELS)
def test_two_keys_share_neither_body_nor_sensors(level: int) -> None:
    first, second = world_of(level, 1), world_of(level, 2)
    numbers = [{part.strength for part in world.body.segments} for world in (first, second)]
    assert numbers[0].isdisjoint(numbers[1])
    assert not np.array_equal(first.sensors, second.sensors)
    assert first.palette != second.palette


@pytest.mark.parametrize("level", LEVELS)
def test_bodies_have_the_limbs_and_joints_of_their_level(level: int) -> None:
    bodies = [world_of(level, key).body for key in range(12)]
    assert {len(body.limbs) for body in bodies} <= set(LIMBS[level])
    assert {len(body.segments) for body in bodies} <= set(JOINTS[level])
    assert all(1 <= len(limb.segments) <= 3 for body in bodies for limb in body.limbs)


def test_all_aims_and_both_kinds_of_motors_are_drawn() -> None:
    worlds = [world_of(1, key) for key in range(20)]
    assert {world.aim for world in worlds} == set(Aim)
    assert {world.body.servos for world in worlds} == {True, False}


@pytest.mark.parametrize("level", LEVELS)
def test_an_episode_repeats_to_the_bit_also_in_a_used_environment(level: int) -> None:
    world = world_of(level, 3)
    env = env_of(world)
    actions = actions_of(env, 60)
    first = episode(env, 5, actions)
    assert episode(env, 5, actions) == first == episode(CreatureEnv(world), 5, actions)
    assert episode(env, 6, actions) != first


@pytest.mark.parametrize("level", LEVELS)
def test_an_episode_has_a_bounded_return_and_its_horizon(level: int) -> None:
    world = world_with(Aim.FAR, level)
    env, total = env_of(world), 0.0
    for step, action in enumerate(actions_of(env, world.horizon), start=1):
        observation, reward, terminated, truncated, _ = env.step(action)
        assert env.observation_space.contains(observation)
        assert -EFFORT <= reward <= world.scale * MOST_GAIN
        assert not terminated and truncated == (step == world.horizon)
        total += reward
    assert total >= world.failure_return
    assert not env.data.warning.number.any(), "the simulation became unstable"


def test_going_back_and_forth_is_not_rewarded_twice() -> None:
    world = world_with(Aim.FAR, 1)
    env, still = env_of(world), np.zeros(world.model.nu, np.float32)
    direction = np.cos(world.heading)
    rewards = []
    for place in (1.0, 0.0, 0.9):
        env.data.qpos[0], env.data.qvel[:] = place * direction, 0.0
        rewards.append(env.step(still)[1])
    assert rewards[0] == pytest.approx(world.scale * MOST_GAIN)
    assert rewards[1] == rewards[2] == 0.0


@pytest.mark.parametrize("level", [1, 3])
def test_an_arrival_is_rewarded_and_brings_another_place(level: int) -> None:
    world = world_with(Aim.PLACES, level)
    env, still = env_of(world), np.zeros(world.model.nu, np.float32)
    before = env.place
    env.data.qpos[0] = before[0]
    if not world.body.flat:
        env.data.qpos[1] = before[1]
    assert env.step(still)[1] > world.scale * MOST_GAIN
    assert env.place != before


@pytest.mark.parametrize("level", [1, 3])
def test_an_episode_ends_when_the_load_falls(level: int) -> None:
    world = world_with(Aim.LOAD, level)
    env, still = env_of(world), np.zeros(world.model.nu, np.float32)
    assert not env.has_dropped() and env.step(still)[1] > -DROP * world.scale
    if world.body.flat:
        env.data.qpos[2] = np.pi / 2
    else:
        env.data.qpos[3:7] = (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)
    _, reward, terminated, *_ = env.step(still)
    assert terminated and reward <= (MOST_GAIN - DROP) * world.scale
    assert world.failure_return < -DROP * world.scale


@pytest.mark.parametrize("level", LEVELS)
def test_texts_tell_the_body_at_full_and_nothing_at_brief(level: int) -> None:
    world = world_of(level, 4)
    texts = world.texts()
    for part in world.body.segments:
        assert f"{part.strength:.6g}" in texts["dynamics"]
    for entry in world.sensors:
        assert state_names(world)[entry] in texts["observation_notes"]
    names = ("objective", "observation_notes", "action_notes", "reward")
    brief = [first_sentence(texts[name]) for name in names]
    assert brief == [first_sentence(world_of(level, 5).texts()[name]) for name in names]
    assert not any(character.isdigit() for character in "".join(brief))


@pytest.mark.parametrize("aim", Aim)
def test_a_picture_follows_the_creature(aim: Aim) -> None:
    world = world_with(aim, 3)
    env = env_of(world)
    before = env.render()
    assert before.shape == (240, 400, 3) and before.dtype == np.uint8
    for action in actions_of(env, 5):
        env.step(action)
    assert not np.array_equal(before, env.render())


@pytest.mark.parametrize("level", LEVELS)
def test_a_short_search_finds_a_gait_that_beats_trivial_policies(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SHORT_STEPS": 8_000, "WHOLE_STEPS": 2_000, "FINAL_CASES": 2}.items():
        monkeypatch.setattr(creature_gait, name, value)
    monkeypatch.setattr(creature_gait, "SCREENS", ((4, 2),))
    world, seeds = replace(world_of(level, 11), horizon=100), range(2)
    chance = returns(world, lambda env: lambda _: env.np_random.uniform(-1.0, 1.0, world.model.nu), seeds)
    still = returns(world, lambda _: lambda __: np.zeros(world.model.nu), seeds)
    numpy_state = np.random.get_state()[1].tobytes()
    expert = returns(world, world.expert, seeds)
    assert np.mean(expert) > max(np.mean(chance), np.mean(still))
    assert np.random.get_state()[1].tobytes() == numpy_state
    assert returns(world, world.expert, seeds) == expert


@pytest.mark.parametrize("level", [1, 2])
def test_gaits_in_a_plane_are_found_for_both_sides(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SHORT_STEPS": 2_000, "WHOLE_STEPS": 1, "FINAL_CASES": 1, "SCREENS": ()}.items():
        monkeypatch.setattr(creature_gait, name, value)
    world = replace(world_with(Aim.PLACES, level), horizon=40)
    env = env_of(world)
    forwards, backwards = world.gait.rhythms
    for place, numbers in ((1.0, forwards), (-1.0, backwards)):
        env.reset(seed=0)
        env.aim_at((place, 0.0))
        alone = creature_gait.Gait(world, (numbers,)).player(env)
        assert np.array_equal(world.gait.player(env)(None), alone(None))


def test_a_trial_that_is_cut_short_expects_the_rest_to_be_like_its_second_half() -> None:
    world = replace(world_with(Aim.FAR, 1), horizon=60)
    search = creature_gait.GaitSearch(world)
    gait = creature_gait.Gait(world, (np.zeros(len(creature_gait.PLANE.widths(world))),))
    whole, half = search.trial(gait, 0, 60), search.trial(gait, 0, 30)
    assert search.steps <= 90 and np.isfinite((whole, half)).all()
    assert search.trial(gait, 0, 60) == whole
