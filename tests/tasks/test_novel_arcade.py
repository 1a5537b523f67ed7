"""Generated games: drawn the same from the same key, played by their rules, and played well by the expert."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evopolicygym.tasks.contract import first_sentence
from evopolicygym.tasks.novel.arcade import world as arcade
from evopolicygym.tasks.novel.arcade.game import ArcadeEnv, Game, Thing
from evopolicygym.tasks.novel.arcade.kinds import Kind, KindMotion
from evopolicygym.tasks.novel.arcade.world import ArcadeWorld, GameGoal, Steering
from evopolicygym.tasks.novel.measure import returns
from evopolicygym.tasks.spaces import constant_actions, schema_of

LEVELS = (1, 2, 3, 4)


def world_of(level: int, key: int = 0) -> ArcadeWorld:
    return arcade.draw(np.random.default_rng(key), level)


def game_with(level: int, wanted: Callable[[Game], bool]) -> Game:
    """Return the first game with a property. Nothing appears in it but what a test puts there."""
    game = next(game for key in range(200) if wanted(game := world_of(level, key).game))
    return replace(game, alive=0.0, kinds=tuple(replace(kind, interval=0.0) for kind in game.kinds))


def started(game: Game) -> ArcadeEnv:
    env = ArcadeEnv(game)
    env.reset(seed=1)
    return env


def put(env: ArcadeEnv, kind: Kind, x: int, y: int, steps: int = 50) -> Thing:
    """Put a thing on the screen that stays there for some steps."""
    thing = Thing(env.game.kinds.index(kind), kind, env.steps, np.tile((x, y), (steps, 1)))
    env.things.append(thing)
    return thing


def rewards(env: ArcadeEnv, steps: int) -> list[float]:
    """Return the rewards of steps in which the player rests."""
    return [float(env.step(env.game.controls.rest)[1]) for _ in range(steps)]


def has(test: Callable[[Kind], Any]) -> Callable[[Game], bool]:
    return lambda game: any(test(kind) for kind in game.kinds)


def find(game: Game, test: Callable[[Kind], Any]) -> Kind:
    return next(kind for kind in game.kinds if test(kind))


def sprites(game: Game) -> list[bytes]:
    return [kind.sprite.pixels.tobytes() for kind in game.kinds] + [each.pixels.tobytes() for each in game.player]


@pytest.mark.parametrize("level", LEVELS)
def test_a_game_follows_from_its_generator(level: int) -> None:
    first, second = world_of(level), world_of(level)
    assert first.texts() == second.texts()
    assert sprites(first.game) == sprites(second.game)
    assert np.array_equal(first.game.background.pixels, second.game.background.pixels)


@pytest.mark.parametrize("level", LEVELS)
def test_two_keys_share_neither_looks_nor_rules(level: int) -> None:
    first, second = world_of(level, 1), world_of(level, 2)
    assert not set(sprites(first.game)) & set(sprites(second.game))
    assert first.texts()["dynamics"] != second.texts()["dynamics"]
    assert first.texts()["action_notes"] != second.texts()["action_notes"]


def test_all_goals_motions_and_ways_of_steering_are_drawn() -> None:
    worlds = [world_of(level, key) for level in LEVELS for key in range(25)]
    assert {world.goal for world in worlds} == set(GameGoal)
    assert {kind.motion for world in worlds for kind in world.game.kinds} == set(KindMotion)
    names = {name.partition(" ")[0] for world in worlds for name in world.game.controls.names}
    assert names == {"rest", "move", "turn", "thrust", "shoot"}
    assert {len(world.game.controls.names) for world in worlds} == {3, 4, 5, 6}
    assert len(Steering) == 4 and {world.game.controls.lag for world in worlds} == {0, 1, 2}


@pytest.mark.parametrize("level", LEVELS)
def test_an_episode_repeats_to_the_bit(level: int) -> None:
    world = world_of(level, 3)
    first, second = (world.make() for _ in range(2))
    assert np.array_equal(first.reset(seed=5)[0], second.reset(seed=5)[0])
    first.action_space.seed(0)
    for _ in range(world.horizon):
        action = first.action_space.sample()
        one, two = first.step(action), second.step(action)
        assert np.array_equal(one[0], two[0]) and one[1:] == two[1:]
        assert first.observation_space.contains(one[0]) and -1 <= one[1] <= 1
        if one[2]:
            break
    assert one[2] or one[3]


def test_cases_differ_by_seed() -> None:
    env = world_of(2).make()
    pictures = []
    for seed in (1, 2, 1):
        env.reset(seed=seed)
        pictures.append(np.stack([env.step(0)[0] for _ in range(30)]))
    assert np.array_equal(pictures[0], pictures[2]) and not np.array_equal(pictures[0], pictures[1])


@pytest.mark.parametrize("level", LEVELS)
def test_the_expert_clearly_beats_trivial_policies(level: int) -> None:
    world, seeds = world_of(level, 6), range(1)
    constants = constant_actions(schema_of(world.make().action_space))
    trivial = [returns(world, lambda _, action=action: lambda _: action, seeds) for action in constants]
    assert sum(returns(world, world.expert, seeds)) > max(map(sum, trivial))


def test_touching_pays_once_and_the_thing_is_gone() -> None:
    game = game_with(1, has(lambda kind: kind.touch))
    env, kind = started(game), find(game, lambda kind: kind.touch)
    put(env, kind, *env.place)
    assert rewards(env, 3) == [kind.touch, 0.0, 0.0]
    assert not env.things


def test_a_thing_is_touched_where_the_sprites_overlap() -> None:
    game = game_with(1, has(lambda kind: kind.touch))
    env, kind = started(game), find(game, lambda kind: kind.touch)
    reach = game.reach(kind, game.player[0])
    put(env, kind, env.place[0] + reach + 1, env.place[1])
    assert rewards(env, 1) == [0.0]
    put(env, kind, env.place[0] + reach, env.place[1])
    assert rewards(env, 1) == [kind.touch]


def test_a_delayed_effect_comes_later() -> None:
    game = game_with(3, has(lambda kind: kind.touch and kind.delay and not kind.ends))
    env, kind = started(game), find(game, lambda kind: kind.touch and kind.delay and not kind.ends)
    put(env, kind, *env.place)
    assert rewards(env, kind.delay + 2) == [0.0] * kind.delay + [kind.touch, 0.0]


def test_a_touch_can_end_the_episode_and_costs_even_if_it_is_delayed() -> None:
    game = game_with(3, has(lambda kind: kind.ends and kind.delay))
    env, kind = started(game), find(game, lambda kind: kind.ends and kind.delay)
    put(env, kind, *env.place)
    _, reward, terminated, _, _ = env.step(game.controls.rest)
    assert terminated and reward == kind.touch < 0


def test_a_needed_order_pays_in_turn_and_costs_out_of_turn() -> None:
    game = game_with(4, lambda game: game.stages == 2 and not any(kind.hit for kind in game.kinds))
    game = replace(game, kinds=tuple(replace(kind, delay=0) for kind in game.kinds))
    env = started(game)
    first, second = (find(game, lambda kind, stage=stage: kind.stage == stage) for stage in (0, 1))
    paid = []
    for kind in (first, second, second, first, first, second):
        put(env, kind, *env.place)
        paid += rewards(env, 1)
    assert paid == [first.touch, second.touch, -second.touch, first.touch, -first.touch, -second.touch]


def test_a_shot_hits_the_first_thing_in_its_way_and_another_needs_time() -> None:
    game = game_with(
        1, lambda game: game.shooting is not None and game.controls.bounds[1][0] == game.controls.bounds[1][1]
    )
    shooting, kind = game.shooting, find(game, lambda kind: kind.hit > 0)
    assert shooting is not None
    env = started(game)
    x, y = env.place
    near, far = (put(env, kind, x, abs(y - distance)) for distance in (20, 40))
    if y < 32:
        near.places, far.places = [[x, y + 20]] * 50, [[x, y + 40]] * 50
    paid = [float(env.step(game.controls.shoots)[1]) for _ in range(shooting.pause + 1)]
    assert [step for step, reward in enumerate(paid) if reward < 0] in ([0], [0, shooting.pause])
    paid += rewards(env, 30)
    assert near not in env.things and far not in env.things
    assert sum(paid) == pytest.approx(2 * kind.hit - 2 * shooting.cost)


def test_what_gets_to_a_base_pays_there() -> None:
    game = game_with(2, has(lambda kind: kind.arrive))
    env, kind = started(game), find(game, lambda kind: kind.arrive)
    put(env, kind, -5, -5, steps=4)
    assert rewards(env, 5) == pytest.approx([0.0, 0.0, 0.0, kind.arrive, 0.0])
    assert not env.things


def test_a_chasing_thing_gets_to_a_player_who_rests() -> None:
    game = game_with(2, has(lambda kind: kind.motion is KindMotion.CHASE))
    env, kind = started(game), find(game, lambda kind: kind.motion is KindMotion.CHASE)
    env.things.append(Thing(game.kinds.index(kind), kind, env.steps, np.array([[0, 0]])))
    paid = rewards(env, kind.life)
    assert paid.count(kind.touch) == 1 and sum(paid) == kind.touch


def test_a_late_action_takes_effect_after_its_lag() -> None:
    game = game_with(4, lambda game: game.controls.lag == 2 and game.controls.names[0].startswith("move"))
    env = started(replace(game, controls=replace(game.controls, bounds=((0, 63), (0, 63)))))
    env.x = env.y = 32.0
    places = []
    for _ in range(3):
        env.step(0)
        places.append((env.x, env.y))
    assert places[0] == places[1] == (32.0, 32.0) != places[2]


@pytest.mark.parametrize("level", LEVELS)
def test_texts_tell_the_rules_at_full_and_none_at_brief(level: int) -> None:
    world = world_of(level, 4)
    texts, other = world.texts(), world_of(level, 5).texts()
    for number, kind in enumerate(world.game.kinds, 1):
        assert f"kind {number}: " in texts["dynamics"] and kind.sprite.rows() in texts["dynamics"]
    assert all(name in texts["action_notes"] for name in world.game.controls.names)
    parts = ("title", "objective", "observation_notes", "action_notes", "reward")
    brief = [first_sentence(texts[name]) for name in parts]
    assert brief == [first_sentence(other[name]) for name in parts]
    assert not any(character.isdigit() for character in "".join(brief).replace("between -1 and 1", ""))


def test_the_screen_shows_things_and_a_drawing_is_larger() -> None:
    game = game_with(1, lambda game: game.background.rate == 0)
    env, kind = started(game), game.kinds[0]
    put(env, kind, 63 - env.place[0], 63 - env.place[1])
    screen = env.step(game.controls.rest)[0]
    assert set(map(bytes, kind.sprite.pixels[kind.sprite.mask[:, :, 0]])) <= set(map(bytes, screen.reshape(-1, 3)))
    drawing = env.render()
    assert drawing.shape == (396, 396, 3) and drawing.dtype == np.uint8
    assert np.array_equal(drawing[6:-6:6, 6:-6:6], screen)
