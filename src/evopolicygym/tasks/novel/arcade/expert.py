"""The expert of generated games: looks ahead on the true rules, among everything that has appeared.

It does not know what will appear later. At every step it compares a few hundred plans by what the player would touch,
hit and let pass within the next steps, and takes the first action of the best one."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Final

import numpy as np

from evopolicygym.tasks.novel.arcade.game import ArcadeEnv, Game, Thing
from evopolicygym.tasks.novel.arcade.kinds import KindMotion
from evopolicygym.tasks.novel.arcade.pictures import HEADINGS, SIDE, UNIT

STEPS: Final = 24  # looked ahead; more are worse, since a plan is valued for its first shot alone
DISCOUNT: Final = 0.97  # per step
SWITCHES: Final = (1, 2, 3, 5, 7, 10, 14, 19)  # steps after which a plan goes on to its next action
VARIATIONS: Final = 24  # of the plan that was best at the step before
THREE_PARTS: Final = 48  # plans of three random parts
END_LOSS: Final = 3.0  # what the end of an episode costs beyond its reward
GONE: Final = -1000  # position of a thing that is no longer there
COUNTDOWN: Final = np.arange(STEPS, 0, -1).astype(np.uint8)[:, None, None]  # by step: the earlier, the larger

Array = np.ndarray[Any, np.dtype[Any]]


class LookAhead:
    """Chooses actions for an environment by comparing plans. Plans are columns, and all arrays have them as their last
    axis: numpy is fastest along it."""

    def __init__(self, game: Game, env: ArcadeEnv) -> None:
        self._game, self._env = game, env
        self._generator = np.random.default_rng(0)
        controls, kinds = game.controls, game.kinds
        # Tables by action * HEADINGS + heading; those of pushes have a row for x and one for y.
        self._turn = np.array(controls.turn).reshape(-1)
        self._push = np.ascontiguousarray(np.array(controls.push).reshape(-1, 2).T)
        pushes_turn = any(len(set(pushes)) > 1 for pushes in controls.push)
        turns = any(list(turn) != list(range(HEADINGS)) for turn in controls.turn)
        self._turns = turns and (pushes_turn or game.shooting is not None)  # whether headings change and matter
        self._least, self._most = (np.array(ends, float)[:, None] for ends in zip(*controls.bounds, strict=True))
        library = _library(controls.shoots, controls.rest, len(controls.names), self._generator)
        self._plans = np.ascontiguousarray(np.array(library).T)
        self._best = self._plans[:, 0]
        self._discounts = DISCOUNT ** np.arange(STEPS + 1)
        # Tables by kind.
        self._reaches = np.array([game.reach(kind, game.player[0]) for kind in kinds], np.int16)
        shot = game.shooting.sprite if game.shooting else game.player[0]
        self._shot_reaches = np.array(
            [game.reach(kind, shot) if kind.stops_shots else -1 for kind in kinds], np.float32
        )
        self._touch, self._hit, self._arrive = (
            np.array([getattr(kind, name) for kind in kinds]) for name in ("touch", "hit", "arrive")
        )
        self._stages, self._ends = np.array([kind.stage for kind in kinds]), np.array([kind.ends for kind in kinds])

    def act(self, _: Any) -> int:
        plans = np.concatenate((self._varied(), self._plans), axis=1)
        best = plans[:, int(np.argmax(self._values(plans)))]
        self._best = np.append(best[1:], self._game.controls.rest)
        return int(best[0])

    def _varied(self) -> Array:
        """Return the last best plan, and variations of it: one action held for some steps somewhere in it."""
        plans = np.repeat(self._best[:, None], 1 + VARIATIONS, axis=1)
        starts = self._generator.integers(0, STEPS // 2, VARIATIONS).tolist()
        lengths = self._generator.integers(1, 8, VARIATIONS).tolist()
        actions = self._generator.integers(0, len(self._game.controls.names), VARIATIONS).tolist()
        for number, (start, length, action) in enumerate(zip(starts, lengths, actions, strict=True), 1):
            plans[start : start + length, number] = action
        return plans

    def _values(self, plans: Array) -> Array:
        env, game = self._env, self._game
        if lag := game.controls.lag:
            plans = np.concatenate((np.repeat(np.array(env.waiting)[:, None], plans.shape[1], axis=1), plans[:-lag]))
        places, headings = self._moves(plans)
        centre = (abs(places[-1, 0] - SIDE / 2) + abs(places[-1, 1] - SIDE / 2)) * -0.0005
        things = env.things
        if not things:
            return np.asarray(centre)
        pixels = np.floor(places + 0.5).astype(np.int16)
        numbers = np.array([thing.number for thing in things])
        ways = Ways(things, env.steps, pixels)
        touched = self._contacts(numbers, ways, pixels)
        fired = plans == game.controls.shoots if game.shooting else None
        hits = None if fired is None else self._hits(fired, numbers, ways, places, headings)
        total = self._worth(things, numbers, touched, hits) + centre
        if game.shooting and fired is not None:
            total -= game.shooting.cost * fired.any(axis=0)
        return np.asarray(total)

    def _moves(self, plans: Array) -> tuple[Array, Array]:
        """Return where the player is at every step of every plan, (steps, 2, plans), and its heading."""
        env, keep, count = self._env, self._game.controls.keep, plans.shape[1]
        actions, headings = plans * HEADINGS, np.full(plans.shape, env.heading)
        if self._turns:
            heading = headings[0]
            for action, after in zip(actions, headings, strict=True):
                heading = self._turn.take(action + heading, out=after, mode="clip")  # with "raise" it would be copied
        actions += headings
        pushes, places = self._push.take(actions, axis=1), np.empty((STEPS, 2, count))
        place, velocity = (
            np.repeat(np.array(start)[:, None], count, axis=1) for start in ((env.x, env.y), (env.speed_x, env.speed_y))
        )
        for step, there in enumerate(places):
            if keep:
                velocity *= keep
                velocity += pushes[:, step]
            else:
                velocity = pushes[:, step]
            np.add(place, velocity, out=there)
            place = np.minimum(np.maximum(there, self._least, out=there), self._most, out=there)
        return places, headings

    def _contacts(self, numbers: Array, ways: Ways, pixels: Array) -> Array:
        """Return the step at which each thing is first touched, (things, plans); ``STEPS`` if it is not."""

        def is_near(way: Array, chosen: Any) -> Array:
            reach = self._reaches[numbers[chosen], None]
            from_left, from_top = way + reach
            # A distance from -reach to reach, plus reach, is at most 2 * reach; below 0, it is large without a sign.
            most = (2 * reach).astype(np.uint16)
            near: Array = (from_left - pixels[:, 0, None]).view(np.uint16) <= most
            near &= (from_top - pixels[:, 1, None]).view(np.uint16) <= most
            return near

        return _first(ways.where(is_near))

    def _hits(self, fired: Array, numbers: Array, ways: Ways, places: Array, headings: Array) -> Array:
        """Return the step at which each thing is hit by the plan's first shot or by one in flight."""
        env, shooting = self._env, self._game.shooting
        assert shooting is not None
        hits = np.full((len(numbers), fired.shape[1]), STEPS, np.uint8)
        steps = np.arange(1, STEPS + 1)[:, None]
        for shot_x, shot_y, speed_x, speed_y in env.shots:
            flying = self._hit_first(numbers, ways, shot_x + steps * speed_x, shot_y + steps * speed_y)
            np.minimum(hits, flying, out=hits)
        ready = max(0, env.ready - env.steps - 1)
        shot = _first(fired[ready:, None], ready)[0]
        columns = np.flatnonzero(shot < STEPS)
        when = shot[columns].astype(int)
        speed_x, speed_y = shooting.speed * np.array(UNIT)[headings[when, columns]].T
        flown = steps - when
        shots = (
            np.where(flown > 0, places[when, axis, columns] + flown * speed, -1.0)
            for axis, speed in enumerate((speed_x, speed_y))
        )
        own = self._hit_first(numbers, ways.of(columns), *shots)
        hits[:, columns] = np.minimum(hits[:, columns], own)
        return hits

    def _hit_first(self, numbers: Array, ways: Ways, x: Array, y: Array) -> Array:
        """Return when a shot hits each thing; it hits only the first one in its way."""
        across, down = x[:, None].astype(np.float32), y[:, None].astype(np.float32)

        def is_near(way: Array, chosen: Any) -> Array:
            reach = self._shot_reaches[numbers[chosen], None]
            near: Array = abs(way[0] - across) <= reach
            near &= abs(way[1] - down) <= reach
            return near

        near = ways.where(is_near)
        near &= ((x >= 0) & (x < SIDE) & (y >= 0) & (y < SIDE))[:, None]
        steps = _first(near)
        is_first = np.arange(len(numbers))[:, None] == steps.argmin(axis=0)
        return np.where(is_first, steps, np.uint8(STEPS))

    def _worth(self, things: list[Thing], numbers: Array, touched: Array, hits: Array | None) -> Array:
        """Return the discounted rewards of what is touched, hit and let pass."""
        touch, hit, arrive = (table[numbers][:, None] for table in (self._touch, self._hit, self._arrive))
        if hits is None:
            hits = np.full((len(things), 1), STEPS)
        is_hit = hits <= touched
        when = np.where(is_hit, hits, touched)
        value = np.where(is_hit, hit, touch)
        if self._game.stages:
            ordered = self._stages[numbers] >= 0
            value[ordered] = self._in_order(self._stages[numbers[ordered], None], when[ordered], value[ordered])
        over = np.where(self._ends[numbers][:, None] & (touched < hits), touched, STEPS).min(axis=0)
        is_met = (when < STEPS) & (when <= over)
        arrival = np.array([[len(thing.places) - (self._env.steps - thing.born)] for thing in things])
        worth = np.where(is_met, value * self._discounts.take(when), arrive * DISCOUNT**arrival)
        total = np.ascontiguousarray(worth.T).sum(axis=1)  # the last bits depend on the order of a sum
        return np.asarray(total - END_LOSS * (over < STEPS) * self._discounts[over])

    def _in_order(self, stages: Array, when: Array, value: Array) -> Array:
        """Return the values of things that have a place in the needed order: the next one counts first."""
        game, stage = self._game, self._env.stage
        done = np.full(when.shape[1], -1)
        is_gain = value > 0
        result = np.where(is_gain, 0.0, value)
        for _ in range(game.stages):
            is_later = is_gain & (when > done)
            is_next = is_later & (stages == stage)
            reached = np.where(is_next, when, STEPS).min(axis=0, initial=STEPS)
            is_taken = is_next & (when == reached) & (when < STEPS)
            is_wrong = is_later & (stages != stage) & (when < reached)
            result = np.where(is_taken, value, np.where(is_wrong, -value, result))
            done, stage = reached, (stage + 1) % game.stages
        return np.asarray(result)


