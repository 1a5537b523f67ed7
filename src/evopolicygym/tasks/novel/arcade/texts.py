"""The texts about a generated game. Their first sentences say what a person in front of the screen would be told; the
rest says all the rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from evopolicygym.tasks.novel.arcade.game import NEAREST, Controls, Game
from evopolicygym.tasks.novel.arcade.kinds import POPPING, Kind, KindMotion
from evopolicygym.tasks.novel.arcade.pictures import SIDE, UNIT

SIDES: Final = ("the left side", "the top", "the right side", "the bottom", "a side drawn anew each time")


def game_texts(game: Game) -> dict[str, Any]:
    """Return the fields of ``Task`` that describe a game."""
    buttons = "; ".join(f"{number}: {name}" for number, name in enumerate(game.controls.names))
    return {
        "title": "A screen with buttons",
        "objective": "Play the game so that the sum of its rewards is as high as possible.",
        "observation_notes": "The screen of the game. x grows to the right and y down, both from 0.",
        "action_notes": f"The buttons of the game.\n\n{buttons}.",
        "reward": f"Every step gives between -1 and 1, and a higher return is better. {_reward(game)}",
        "termination": f"An episode has {game.horizon} steps{_endings(game)}.",
        "start": f"The player is at a random place of those it can get to, at rest, with heading {game.heading}.",
        "dynamics": "\n\n".join(_rules(game)),
    }


def _reward(game: Game) -> str:
    alive = f"Every step gives {game.alive:g}. " if game.alive else ""
    return (
        f"{alive}The events of a step, as the rules below tell, are added to it after their delay; the sum is cut to "
        "-1 and 1. Delayed rewards that are not due at the last step are lost, but when a touch ends the episode, "
        "their sum counts if it is negative."
    )


def _endings(game: Game) -> str:
    ending = [_name(number) for number, kind in enumerate(game.kinds) if kind.ends]
    return f", and ends when the player touches {' or '.join(ending)}" if ending else ""


def _rules(game: Game) -> Iterator[str]:
    yield (
        "In every step the player moves, things appear and move, shots move and hit, and the player touches things. "
        "Places are centres of sprites, rounded to pixels. Two sprites touch if their distance in x and in y is at "
        "most (a + b) // 2 - 1, where a and b are the sides of their squares. A thing that is touched or hit is gone. "
        "Where things enter, leave and pop up is drawn evenly from all places that fit."
    )
    yield _player(game, game.controls)
    if game.shooting:
        shot = game.shooting
        yield (
            f"A shot starts at the player and moves by {shot.speed:g} times the vector of the heading per step, until "
            f"it leaves the screen or hits a thing. The next one is possible {shot.pause} steps later. A shot costs "
            f"{shot.cost:g}. Sprite, side {shot.sprite.size}: {shot.sprite.rows()}."
        )
    if game.base:
        places = ", ".join(map(str, game.bases))
        yield f"Bases are at {places}. They do not touch anything. Sprite: {game.base.rows()}."
    for number, kind in enumerate(game.kinds):
        yield _kind(number, kind, is_bullet=number == game.bullet)
    if game.stages:
        order = sorted((kind.stage, number) for number, kind in enumerate(game.kinds) if kind.stage >= 0)
        names = ", then ".join(_name(number) for _, number in order)
        yield (
            f"There is an order: {names}, then from the start again. Whichever of them is met out of turn costs what "
            "it would have given, and the order starts again."
        )
    yield "The background means nothing."


def _player(game: Game, controls: Controls) -> str:
    (left, right), (top, bottom) = controls.bounds
    late = f" An action takes effect {controls.lag} steps late; until then the player rests." if controls.lag else ""
    moves = []
    for number, (turn, push) in enumerate(zip(controls.turn, controls.push, strict=True)):
        turned = f"heading from 0 to 7 becomes {list(turn)}, " if turn != tuple(range(len(UNIT))) else ""
        pushed = str(push[0]) if len(set(push)) == 1 else f"by heading {list(push)}"
        moves.append(f"{number}: {turned}push {pushed}")
    return (
        f"The player has a heading from 0 to 7, with the vectors {', '.join(map(str, UNIT))}. An action sets the "
        f"heading, then the velocity becomes {controls.keep:g} * velocity + push, and the place changes by the "
        f"velocity. x stays from {left} to {right}, y from {top} to {bottom}.{late} Actions: {'; '.join(moves)}. "
        f"Sprite at heading {game.heading}, side {game.player[0].size}: {game.player[game.heading].rows()}."
    )


def _kind(number: int, kind: Kind, is_bullet: bool) -> str:
    values = [
        f"{event} {value:+g}"
        for event, value in (
            ("touched by the player", kind.touch),
            ("hit by a shot", kind.hit),
            ("gets to a base", kind.arrive),
        )
        if value
    ]
    delay = f", {kind.delay} steps later" if kind.delay and values else ""
    parts = [f"{_name(number)}: {', '.join(values) or 'no reward'}{delay}"]
    if kind.ends:
        parts.append("touching it ends the episode")
    if is_bullet:
        parts.append(f"flies towards where the player was when it was fired, {kind.speed:g} pixels per step")
    else:
        parts.append(f"{kind.motion}{_constants(kind)}")
        parts.append(f"one appears every {kind.interval:g} steps, with gaps from half to one and a half of that")
    if kind.fires:
        parts.append(f"fires the bullet, the last kind, every {kind.fires} steps")
    if not kind.stops_shots:
        parts.append("shots pass through it")
    parts.append(f"sprite, side {kind.sprite.size}: {kind.sprite.rows()}")
    return "; ".join(parts) + "."


def _constants(kind: Kind) -> str:
    speed = f", {kind.speed:g} pixels per step"
    life = f", for {kind.life} steps"
    near = f", not within {NEAREST} pixels of the player"
    enters = f", from {SIDES[kind.side]}"
    match kind.motion:
        case KindMotion.STILL:
            return life + near
        case KindMotion.ORBIT:
            centre = f" ({kind.centre[0]:g}, {kind.centre[1]:g})"
            return f"{centre} at a radius from 8 to 22{speed}{life}{near}"
        case KindMotion.WAVE:
            return (
                f"{speed}, {kind.swing:g} to either side, {0.9 * kind.speed / kind.swing:.4g} radians per step{enters}"
            )
        case KindMotion.FALL:
            growth = 1.2 * kind.speed**2 / (SIDE + 10)
            return f", from {0.4 * kind.speed:.4g} pixels per step by {growth:.4g} more in each{enters}"
        case KindMotion.CHASE:
            return f"{speed} at most in x and in y{life}{enters}"
    return speed + (life + near if kind.motion in POPPING else enters)


def _name(number: int) -> str:
    return f"kind {number + 1}"
