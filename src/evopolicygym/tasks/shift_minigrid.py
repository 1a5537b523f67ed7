"""Changed rules of MiniGrid: which key opens which door, how often a locked door must be toggled, mirrored maps.

Each is applied to an environment that has just been reset. Positions, walls and rewards stay MiniGrid's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minigrid.core.constants import COLOR_NAMES
from minigrid.core.grid import Grid
from minigrid.core.world_object import Box, Door, Key

COLOURS = tuple(sorted(COLOR_NAMES))
FLIPPED_X, FLIPPED_Y = (2, 1, 0, 3), (0, 3, 2, 1)  # directions in a mirrored map, by direction


class ShiftedDoor(Door):
    """A door that a key of colour ``key_colour`` unlocks, at the toggle number ``toggles``."""

    key_colour: str
    toggles: int
    toggled: int

    def toggle(self, env: Any, pos: tuple[int, int]) -> bool:
        if not self.is_locked:
            self.is_open = not self.is_open
            return True
        if not (isinstance(env.carrying, Key) and env.carrying.color == self.key_colour):
            return False
        self.toggled += 1
        if self.toggled >= self.toggles:
            self.is_locked, self.is_open = False, True
        return True


def change_rules(env: Any, key_order: list[int] | None, toggles: int, layout: int) -> Any:
    """Change a new level, and return its first observation. ``key_order`` maps colours of doors to those of their keys;
    the keys in the level are coloured so that each still opens its door."""
    colours = dict(zip(COLOURS, (COLOURS[i] for i in key_order or range(len(COLOURS))), strict=True))
    for item in _items(env):
        if isinstance(item, Key):
            item.color = colours[item.color]
        elif isinstance(item, Door):
            item.__class__ = ShiftedDoor
            vars(item).update(key_colour=colours[item.color], toggles=toggles, toggled=0)
    _lay_out(env, bool(layout & 1), bool(layout & 2))
    return env.gen_obs()


def _items(env: Any) -> Iterator[Any]:
    for item in env.grid.grid:
        while item is not None:
            yield item
            item = item.contains if isinstance(item, Box) else None


def _lay_out(env: Any, flip_x: bool, flip_y: bool) -> None:
    """Put a new grid in place of the old one, which the fast version would take for unchanged."""
    old, grid = env.grid, Grid(env.grid.width, env.grid.height)

    def moved(x: int, y: int) -> tuple[int, int]:
        return (old.width - 1 - x if flip_x else x), (old.height - 1 - y if flip_y else y)

    for x in range(old.width):
        for y in range(old.height):
            item = old.get(x, y)
            grid.set(*moved(x, y), item)
            if item is not None and item.cur_pos is not None:
                item.init_pos = item.cur_pos = moved(x, y)
    env.grid = grid
    env.agent_pos = type(env.agent_pos)(moved(int(env.agent_pos[0]), int(env.agent_pos[1])))
    direction = int(env.agent_dir)
    direction = FLIPPED_X[direction] if flip_x else direction
    env.agent_dir = FLIPPED_Y[direction] if flip_y else direction
