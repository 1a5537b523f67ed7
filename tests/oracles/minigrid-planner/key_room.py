"""DoorKey: levels that agree with what was seen, and the search for key and door in them."""

from __future__ import annotations

from looking import Chart, look
from memory import Memory
from planning import Planner
from search import DOOR, EMPTY, GOAL, KEY, LOCKED, PICKUP, TOGGLE, WALL, Cell, Level, Thing

LAST = 15
YELLOW = 4
CHARTS = 5
REST = 25.0
DOOR_WEIGHT = 0.5
Guess = tuple[Cell, int]  # where the agent began, and the column of the dividing wall


class KeyRoomPlanner(Planner):
    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.guesses: list[Guess] = [((x, y), s) for s in range(2, 14) for x in range(1, s) for y in range(1, LAST)]

    def plan(self, mission: str) -> list[int]:
        self.weights = {guess: weight for guess in self.guesses if (weight := self._weight(guess)) > 0}
        self.guesses = list(self.weights)
        kinds = {thing[0] for thing in self.memory.first.values()}
        if KEY not in kinds or (self.memory.carried[0] == KEY and DOOR not in kinds):
            return look(self._charts(KEY not in kinds, DOOR not in kinds), self._pose(), REST) or [0]
        return super().plan(mission)

    def _pose(self) -> tuple[int, int, int]:
        return (*self.memory.at, self.memory.facing)

    def horizon(self, plan: list[int]) -> int:
        return next((count + 1 for count, action in enumerate(plan) if action in (PICKUP, TOGGLE)), len(plan))

    def _seen(self, offset: Cell) -> dict[Cell, Thing]:
        return {(x + offset[0], y + offset[1]): thing for (x, y), thing in self.memory.first.items()}

    def _weight(self, guess: Guess) -> float:
        """Return how likely a guess is, up to a factor."""
        offset, split = guess
        key = door = False
        left = 0  # seen cells of the left part
        gates = 0  # seen cells of the dividing wall that could have held the door
        for (x, y), thing in self.memory.first.items():
            cell = x, y = (x + offset[0], y + offset[1])
            if not (0 <= x <= LAST and 0 <= y <= LAST):
                return 0.0
            outer = x in (0, LAST) or y in (0, LAST)
            gate = x == split and 1 <= y <= LAST - 2
            if thing[0] == DOOR:
                if not gate:
                    return 0.0
                door = True
            elif (thing[0] == WALL) != (outer or x == split) or (thing[0] == GOAL) != (cell == (14, 14)):
                return 0.0
            key |= thing[0] == KEY
            left += x < split and not outer
            gates += gate
        size = 14 * (split - 1)
        weight = 1.0 / (size * max(1, size - 1))
        return weight * (1 if key else size - left) * (1 if door else LAST - 2 - gates)

    def _guess(self) -> Guess:
        return self.rng.choices(self.guesses, list(self.weights.values()))[0]

    def _charts(self, key: bool, door: bool) -> list[Chart]:
        charts = []
        for _ in range(CHARTS):
            offset, split = self._guess()
            seen = self._seen(offset)
            walls = {(x, y) for x in range(-1, 17) for y in range(-1, 17) if x <= 0 or x >= split or not 0 < y < LAST}
            shifted = {(x - offset[0], y - offset[1]) for x, y in walls}
            places = [(x, y) for x in range(1, split) for y in range(1, LAST)]
            gates = [(split, y) for y in range(1, LAST - 1)]
            wanted = ([(1.0, places)] if key else []) + ([(DOOR_WEIGHT if key else 1.0, gates)] if door else [])
            for weight, cells in wanted:
                targets = [(x - offset[0], y - offset[1]) for x, y in cells if (x, y) not in seen]
                charts.append(Chart(shifted, targets, weight / CHARTS))
        return charts

    def draw(self, count: int) -> list[Level]:
        return [self._level(*self._guess()) for _ in range(count)]

    def _level(self, offset: Cell, split: int) -> Level:
        memory = self.memory
        cells: dict[Cell, Thing] = {}
        for x in range(LAST + 1):
            for y in range(LAST + 1):
                wall = x in (0, split, LAST) or y in (0, LAST)
                cells[x, y] = (WALL, 5, 0) if wall else (EMPTY, 0, 0)
        cells[14, 14] = (GOAL, 1, 0)
        seen = self._seen(offset)
        if not any(thing[0] == DOOR for thing in seen.values()):
            hidden = [(split, y) for y in range(1, LAST - 1) if (split, y) not in seen]
            cells[self.rng.choice(hidden)] = (DOOR, YELLOW, LOCKED)
        now = {(x + offset[0], y + offset[1]): thing for (x, y), thing in memory.now.items()}
        at = (memory.at[0] + offset[0], memory.at[1] + offset[1])
        return Level({**cells, **now}, at, memory.facing, memory.carried)
