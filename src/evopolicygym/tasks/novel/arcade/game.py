"""The rules of generated games, and their environment: a player among things, seen as a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import gymnasium
import numpy as np

from evopolicygym.tasks.novel.arcade.kinds import (
    NUMBERS,
    OUTSIDE,
    POPPING,
    Kind,
    KindMotion,
    Position,
    build_track,
    straight_track,
)
from evopolicygym.tasks.novel.arcade.pictures import SIDE, UNIT, Background, Sprite, compose

NEAREST: Final = 14  # pixels from the player; nothing pops up nearer
ENLARGED: Final = 6  # times, in a drawing for people


@dataclass(frozen=True)
class Controls:
    """How the player moves. An action first sets the heading to ``turn[action][heading]``; then the velocity becomes
    ``keep * velocity + push[action][heading]``. ``bounds`` are the least and greatest x, then y. An action takes effect
    ``lag`` steps late; before the first one the player rests."""

    turn: tuple[tuple[int, ...], ...]
    push: tuple[tuple[tuple[float, float], ...], ...]
    names: tuple[str, ...]
    shoots: int  # the action that shoots, -1 without one
    rest: int
    keep: float
    bounds: tuple[tuple[int, int], tuple[int, int]]
    lag: int


@dataclass(frozen=True)
class Shooting:
    """The player's shots: a new one at the earliest after ``pause`` steps, and for ``cost``."""

    sprite: Sprite
    speed: float
    pause: int
    cost: float


@dataclass(frozen=True)
class Game:
    """The rules, constants and pictures of a game. ``bullet`` is the number of the kind that others fire, -1 without;
    ``stages`` the length of the needed order; ``player`` has a sprite for every heading."""

    controls: Controls
    kinds: tuple[Kind, ...]
    bullet: int
    stages: int
    alive: float  # reward of a step
    shooting: Shooting | None
    bases: tuple[Position, ...]
    base: Sprite | None
    player: tuple[Sprite, ...]
    background: Background
    heading: int
    horizon: int

    def reach(self, kind: Kind, sprite: Sprite) -> int:
        """Return the greatest distance, in x and in y, at which two sprites touch."""
        return (kind.sprite.size + sprite.size) // 2 - 1


class Thing:
    """A thing that has appeared. ``track`` has its positions by age; that of a chasing thing grows."""

    __slots__ = ("born", "kind", "number", "places", "track", "x", "y")

    def __init__(self, number: int, kind: Kind, born: int, track: Any) -> None:
        self.number, self.kind, self.born, self.track = number, kind, born, track
        self.places: list[list[int]] = track.tolist()
        self.x, self.y = self.places[0]


