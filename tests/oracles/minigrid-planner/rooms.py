"""FourRooms: maps that agree with what was seen, and the search for the goal in them."""

from __future__ import annotations

import random

from looking import Chart, look
from memory import Memory
from search import GOAL, WALL, Cell, Level, Search

SIZE = 19
STRETCHES: list[list[Cell]] = [
    [(9, y) for y in range(1, 9)],
    [(9, y) for y in range(10, 18)],
    [(x, 9) for x in range(1, 9)],
    [(x, 9) for x in range(10, 18)],
]
GATES = {cell for stretch in STRETCHES for cell in stretch}
WALLS = {(x, y) for x in range(SIZE) for y in range(SIZE) if x in (0, 9, 18) or y in (0, 9, 18)} - GATES
INSIDE = [(x, y) for x in range(1, 18) for y in range(1, 18) if (x, y) not in WALLS]
CHARTS = 5
REST = 25.0


class RoomsPlanner:
    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.rng = random.Random(0)

    def plan(self, mission: str) -> list[int]:
        memory = self.memory
        charts = self._charts()
        goal = [cell for cell, thing in memory.first.items() if thing[0] == GOAL]
        if goal:
            chart = charts[0]
            cells = dict.fromkeys(chart.targets, (1, 0, 0))
            cells |= {cell: (1, 0, 0) for cell, thing in memory.now.items() if thing[0] != WALL}
            cells[goal[0]] = (GOAL, 1, 0)
            plan = Search(Level(cells, memory.at, memory.facing)).plan()
            if plan:
                return plan
        return look(charts, (*memory.at, memory.facing), REST) or [0]

    def _charts(self) -> list[Chart]:
        weights = {offset: weight for offset in INSIDE if (weight := self._weight(offset)) > 0}
        offsets = self.rng.choices(list(weights), list(weights.values()), k=CHARTS)
        return [self._chart(offset) for offset in offsets]

    def _seen(self, offset: Cell) -> dict[Cell, bool]:
        """Return whether seen cells are walls, in the simulator's coordinates."""
        return {(x + offset[0], y + offset[1]): thing[0] == WALL for (x, y), thing in self.memory.first.items()}

    def _weight(self, offset: Cell) -> float:
        """Return how likely the agent began at a cell, up to a factor."""
        seen = self._seen(offset)
        for (x, y), wall in seen.items():
            if not (0 <= x < SIZE and 0 <= y < SIZE) or ((x, y) not in GATES and wall != ((x, y) in WALLS)):
                return 0.0
        weight = 1.0
        for stretch in STRETCHES:
            gaps = sum(seen.get(cell) is False for cell in stretch)
            walls = sum(seen.get(cell) is True for cell in stretch)
            if gaps > 1:
                return 0.0
            weight *= 0.125 if gaps else (8 - walls) / 8
        return weight * max(1, sum(cell not in seen for cell in INSIDE))

    def _chart(self, offset: Cell) -> Chart:
        seen = self._seen(offset)
        walls = WALLS | GATES
        for stretch in STRETCHES:
            gaps = [cell for cell in stretch if seen.get(cell) is False]
            walls.discard(self.rng.choice(gaps or [cell for cell in stretch if cell not in seen]))
        shifted = {(x - offset[0], y - offset[1]) for x, y in walls}
        targets = [(x - offset[0], y - offset[1]) for x, y in INSIDE if (x, y) not in walls and (x, y) not in seen]
        return Chart(shifted, targets)
