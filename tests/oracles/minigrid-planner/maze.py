"""ObstructedMaze: levels that agree with what was seen."""

from __future__ import annotations

import random

from memory import Memory
from planning import Planner
from search import BALL, BOX, CLOSED, DOOR, EMPTY, KEY, LOCKED, WALL, Cell, Level, Thing

BLUE, GREEN, GREY = 2, 1, 5
GOAL_BALL: Thing = (BALL, BLUE, 0)
BLOCKER: Thing = (BALL, GREEN, 0)
CRATE: Thing = (BOX, GREY, 0)
ROOM = range(6, 10)
HUB = [(x, y) for x in range(11, 15) for y in ROOM]
TARGET = [(x, y) for x in range(11, 15) for y in range(1, 5)]
DECOY = [(x, y) for x in range(11, 15) for y in range(11, 15)]


class Draw:
    """A level in the simulator's coordinates: its cells at the start, and the key in each box."""

    def __init__(self, memory: Memory, offset: Cell, rng: random.Random) -> None:
        self.seen = {(x + offset[0], y + offset[1]): thing for (x, y), thing in memory.first.items()}
        self.rng = rng
        self.cells: dict[Cell, Thing] = {(x, y): (WALL, 5, 0) for x in range(16) for y in range(16)}
        for cell in [(x, y) for x in ROOM for y in ROOM] + HUB + TARGET + DECOY:
            self.cells[cell] = (EMPTY, 0, 0)
        colors = self._colors(memory)
        entry = self._pick([(10, y) for y in ROOM], DOOR)
        north = self._pick([(x, 5) for x in range(11, 15)], DOOR, lambda cell: (cell[0], 6))
        south = self._pick([(x, 10) for x in range(11, 15)], DOOR, lambda cell: (cell[0], 9))
        self.doors = (entry, north, south)
        for cell, color, state in zip(self.doors, colors, (CLOSED, LOCKED, LOCKED), strict=True):
            self.cells[cell] = (DOOR, color, state)
        self.cells[north[0], 6] = self.cells[south[0], 9] = BLOCKER
        boxes = [cell for cell in HUB if self.seen.get(cell) == CRATE]
        free = [cell for cell in HUB if self.cells[cell][0] == EMPTY and cell not in self.seen]
        boxes += rng.sample(free, min(2 - len(boxes), len(free)))
        for cell in boxes:
            self.cells[cell] = CRATE
        self.cells[self._pick(TARGET, BALL)] = GOAL_BALL
        opened = {(x + offset[0], y + offset[1]): key for (x, y), key in memory.opened.items()}
        keys: list[Thing] = [(KEY, colors[1], 0), (KEY, colors[2], 0)]
        rng.shuffle(keys)
        self.boxes = dict(zip(boxes, keys, strict=False))
        if any(self.boxes.get(cell) not in (None, key) for cell, key in opened.items()):
            self.boxes = dict(zip(boxes, reversed(keys), strict=False))
        self.fits = (
            len(boxes) == 2
            and all(self.cells.get(cell) == thing for cell, thing in self.seen.items())
            and all(self.boxes.get(cell) == key for cell, key in opened.items())
        )

    def _pick(self, cells: list[Cell], kind: int, blocker: object = None) -> Cell:
        seen = [cell for cell in cells if self.seen.get(cell, (EMPTY,))[0] == kind]
        place = blocker if callable(blocker) else None
        if place:
            seen = seen or [cell for cell in cells if self.seen.get(place(cell)) == BLOCKER]
        unseen = [cell for cell in cells if cell not in self.seen and not (place and place(cell) in self.seen)]
        return self.rng.choice(seen or unseen or cells)

    def _colors(self, memory: Memory) -> list[int]:
        """Return the colours of the entry, the target and the decoy door; drawn where they were not seen."""
        lines = ([(10, y) for y in ROOM], [(x, 5) for x in range(11, 15)], [(x, 10) for x in range(11, 15)])
        seen = [next((self.seen[c][1] for c in line if self.seen.get(c, (0,))[0] == DOOR), None) for line in lines]
        keys = [key[1] for key in memory.opened.values()]
        others = [c for c in range(6) if c not in seen and c not in keys]
        self.rng.shuffle(others)
        waiting = [color for color in keys if color not in seen]
        if len(waiting) == 1 and seen[1] is None and seen[2] is None and self.rng.random() < 0.5:
            waiting.append(others.pop())
            waiting.reverse()
        for place in (1, 2, 0):
            if seen[place] is None:
                seen[place] = waiting.pop(0) if waiting and place else others.pop()
        return [color for color in seen if color is not None]


class MazePlanner(Planner):
    def draw(self, count: int) -> list[Level]:
        offsets = [(x, y) for x in ROOM for y in ROOM if any(self._fits((x, y)) for _ in range(3))]
        levels: list[Level] = []
        for _ in range(20 * count):
            offset = self.rng.choice(offsets)
            world = Draw(self.memory, offset, self.rng)
            if world.fits and len(levels) < count:
                levels.append(self.level(world, offset))
        return levels

    def _fits(self, offset: Cell) -> bool:
        return Draw(self.memory, offset, self.rng).fits

    def level(self, world: Draw, offset: Cell) -> Level:
        memory = self.memory
        now = {(x + offset[0], y + offset[1]): thing for (x, y), thing in memory.now.items()}
        boxes = {cell: key for cell, key in world.boxes.items() if now.get(cell, CRATE) == CRATE}
        at = (memory.at[0] + offset[0], memory.at[1] + offset[1])
        return Level({**world.cells, **now}, at, memory.facing, memory.carried, boxes, GOAL_BALL)

    def horizon(self, plan: list[int]) -> int:
        """Return 1 while the entry door was not seen: every turn may show it."""
        seen_entry = any(thing[0] == DOOR for thing in self.memory.first.values())
        return super().horizon(plan) if seen_entry else 1
