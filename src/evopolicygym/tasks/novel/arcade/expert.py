"""The expert of generated games: looks ahead on the true rules, among everything that has appeared.

It does not know what will appear later. At every step it compares a few hundred plans by what the player would touch,
hit and let pass within the next steps, and takes the first action of the best one."""

from __future__ import annotations

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

Array = np.ndarray[Any, np.dtype[Any]]


class LookAhead:
    """Chooses actions for an environment by comparing plans."""

    def __init__(self, game: Game, env: ArcadeEnv) -> None:
        self._game, self._env = game, env
        self._generator = np.random.default_rng(0)
        controls = game.controls
        # Tables by action * HEADINGS + heading; those of pushes have a row for x and one for y.
        self._turn = np.array(controls.turn).reshape(-1)
        self._push = np.ascontiguousarray(np.array(controls.push).reshape(-1, 2).T)
        self._plans = np.array(_library(controls.shoots, controls.rest, len(controls.names), self._generator))
        self._best = self._plans[0]
        self._discounts = DISCOUNT ** np.arange(STEPS + 1)
        self._reaches = np.array([game.reach(kind, game.player[0]) for kind in game.kinds])
        shot = game.shooting.sprite if game.shooting else game.player[0]
        self._shot_reaches = np.array([game.reach(kind, shot) for kind in game.kinds])

    def act(self, _: Any) -> int:
        plans = np.concatenate((self._varied(), self._plans))
        best = plans[int(np.argmax(self._values(plans)))]
        self._best = np.append(best[1:], self._game.controls.rest)
        return int(best[0])

    def _varied(self) -> Array:
        """Return the last best plan, and variations of it: one action held for some steps somewhere in it."""
        plans = np.tile(self._best, (1 + VARIATIONS, 1))
        starts = self._generator.integers(0, STEPS // 2, VARIATIONS).tolist()
        lengths = self._generator.integers(1, 8, VARIATIONS).tolist()
        actions = self._generator.integers(0, len(self._game.controls.names), VARIATIONS).tolist()
        for number, (start, length, action) in enumerate(zip(starts, lengths, actions, strict=True), 1):
            plans[number, start : start + length] = action
        return plans

    def _values(self, plans: Array) -> Array:
        env, game = self._env, self._game
        lag = game.controls.lag
        if lag:
            first = np.tile(env.waiting, (len(plans), 1))
            plans = np.concatenate((first, plans[:, : STEPS - lag]), axis=1)
        x, y, headings = self._moves(plans)
        across, down = np.floor(x + 0.5).astype(np.int16), np.floor(y + 0.5).astype(np.int16)
        centre = (abs(x[:, -1] - SIDE / 2) + abs(y[:, -1] - SIDE / 2)) * -0.0005
        things = env.things
        if not things:
            return np.asarray(centre)
        ways = self._ways(things, across, down)
        touched = self._contacts(things, ways, across, down)
        hits = self._hits(plans, things, ways, x, y, headings) if game.shooting else None
        total = self._worth(things, touched, hits) + centre
        if game.shooting:
            total -= game.shooting.cost * (plans == game.controls.shoots).any(axis=1)
        return total

    def _moves(self, plans: Array) -> tuple[Array, Array, Array]:
        """Return where the player is at every step of every plan, and its heading."""
        env, controls = self._env, self._game.controls
        actions = np.ascontiguousarray(plans.T) * HEADINGS  # by step, which is fastest one after the other
        headings, heading = np.empty(actions.shape, int), np.full(len(plans), env.heading)
        for step in range(STEPS):
            heading = self._turn.take(actions[step] + heading, out=headings[step])
        pushes, places = self._push.take(actions + headings, axis=1), np.empty((2, *actions.shape))
        place, speed = (env.x, env.y), (env.speed_x, env.speed_y)
        for axis, (least, most) in enumerate(controls.bounds):
            now, velocity = (np.full(len(plans), float(start[axis])) for start in (place, speed))
            for push, there in zip(pushes[axis], places[axis], strict=True):
                velocity *= controls.keep
                velocity += push
                now += velocity
                np.minimum(np.maximum(now, least, out=now), most, out=now)
                there[:] = now
        x, y = (np.ascontiguousarray(along.T) for along in places)
        return x, y, np.ascontiguousarray(headings.T)

    def _ways(self, things: list[Thing], across: Array, down: Array) -> Array:
        """Return the positions of all things: (2, plans or 1, steps, things)."""
        chasing = [n for n, thing in enumerate(things) if thing.kind.motion is KindMotion.CHASE]
        ways = np.full((2, len(across) if chasing else 1, STEPS, len(things)), GONE, np.int16)
        for number, thing in enumerate(things):
            if thing.kind.motion is not KindMotion.CHASE:
                age = self._env.steps - thing.born
                coming = thing.track[age + 1 : age + 1 + STEPS]
                ways[:, :, : len(coming), number] = coming.T[:, None]
        for number in chasing:
            self._chase(things[number], ways[:, :, :, number], across, down)
        return ways

    def _chase(self, thing: Thing, way: Array, across: Array, down: Array) -> None:
        x, y = (np.full(len(across), value, np.int16) for value in (thing.x, thing.y))
        age, speed = self._env.steps - thing.born, thing.kind.speed
        for step in range(min(STEPS, thing.kind.life - age - 1)):
            pixels = int(speed * (age + step + 1)) - int(speed * (age + step))
            x = x + np.minimum(np.maximum(across[:, step] - x, -pixels), pixels)
            y = y + np.minimum(np.maximum(down[:, step] - y, -pixels), pixels)
            way[0, :, step], way[1, :, step] = x, y

    def _contacts(self, things: list[Thing], ways: Array, across: Array, down: Array) -> Array:
        """Return the step at which each thing is first touched, by plan; ``STEPS`` if it is not."""
        reach = self._reaches[[thing.number for thing in things]].astype(np.int16)
        from_left, from_top = ways + reach
        # A distance from -reach to reach, plus reach, is at most 2 * reach; negative numbers are large without a sign.
        most = (2 * reach).astype(np.uint16)
        near = (from_left - across[:, :, None]).view(np.uint16) <= most
        near &= (from_top - down[:, :, None]).view(np.uint16) <= most
        return _first(near)

    def _hits(self, plans: Array, things: list[Thing], ways: Array, x: Array, y: Array, headings: Array) -> Array:
        """Return the step at which each thing is hit by the plan's first shot or by one in flight."""
        env, shooting = self._env, self._game.shooting
        assert shooting is not None
        hits = np.full((len(plans), len(things)), STEPS)
        steps = np.arange(1, STEPS + 1)
        for shot_x, shot_y, speed_x, speed_y in env.shots:
            flying = (shot_x + steps * speed_x)[None], (shot_y + steps * speed_y)[None]
            hits = np.minimum(hits, self._hit_first(things, ways, *flying))
        fired = plans == self._game.controls.shoots
        fired[:, : max(0, env.ready - env.steps - 1)] = False
        rows = np.flatnonzero(fired.any(axis=1))
        when = np.argmax(fired[rows], axis=1)
        speed_x, speed_y = shooting.speed * np.array(UNIT)[headings[rows, when]].T
        flown = np.arange(STEPS)[None] - when[:, None] + 1.0
        shots = (
            np.where(flown > 0, start[rows, when][:, None] + flown * speed[:, None], -1.0)
            for start, speed in ((x, speed_x), (y, speed_y))
        )
        own = self._hit_first(things, ways if ways.shape[1] == 1 else ways[:, rows], *shots)
        hits[rows] = np.minimum(hits[rows], own)
        return hits

    def _hit_first(self, things: list[Thing], ways: Array, x: Array, y: Array) -> Array:
        """Return when a shot hits each thing; it hits only the first one in its way."""
        reach = self._shot_reaches[[thing.number for thing in things]]
        reach = np.where([thing.kind.stops_shots for thing in things], reach, -1).astype(np.float32)
        near = abs(ways[0] - x[:, :, None].astype(np.float32)) <= reach
        near &= abs(ways[1] - y[:, :, None].astype(np.float32)) <= reach
        near &= ((x >= 0) & (x < SIDE) & (y >= 0) & (y < SIDE))[:, :, None]
        steps = _first(near)
        is_first = np.arange(len(things))[None] == steps.argmin(axis=1)[:, None]
        return np.where(is_first, steps, STEPS)

    def _worth(self, things: list[Thing], touched: Array, hits: Array | None) -> Array:
        """Return the discounted rewards of what is touched, hit and let pass."""
        kinds = [thing.kind for thing in things]
        touch, hit, arrive = (np.array([getattr(kind, name) for kind in kinds]) for name in ("touch", "hit", "arrive"))
        if hits is None:
            hits = np.full((1, len(things)), STEPS)
        is_hit = hits <= touched
        when = np.where(is_hit, hits, touched)
        value = np.where(is_hit, hit, touch)
        if self._game.stages:
            value = self._in_order(np.array([kind.stage for kind in kinds]), when, value)
        ending = np.array([kind.ends for kind in kinds])
        over = np.where(ending & (touched < hits), touched, STEPS).min(axis=1)
        is_met = (when < STEPS) & (when <= over[:, None])
        arrival = np.array([len(thing.places) - (self._env.steps - thing.born) for thing in things])
        total = np.where(is_met, value * self._discounts[when], arrive * DISCOUNT**arrival).sum(axis=1)
        return np.asarray(total - END_LOSS * (over < STEPS) * self._discounts[over])

    def _in_order(self, stages: Array, when: Array, value: Array) -> Array:
        """Return the values of things that have a place in the needed order: the next one counts first."""
        game, stage = self._game, self._env.stage
        done = np.zeros(len(when), int) - 1
        ordered = (stages >= 0) & (value > 0)
        result = np.where(ordered, 0.0, value)
        for _ in range(game.stages):
            is_next = ordered & (stages == stage) & (when > done[:, None])
            reached = np.where(is_next, when, STEPS).min(axis=1)
            is_taken = is_next & (when == reached[:, None]) & (when < STEPS)
            is_wrong = ordered & (stages != stage) & (when > done[:, None]) & (when < reached[:, None])
            result = np.where(is_taken, value, np.where(is_wrong, -value, result))
            done, stage = reached, (stage + 1) % game.stages
        return np.asarray(result)


def _first(near: Array) -> Array:
    """Return the first step at which something is near: from (plans, steps, things) to (plans, things)."""
    first = near.argmax(axis=1)
    is_near = np.take_along_axis(near, first[:, None], axis=1)[:, 0]
    return np.where(is_near, first, STEPS)


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
