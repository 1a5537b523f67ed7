"""The kinds of things in a generated game: how they move, and what happens when they are met."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np

from evopolicygym.tasks.novel.arcade.pictures import SIDE, Sprite

OUTSIDE: Final = 5  # pixels beyond the edge where things enter and leave
MARGIN: Final = 5  # from the edge, of places inside
FAR: Final = SIDE + 2 * OUTSIDE
NUMBERS: Final = 4  # uniform numbers from 0 to 1 that place one thing

Track = np.ndarray[Any, np.dtype[np.int64]]
Position = tuple[int, int]


class KindMotion(StrEnum):
    """How a kind moves. Things that pop up inside live for a drawn time; the others cross the picture."""

    STRAIGHT = "crosses the picture in a straight line"
    WAVE = "crosses the picture in a sine wave"
    FALL = "crosses the picture and gets faster"
    DART = "crosses the picture through the place where the player is when it appears"
    SEEK = "goes from the edge to a base in a straight line"
    BOUNCE = "pops up and bounces off the edges"
    ORBIT = "pops up and circles around a fixed place"
    STILL = "pops up and stays"
    CHASE = "enters at the edge and chases the player"


POPPING: Final = (KindMotion.BOUNCE, KindMotion.ORBIT, KindMotion.STILL)


@dataclass(frozen=True)
class Kind:
    """One kind of thing. ``touch``, ``hit`` and ``arrive`` are the rewards when the player touches it, a shot hits it,
    and it gets to a base; ``delay`` is the number of steps between the event and its reward. ``stage`` is its place in
    the needed order, -1 without one. ``fires`` is the number of steps between its bullets, 0 without."""

    sprite: Sprite
    motion: KindMotion
    side: int  # where it enters: 0 left, 1 top, 2 right, 3 bottom, -1 anywhere
    speed: float
    life: int
    interval: float
    touch: float = 0.0
    hit: float = 0.0
    arrive: float = 0.0
    ends: bool = False
    delay: int = 0
    stage: int = -1
    fires: int = 0
    swing: float = 0.0
    centre: tuple[float, float] = (SIDE / 2, SIDE / 2)
    stops_shots: bool = True


def build_track(kind: Kind, numbers: list[float], player: Position, bases: tuple[Position, ...]) -> Track:
    """Return the positions of a thing from its first step to its last. A chasing thing has its first one only."""
    if kind.motion in POPPING:
        return _inside(kind, numbers)
    side = kind.side if kind.side >= 0 else int(numbers[3] * 4)
    start = _on_side(side, MARGIN + numbers[0] * (SIDE - 2 * MARGIN))
    match kind.motion:
        case KindMotion.CHASE:
            return _rounded(start[None])
        case KindMotion.DART:
            return straight_track(start, np.array(player, float), kind.speed)
        case KindMotion.SEEK:
            end = np.array(bases[int(numbers[1] * len(bases))], float)
            steps = max(2, round(float(np.linalg.norm(end - start)) / kind.speed))
            return _rounded(start + (end - start) * np.linspace(0, 1, steps + 1)[:, None])
        case KindMotion.STRAIGHT:
            end = _on_side((side + 2) % 4, MARGIN + numbers[1] * (SIDE - 2 * MARGIN))
            return straight_track(start, end, kind.speed)
    return _along(kind, numbers, side)


def straight_track(start: Any, through: Any, speed: float) -> Track:
    """Return the way from one place through another, until it leaves the picture."""
    direction = np.asarray(through, float) - start
    direction = direction / max(1e-6, float(np.linalg.norm(direction)))
    places = start + np.arange(round(1.5 * FAR / speed))[:, None] * (speed * direction)
    return _until_outside(_rounded(places))


def _along(kind: Kind, numbers: list[float], side: int) -> Track:
    """Return the way from one side to the opposite one: a wave, or a fall."""
    time = np.arange(round(FAR / kind.speed) + 2)
    if kind.motion is KindMotion.FALL:
        forward = 0.4 * kind.speed * time + 0.5 * (1.2 * kind.speed**2 / FAR) * time**2
        across = np.full(len(time), MARGIN + numbers[0] * (SIDE - 2 * MARGIN))
    else:
        forward = kind.speed * time
        middle = MARGIN + kind.swing + numbers[0] * (SIDE - 2 * (MARGIN + kind.swing))
        across = middle + kind.swing * np.sin(0.9 * kind.speed / max(kind.swing, 1.0) * time + 6.2832 * numbers[2])
    forward = forward - OUTSIDE
    if side >= 2:
        forward = SIDE - 1 - forward
    places = (across, forward) if side % 2 else (forward, across)
    return _until_outside(_rounded(np.stack(places, axis=1)))


def _inside(kind: Kind, numbers: list[float]) -> Track:
    """Return the way of a thing that pops up inside the picture."""
    time = np.arange(kind.life)[:, None]
    span = SIDE - 1 - 2 * MARGIN
    place = np.array(numbers[:2])
    angle = 6.2832 * numbers[2]
    direction = np.array((np.cos(angle), np.sin(angle)))
    if kind.motion is KindMotion.STILL:
        return _rounded(np.repeat(MARGIN + span * place[None], kind.life, axis=0))
    if kind.motion is KindMotion.BOUNCE:
        way = (span * place + kind.speed * direction * time) % (2 * span)
        return _rounded(MARGIN + np.minimum(way, 2 * span - way))
    radius = 8 + 14 * numbers[0]
    turn = 1.0 if numbers[3] < 0.5 else -1.0
    angles = angle + turn * kind.speed / radius * time
    return _rounded(np.array(kind.centre) + radius * np.concatenate((np.cos(angles), np.sin(angles)), axis=1))


def _on_side(side: int, across: float) -> Any:
    edge = -OUTSIDE if side < 2 else SIDE - 1 + OUTSIDE
    return np.array((across, edge) if side % 2 else (edge, across), float)


def _rounded(places: Any) -> Track:
    return np.asarray(np.floor(places + 0.5).astype(np.int64))


def _until_outside(track: Track) -> Track:
    is_inside = np.asarray(((track >= -OUTSIDE) & (track < SIDE + OUTSIDE)).all(axis=1))
    is_inside[0] = True
    end = int(np.argmin(is_inside))
    return track if is_inside[end] else track[:end]