class Ways:
    """Positions of things in the next steps. Most are the same in all plans, (2, steps, things, 1); those of chasing
    things are not, (2, steps, chasing things, plans)."""

    def __init__(self, things: list[Thing], now: int, pixels: Array) -> None:
        self._alike = np.full((2, STEPS, len(things), 1), GONE, np.int16)
        self._chasing = [n for n, thing in enumerate(things) if thing.kind.motion is KindMotion.CHASE]
        self._chased = np.full((2, STEPS, len(self._chasing), pixels.shape[2]), GONE, np.int16)
        for number, thing in enumerate(things):
            if thing.kind.motion is not KindMotion.CHASE:
                coming = thing.track[now - thing.born + 1 :][:STEPS]
                self._alike[:, : len(coming), number, 0] = coming.T
        for number, way in zip(self._chasing, np.moveaxis(self._chased, 2, 0), strict=True):
            _chase(things[number], now, way, pixels)

    def of(self, columns: Array) -> Ways:
        """Return the ways in some of the plans."""
        part = copy(self)
        if self._chasing:
            part._chased = self._chased[..., columns]
        return part

    def where(self, is_near: Callable[[Array, Any], Array]) -> Array:
        """Return where a condition on positions holds, which also gets the numbers of its things."""
        near = is_near(self._alike, slice(None))
        if self._chasing:
            near = np.repeat(near, self._chased.shape[3], axis=2) if near.shape[2] == 1 else near
            near[:, self._chasing] = is_near(self._chased, self._chasing)
        return near