class ArcadeEnv(gymnasium.Env[Any, Any]):
    """The environment of a game."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, game: Game, render_mode: str | None = None) -> None:
        self.game, self.render_mode = game, render_mode
        self.observation_space = gymnasium.spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(len(game.controls.names))
        self._reaches = [game.reach(kind, game.player[0]) for kind in game.kinds]
        shot = game.shooting.sprite if game.shooting else None
        self._shot_reaches = [game.reach(kind, shot) if shot else 0 for kind in game.kinds]
        self.observes, self.grey = True, False
        self.reset(seed=0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        game = self.game
        (left, right), (top, bottom) = game.controls.bounds
        place = self.np_random.random(2)
        self.x, self.y = left + place[0] * (right - left), top + place[1] * (bottom - top)
        self.speed_x = self.speed_y = 0.0
        self.heading = game.heading
        self.steps = self.ready = self.stage = 0
        self.waiting = [game.controls.rest] * game.controls.lag
        self.things: list[Thing] = []
        self.shots: list[tuple[float, float, float, float]] = []
        self.due: dict[int, float] = {}
        self.reward = 0.0
        self._schedule = self._appearances()
        return self._draw(self.grey) if self.observes else None, {}

    def _appearances(self) -> dict[int, list[tuple[int, list[float]]]]:
        """Draw when things appear, and the numbers that place them."""
        schedule: dict[int, list[tuple[int, list[float]]]] = {}
        for number, kind in enumerate(self.game.kinds):
            if kind.interval <= 0:
                continue
            count = math.ceil(self.game.horizon / (0.5 * kind.interval))
            times = np.cumsum(kind.interval * self.np_random.uniform(0.5, 1.5, count)) - 0.5 * kind.interval
            places = self.np_random.random((count, NUMBERS)).tolist()
            for time, place in zip(times.tolist(), places, strict=True):
                schedule.setdefault(max(1, int(time)), []).append((number, place))
        return schedule

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        game = self.game
        self.steps += 1
        self.waiting.append(int(action))
        reward = game.alive + self._move(self.waiting.pop(0))
        for number, numbers in self._schedule.get(self.steps, ()):
            self._appear(number, numbers)
        self._advance()
        if self.shots:
            self._move_shots()
        is_over = self._meet()
        if self.due:
            reward += self.due.pop(self.steps, 0.0)
            if is_over:
                reward += min(0.0, math.fsum(self.due.values()))
        self.reward = max(-1.0, min(1.0, reward))
        picture = self._draw(self.grey) if self.observes else None
        return picture, self.reward, is_over, self.steps >= game.horizon, {}

    def _move(self, action: int) -> float:
        """Move the player; return the cost of a shot if there was one."""
        controls, shooting = self.game.controls, self.game.shooting
        self.heading = heading = controls.turn[action][self.heading]
        push_x, push_y = controls.push[action][heading]
        self.speed_x = controls.keep * self.speed_x + push_x
        self.speed_y = controls.keep * self.speed_y + push_y
        (left, right), (top, bottom) = controls.bounds
        self.x = min(max(self.x + self.speed_x, left), right)
        self.y = min(max(self.y + self.speed_y, top), bottom)
        if shooting is None or action != controls.shoots or self.steps < self.ready:
            return 0.0
        self.ready = self.steps + shooting.pause
        across, down = UNIT[heading]
        self.shots.append((self.x, self.y, shooting.speed * across, shooting.speed * down))
        return -shooting.cost

    @property
    def place(self) -> Position:
        """Position of the player, in pixels."""
        return int(self.x + 0.5), int(self.y + 0.5)

    def _appear(self, number: int, numbers: list[float]) -> None:
        kind = self.game.kinds[number]
        thing = Thing(number, kind, self.steps, build_track(kind, numbers, self.place, self.game.bases))
        x, y = self.place
        if kind.motion not in POPPING or max(abs(thing.x - x), abs(thing.y - y)) >= NEAREST:
            self.things.append(thing)

    def _advance(self) -> None:
        """Move all things to where they are at this step; those at the end of their way are gone."""
        steps, removed = self.steps, []
        for thing in self.things:
            age = steps - thing.born
            places = thing.places
            if age >= len(places):
                if thing.kind.motion is not KindMotion.CHASE or age >= thing.kind.life:
                    removed.append(thing)
                    continue
                self._chase(thing)
            thing.x, thing.y = places[age]
            fires = thing.kind.fires
            if fires and age % fires == fires // 2:
                self._fire(thing)
        for thing in removed:
            self.things.remove(thing)
            if thing.kind.arrive:
                self._pay(thing.kind.arrive, thing.kind.delay)

    def _chase(self, thing: Thing) -> None:
        """Add a step towards the player to the way of a chasing thing."""
        x, y = self.place
        kind = thing.kind
        # The speed is a fraction: the thing moves one or more whole pixels in some steps and fewer in others.
        age = self.steps - thing.born
        pixels = int(kind.speed * age) - int(kind.speed * (age - 1))
        step_x, step_y = (max(-pixels, min(pixels, gap)) for gap in (x - thing.x, y - thing.y))
        thing.places.append([thing.x + step_x, thing.y + step_y])

    def _fire(self, thing: Thing) -> None:
        number = self.game.bullet
        if -OUTSIDE < thing.x < SIDE + OUTSIDE and -OUTSIDE < thing.y < SIDE + OUTSIDE:
            kind = self.game.kinds[number]
            track = straight_track(np.array((thing.x, thing.y), float), self.place, kind.speed)
            self.things.append(Thing(number, kind, self.steps, track))

    def _move_shots(self) -> None:
        """Move the shots, and take away those that leave the picture or hit something."""
        flying = []
        for x, y, speed_x, speed_y in self.shots:
            x, y = x + speed_x, y + speed_y
            if not (0 <= x < SIDE and 0 <= y < SIDE):
                continue
            for thing in self.things:
                reach = self._shot_reaches[thing.number]
                if abs(thing.x - x) <= reach and abs(thing.y - y) <= reach and thing.kind.stops_shots:
                    self.things.remove(thing)
                    self._met(thing.kind, thing.kind.hit)
                    break
            else:
                flying.append((x, y, speed_x, speed_y))
        self.shots = flying

    def _meet(self) -> bool:
        """Let the player touch things; return whether that ends the episode."""
        x, y = self.place
        reaches, is_over, touched = self._reaches, False, []
        for thing in self.things:
            reach = reaches[thing.number]
            if -reach <= thing.x - x <= reach and -reach <= thing.y - y <= reach:
                touched.append(thing)
        for thing in touched:
            self.things.remove(thing)
            self._met(thing.kind, thing.kind.touch)
            is_over = is_over or thing.kind.ends
        return is_over

    def _met(self, kind: Kind, value: float) -> None:
        """Pay for a thing that was touched or hit. In a needed order the wrong one costs what it would have given."""
        if kind.stage >= 0 and value > 0:
            is_next = kind.stage == self.stage
            self.stage = (self.stage + 1) % self.game.stages if is_next else 0
            value = value if is_next else -value
        if value:
            self._pay(value, kind.delay)

    def _pay(self, value: float, delay: int) -> None:
        due = self.steps + delay
        self.due[due] = self.due.get(due, 0.0) + value

    def _draw(self, grey: bool = False) -> Any:
        game = self.game
        sprites: list[tuple[Sprite, int, int]] = [(game.base, x, y) for x, y in game.bases if game.base]
        sprites += [(thing.kind.sprite, thing.x, thing.y) for thing in self.things]
        if game.shooting:
            sprites += [(game.shooting.sprite, int(x + 0.5), int(y + 0.5)) for x, y, _, _ in self.shots]
        sprites.append((game.player[self.heading], *self.place))
        if grey:
            shades = ((sprite.grey, x, y) for sprite, x, y in sprites)
            return compose(game.background.grey.at(self.steps), shades)
        return compose(game.background.at(self.steps), sprites)

    def render(self) -> Any:
        """Draw the picture enlarged, in a frame that shows the last reward: green a gain, red a loss."""
        value = self.reward - self.game.alive
        frame = (70, 190, 90) if value > 0.05 else (215, 60, 50) if value < -0.05 else (45, 45, 50)
        picture = np.repeat(np.repeat(self._draw(), ENLARGED, axis=0), ENLARGED, axis=1)
        return np.stack([np.pad(picture[:, :, k], ENLARGED, constant_values=frame[k]) for k in range(3)], axis=2)
