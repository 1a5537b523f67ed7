"""Generated arcade games: a player among things that must be collected, avoided, shot or kept from a base.

Looks tell nothing: sprites, colours and the meaning of actions are drawn apart from the rules. What a kind of thing is
good for shows only in the rewards. Levels add kinds, speed, ways of moving, chasing and shooting enemies, delayed
effects, late actions, and an order in which things have to be taken."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

import gymnasium
import numpy as np

from evopolicygym.tasks.novel.arcade.expert import LookAhead
from evopolicygym.tasks.novel.arcade.game import ArcadeEnv, Controls, Game, Shooting
from evopolicygym.tasks.novel.arcade.kinds import FAR, POPPING, Kind, KindMotion, Position
from evopolicygym.tasks.novel.arcade.pictures import (
    HEADINGS,
    SIDE,
    UNIT,
    SpritePalette,
    draw_background,
    draw_sprite,
    draw_square,
    with_noses,
)
from evopolicygym.tasks.novel.arcade.texts import game_texts
from evopolicygym.tasks.novel.world import Act

T = TypeVar("T")

VERSION: Final = 2
HORIZONS: Final = {1: 200, 2: 250, 3: 300, 4: 400}
SPEEDS: Final = {1: (0.7, 1.2), 2: (0.8, 1.5), 3: (0.9, 1.8), 4: (1.0, 2.0)}  # of things, in pixels per step
EDGE: Final = 5  # pixels between the player and the edge


class GameGoal(StrEnum):
    """The aim that brings most of a game's rewards."""

    COLLECT = "collect"
    AVOID = "avoid"
    AIM = "aim"
    DEFEND = "defend"


class Steering(StrEnum):
    """How the actions move the player."""

    DIRECTIONS = "directions"
    LINE = "line"
    GLIDE = "glide"
    TURN = "turn"


class KindRole(StrEnum):
    """The part that a kind plays in a game."""

    PRIZE = "prize"
    HAZARD = "hazard"
    HUNTER = "hunter"
    DECOY = "decoy"
    TARGET = "target"
    FRIEND = "friend"
    ATTACKER = "attacker"
    VISITOR = "visitor"


ROLES: Final = {  # the first level + 1 of them
    GameGoal.COLLECT: (KindRole.PRIZE, KindRole.HAZARD, KindRole.DECOY, KindRole.HUNTER, KindRole.PRIZE),
    GameGoal.AVOID: (KindRole.HUNTER, KindRole.HAZARD, KindRole.PRIZE, KindRole.HAZARD, KindRole.PRIZE),
    GameGoal.AIM: (KindRole.TARGET, KindRole.FRIEND, KindRole.DECOY, KindRole.HUNTER, KindRole.TARGET),
    GameGoal.DEFEND: (KindRole.ATTACKER, KindRole.VISITOR, KindRole.HUNTER, KindRole.PRIZE, KindRole.PRIZE),
}
GAINS: Final = (KindRole.PRIZE, KindRole.TARGET)  # those that are worth taking
SHOT_ONLY: Final = (KindRole.TARGET, KindRole.FRIEND, KindRole.DECOY)  # a player on a line need not touch them
CROWDS: Final = {KindRole.DECOY: 1.2, KindRole.PRIZE: 3.0, KindRole.TARGET: 3.0}  # at a time; 2 without an entry