def _chase(thing: Thing, now: int, way: Array, pixels: Array) -> None:
    """Fill in the way of a chasing thing."""
    place = np.repeat(np.array(((thing.x,), (thing.y,)), np.int16), pixels.shape[2], axis=1)
    age, speed = now - thing.born, thing.kind.speed
    for step in range(min(STEPS, thing.kind.life - age - 1)):
        length = int(speed * (age + step + 1)) - int(speed * (age + step))
        gap = pixels[step] - place
        place += np.minimum(np.maximum(gap, -length, out=gap), length, out=gap)
        way[:, step] = place


def _first(near: Array, start: int = 0) -> Array:
    """Return the first step at which something is near, from (steps, things, plans) to (things, plans); ``STEPS`` if it
    never is. The steps begin at ``start``."""
    return np.asarray(np.uint8(STEPS) - (near.view(np.uint8) * COUNTDOWN[start:]).max(axis=0))


def _library(shoots: int, rest: int, actions: int, generator: np.random.Generator) -> list[list[int]]:
    """Return plans of one, two and three parts; a shot is one step in a plan, and rest follows it."""
    moves = [action for action in range(actions) if action != shoots]
    plans = [[rest] * STEPS] + [[action] * STEPS for action in moves]
    plans += [[a] * k + [b] * (STEPS - k) for a in moves for b in moves if a != b for k in SWITCHES]
    for _ in range(THREE_PARTS):
        (a, b), (first, second) = generator.choice(moves, 2).tolist(), generator.integers(1, STEPS // 2, 2).tolist()
        plans.append([a] * first + [b] * second + [rest] * (STEPS - first - second))
    if shoots >= 0:
        plans += [[a] * k + [shoots] + [rest] * (STEPS - k - 1) for a in moves for k in (0, *SWITCHES)]
        turned = [(a, b, k) for a in moves for b in moves if a != b for k in SWITCHES[::2]]
        plans += [[a] * k + [b] + [shoots] + [rest] * (STEPS - k - 2) for a, b, k in turned]
    return plans
