"""KeyCorridor: levels that agree with what was seen."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

from memory import Memory
from planning import Planner
from search import BALL, CLOSED, DOOR, EMPTY, KEY, LOCKED, WALL, Cell, Level, Thing

COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
ROWS = range(3)
TOPS = (1, 4, 7)  # first y of each row of rooms
CORRIDOR = [(x, y) for x in (4, 5) for y in range(1, 9)]
# Stretches of wall that can hold a door: left room to corridor, right room to corridor, left to left, right to right.
STRETCHES: list[tuple[Cell, Cell]] = [
    *(((3, y), (3, y + 1)) for y in TOPS),
    *(((6, y), (6, y + 1)) for y in TOPS),
    *(((1, y), (2, y)) for y in (3, 6)),
    *(((7, y), (8, y)) for y in (3, 6)),
]
# The two rooms at each stretch: left rooms 0 to 2, right rooms 3 to 5, the corridor 6.
ENDS = [(0, 6), (1, 6), (2, 6), (3, 6), (4, 6), (5, 6), (0, 1), (1, 2), (3, 4), (4, 5)]
# How often the simulator draws each stretch: it draws one of nine rooms and one of four sides until they fit.
Doors = frozenset[int]
PATTERNS = 3000


@cache
def patterns() -> list[tuple[int, Doors, int]]:
    """Return rows of the locked room and stretches with doors, with how often they are drawn together."""
    rng = random.Random(1)
    counts: Counter[tuple[int, Doors]] = Counter()
    for _ in range(PATTERNS):
        locked = rng.randrange(3)
        doors = {3 + locked}
        while len(_reached(doors)) < 7:
            stretch = rng.randrange(len(STRETCHES))
            if 3 + locked not in ENDS[stretch]:
                doors.add(stretch)
        counts[locked, frozenset(doors)] += 1
    return [(locked, doors, count) for (locked, doors), count in sorted(counts.items(), key=str)]


def _reached(doors: set[int]) -> set[int]:
    reached = {6}
    for _ in range(4):
        for stretch in doors:
            if reached & set(ENDS[stretch]):
                reached |= set(ENDS[stretch])
    return reached


def room(side: int, row: int) -> list[Cell]:
    return [(x + 6 * side, y) for x in (1, 2) for y in (TOPS[row], TOPS[row] + 1)]


class CorridorPlanner(Planner):
    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.offset: Cell | None = None

    def draw(self, count: int) -> list[Level]:
        offsets = [(x, y) for x in (4, 5) for y in range(3, 7)]
        choices: list[tuple[Cell, int, Doors]] = []
        weights: list[float] = []
        for offset in offsets:
            seen = self._shifted(self.memory.first, offset)
            if not _walls_fit(seen):
                continue
            for locked, doors, drawn in patterns():
                weight = drawn * _likelihood(seen, locked, doors)
                if weight > 0:
                    choices.append((offset, locked, doors))
                    weights.append(weight)
        return [self._level(*self.rng.choices(choices, weights)[0]) for _ in range(count)]

    @staticmethod
    def _shifted(cells: dict[Cell, Thing], offset: Cell) -> dict[Cell, Thing]:
        return {(x + offset[0], y + offset[1]): thing for (x, y), thing in cells.items()}

    def _level(self, offset: Cell, locked: int, doors: Doors) -> Level:
        rng, memory = self.rng, self.memory
        seen = self._shifted(memory.first, offset)
        cells: dict[Cell, Thing] = {(x, y): (WALL, 5, 0) for x in range(10) for y in range(10)}
        for cell in CORRIDOR + [cell for side in (0, 1) for row in ROWS for cell in room(side, row)]:
            cells[cell] = (EMPTY, 0, 0)
        goal: Thing = (BALL, COLORS.index(self.mission.split()[-2]), 0)
        keys = [thing for thing in seen.values() if thing[0] == KEY]
        lock = [thing for thing in seen.values() if thing[0] == DOOR and thing[2] == LOCKED]
        color = (keys + lock + [(KEY, rng.randrange(6), 0)])[0][1]
        for stretch in doors:
            options = [cell for cell in STRETCHES[stretch] if seen.get(cell, (DOOR,))[0] == DOOR]
            known = [cell for cell in options if cell in seen]
            state = LOCKED if stretch == 3 + locked else CLOSED
            cells[rng.choice(known or options)] = (DOOR, color if state == LOCKED else 0, state)
        if not keys:
            hidden = [cell for row in ROWS for cell in room(0, row) if cell not in seen]
            cells[rng.choice(hidden)] = (KEY, color, 0)
        if goal not in seen.values():
            cells[rng.choice([cell for cell in room(1, locked) if cell not in seen])] = goal
        at = (memory.at[0] + offset[0], memory.at[1] + offset[1])
        now = self._shifted(memory.now, offset)
        return Level({**cells, **now}, at, memory.facing, memory.carried, {}, goal)


def _walls_fit(seen: dict[Cell, Thing]) -> bool:
    """Tell whether seen walls and free cells are where the map has them."""
    floor = {*CORRIDOR, *(cell for side in (0, 1) for row in ROWS for cell in room(side, row))}
    gates = {cell for stretch in STRETCHES for cell in stretch}
    return all(
        (thing[0] in (WALL, DOOR)) if cell in gates else (thing[0] == WALL) == (cell not in floor)
        for cell, thing in seen.items()
    )


def _likelihood(seen: dict[Cell, Thing], locked: int, doors: Doors) -> float:
    """Return how likely the seen walls and doors are if these stretches have doors."""
    weight = 1.0
    for stretch, cells in enumerate(STRETCHES):
        things = [seen[cell] for cell in cells if cell in seen]
        found = [thing for thing in things if thing[0] == DOOR]
        if found:
            if stretch not in doors or (found[0][2] == LOCKED) != (stretch == 3 + locked):
                return 0.0
        elif stretch in doors:
            weight *= (2 - len(things)) / 2
    if not any(thing[0] == BALL for thing in seen.values()):
        weight *= sum(cell not in seen for cell in room(1, locked)) / 4
    elif not any(seen.get(cell, (0,))[0] == BALL for cell in room(1, locked)):
        return 0.0
    return weight