@dataclass(frozen=True)
class ArcadeWorld:
    """A drawn game."""

    game: Game
    goal: GameGoal

    @property
    def horizon(self) -> int:
        return self.game.horizon

    @property
    def failure_return(self) -> float:
        return -float(self.game.horizon)

    def make(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        return ArcadeEnv(self.game, render_mode)

    def expert(self, env: Any) -> Act:
        return LookAhead(self.game, env).act

    def texts(self) -> dict[str, Any]:
        return game_texts(self.game)


def draw(generator: np.random.Generator, level: int) -> ArcadeWorld:
    """Draw a game of a level."""
    goals = list(GameGoal) if level > 1 else [GameGoal.COLLECT, GameGoal.AVOID, GameGoal.AIM]
    steerings = list(Steering) if level > 1 else [Steering.DIRECTIONS, Steering.LINE]
    goal, steering = _pick(generator, goals), _pick(generator, steerings)
    is_line = steering is Steering.LINE
    shoots = goal is GameGoal.AIM or (goal is GameGoal.DEFEND and (is_line or generator.random() < 0.5))
    edge = int(generator.integers(4))
    controls, heading = draw_controls(generator, level, steering, shoots, edge)
    palette = SpritePalette(generator)
    bases = _bases(generator, level, is_line, edge) if goal is GameGoal.DEFEND else ()
    front = (edge + 2) % 4 if is_line else -1
    kinds, bullet = KindDrawer(generator, palette, level, goal, shoots, front).all()
    player = draw_sprite(generator, palette, _size(generator))
    has_nose = not is_line and (shoots or steering is Steering.TURN)
    game = Game(
        controls=controls,
        kinds=kinds,
        bullet=bullet,
        stages=sum(kind.stage >= 0 for kind in kinds),
        alive=_amount(generator, 0.02, 0.05) if goal is GameGoal.AVOID else 0.0,
        shooting=_shooting(generator, palette) if shoots else None,
        bases=bases,
        base=draw_sprite(generator, palette, 9) if bases else None,
        player=tuple(with_noses(player, palette.colour()) if has_nose else [player] * HEADINGS),
        background=draw_background(generator, palette, may_move=level >= 3),
        heading=heading,
        horizon=HORIZONS[level],
    )
    return ArcadeWorld(game, goal)


def draw_controls(
    generator: np.random.Generator, level: int, steering: Steering, shoots: bool, edge: int
) -> tuple[Controls, int]:
    """Draw how the player is moved: its actions in a random order, and its first heading."""
    speed = generator.uniform(1.8, 2.8)
    keep = generator.uniform(0.6, 0.85) if steering in (Steering.GLIDE, Steering.TURN) else 0.0
    power = speed * (1 - keep)
    bounds = [(EDGE, SIDE - 1 - EDGE)] * 2
    heading = int(generator.integers(HEADINGS))
    stays, sideways = list(range(HEADINGS)), [(0.0, 0.0)] * HEADINGS
    actions: list[tuple[str, list[int], list[tuple[float, float]]]] = [("rest", stays, sideways)]
    if steering is Steering.TURN:
        forward = [_push(power, way) for way in range(HEADINGS)]
        actions += [(f"turn {name}", [(way + step) % HEADINGS for way in stays], sideways) for name, step in _TURNS]
        actions += [("thrust", stays, forward)]
    elif steering is Steering.LINE:
        is_vertical = edge % 2 == 0
        bounds[edge % 2] = (EDGE, EDGE) if edge < 2 else (SIDE - 1 - EDGE,) * 2
        heading = 2 * edge
        ways = (2, 6) if is_vertical else (0, 4)
        actions += [(f"move {_NAMES[way]}", stays, [_push(power, way)] * HEADINGS) for way in ways]
    else:
        tilt = int(generator.integers(2))  # the four directions may be the diagonals
        heading = heading // 2 * 2 + tilt
        ways4 = range(tilt, HEADINGS, 2)
        actions += [(f"move {_NAMES[way]}", [way] * HEADINGS, [_push(power, way)] * HEADINGS) for way in ways4]
    if shoots:
        actions.append(("shoot", stays, sideways))
    order = generator.permutation(len(actions)).tolist()
    names = tuple(actions[n][0] for n in order)
    controls = Controls(
        turn=tuple(tuple(actions[n][1]) for n in order),
        push=tuple(tuple(actions[n][2]) for n in order),
        names=names,
        shoots=names.index("shoot") if shoots else -1,
        rest=names.index("rest"),
        keep=round(keep, 3),
        bounds=(bounds[0], bounds[1]),
        lag=int(generator.integers(0, level - 1)) if level >= 3 else 0,
    )
    return controls, heading


_TURNS: Final = (("left", -1), ("right", 1))
_NAMES: Final = ("right", "right and down", "down", "left and down", "left", "left and up", "up", "right and up")


def _push(power: float, way: int) -> tuple[float, float]:
    length = math.hypot(*UNIT[way])
    x, y = (round(power * part / length, 3) for part in UNIT[way])
    return x, y


@dataclass(frozen=True)
class KindDrawer:
    """Draws the kinds of a game. ``front`` is the side that a player on a line looks at, -1 for players who can go
    anywhere."""

    generator: np.random.Generator
    palette: SpritePalette
    level: int
    goal: GameGoal
    shoots: bool
    front: int

    def all(self) -> tuple[tuple[Kind, ...], int]:
        """Return the kinds, and the number of the one that others fire, -1 without."""
        roles = ROLES[self.goal][: self.level + 1]
        kinds = [self._kind(role) for role in roles]
        if self.level == 4:
            self._put_in_order(kinds, roles)
        kinds = [kinds[n] for n in self.generator.permutation(len(kinds)).tolist()]
        if not any(kind.fires for kind in kinds):
            return tuple(kinds), -1
        sprite, speed, loss = draw_square(self.palette, 3), self._amount(1.5, 2.2), self._amount(0.3, 0.8)
        bullet = Kind(sprite, KindMotion.DART, -1, speed, 0, 0.0, touch=-loss, stops_shots=False)
        return (*kinds, bullet), len(kinds)

    def _put_in_order(self, kinds: list[Kind], roles: tuple[KindRole, ...]) -> None:
        """Give the two kinds that are worth taking a needed order."""
        numbers = [n for n, role in enumerate(roles) if role in GAINS]
        for stage, number in enumerate(self.generator.permutation(numbers).tolist()):
            kinds[number] = replace(kinds[number], stage=stage)

    def _kind(self, role: KindRole) -> Kind:
        generator = self.generator
        motion = _pick(generator, _motions(role, self.level, self.front >= 0))
        sprite = draw_sprite(generator, self.palette, _size(generator))
        speed, life = self._amount(*SPEEDS[self.level]), int(generator.integers(50, 90))
        if motion is KindMotion.CHASE:
            speed = round(0.6 * speed, 2)
        is_enemy = role is KindRole.HUNTER and self.level >= 3
        is_delayed = self.level >= 3 and generator.random() < 0.5
        return Kind(
            sprite=sprite,
            motion=motion,
            side=self._side(role),
            speed=speed,
            life=life,
            interval=self._interval(role, motion, speed, life),
            ends=is_enemy and generator.random() < 0.5,
            delay=int(generator.integers(4, 16)) if is_delayed else 0,
            fires=int(generator.integers(30, 50)) if is_enemy and generator.random() < 0.6 else 0,
            swing=self._amount(5.0, 18.0),
            centre=(self._amount(24, 40), self._amount(24, 40)),
            **self._rewards(role),
        )

    def _side(self, role: KindRole) -> int:
        if self.front >= 0 and role not in SHOT_ONLY:
            return self.front
        return int(self.generator.integers(-1, 4))

    def _interval(self, role: KindRole, motion: KindMotion, speed: float, life: int) -> float:
        """Return the steps between two things of a kind, so that a few of them are there at a time."""
        crowd = CROWDS.get(role, 2.0) * self._amount(0.8, 1.3)
        if self.goal is GameGoal.AVOID and role not in GAINS:
            crowd *= 2.0
        if motion is KindMotion.CHASE:
            crowd *= 0.5
        way = FAR / 2 if motion is KindMotion.SEEK else FAR
        return round((life if motion in (*POPPING, KindMotion.CHASE) else way / speed) / crowd, 1)

    def _rewards(self, role: KindRole) -> dict[str, Any]:
        gain, loss = self._amount(0.4, 1.0), self._amount(0.3, 0.8)
        meet = "hit" if self.shoots else "touch"
        return {
            KindRole.PRIZE: {"touch": gain},
            KindRole.HAZARD: {"touch": -loss},
            KindRole.HUNTER: {"touch": -loss},
            KindRole.DECOY: {},
            KindRole.TARGET: {"hit": gain, "touch": -loss},
            KindRole.FRIEND: {"hit": -loss},
            KindRole.ATTACKER: {"arrive": -loss, meet: gain},
            KindRole.VISITOR: {"arrive": gain, meet: -loss},
        }[role]

    def _amount(self, low: float, high: float) -> float:
        return _amount(self.generator, low, high)


def _motions(role: KindRole, level: int, is_line: bool) -> list[KindMotion]:
    """Return how a kind may move, so that it can be met and cannot be met by waiting."""
    crossing = [KindMotion.STRAIGHT, KindMotion.WAVE, KindMotion.FALL]
    if role in (KindRole.ATTACKER, KindRole.VISITOR):
        return [KindMotion.SEEK]
    if role is KindRole.HUNTER:
        return [KindMotion.DART] if is_line or level == 1 else [KindMotion.DART, KindMotion.CHASE]
    if is_line:
        return crossing
    return [*crossing, KindMotion.BOUNCE, KindMotion.ORBIT] + [KindMotion.STILL] * (role is KindRole.PRIZE)


def _bases(generator: np.random.Generator, level: int, is_line: bool, edge: int) -> tuple[Position, ...]:
    """Draw the places of the bases: on the player's edge if it has one, else apart from each other."""
    count = 2 if level == 2 else int(generator.integers(2, 4))
    if is_line:
        step = (SIDE - 20) / (count - 1)
        along = [int(10 + step * n) for n in range(count)]
        near = 4 if edge < 2 else SIDE - 5
        return tuple((place, near) if edge % 2 else (near, place) for place in along)
    turn = generator.uniform(0, 6.28)
    angles = [turn + 2 * math.pi * n / count for n in range(count)]
    return tuple((round(31.5 + 17 * math.cos(angle)), round(31.5 + 17 * math.sin(angle))) for angle in angles)


def _shooting(generator: np.random.Generator, palette: SpritePalette) -> Shooting:
    pause, cost = int(generator.integers(5, 13)), _amount(generator, 0.02, 0.08)
    return Shooting(draw_square(palette, 3), _amount(generator, 2.5, 4.0), pause, cost)


def _size(generator: np.random.Generator) -> int:
    return int(generator.choice((5, 7, 9)))


def _amount(generator: np.random.Generator, low: float, high: float) -> float:
    return round(float(generator.uniform(low, high)), 2)


def _pick(generator: np.random.Generator, options: list[T]) -> T:
    return options[int(generator.integers(len(options)))]
