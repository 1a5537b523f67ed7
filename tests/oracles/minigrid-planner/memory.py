"""What the agent has seen, in coordinates whose origin is the cell where it started."""

from __future__ import annotations

from typing import Any

from search import BOX, DOOR, EMPTY, FLOOR, FORWARD, GOAL, KEY, OPEN, STEPS, TOGGLE, UNSEEN, WALL, Cell, Thing


class Memory:
    def __init__(self) -> None:
        self.now: dict[Cell, Thing] = {(0, 0): (EMPTY, 0, 0)}
        self.first: dict[Cell, Thing] = {(0, 0): (EMPTY, 0, 0)}  # as each cell was when it was seen first
        self.opened: dict[Cell, Thing] = {}  # keys that came out of boxes, by the cell of the box
        self.at: Cell = (0, 0)
        self.facing = 0
        self.carried: Thing = (EMPTY, 0, 0)

    def front(self) -> Cell:
        return self.at[0] + STEPS[self.facing][0], self.at[1] + STEPS[self.facing][1]

    def can_enter(self, cell: Cell) -> bool:
        kind, _, state = self.now.get(cell, (WALL, 0, 0))
        return kind in (EMPTY, FLOOR, GOAL) or (kind == DOOR and state == OPEN)

    def see(self, obs: Any, last: int | None) -> bool:
        """Take in an observation after the last action; tell whether it shows cells that were unknown."""
        front = self.front()
        if last == FORWARD and self.can_enter(front):
            self.at = front
        before = self.now.get(front)
        self.facing = int(obs["direction"])
        ahead, right = STEPS[self.facing], STEPS[(self.facing + 1) % 4]
        view = obs["image"].tolist()
        self.carried = tuple(view[3][6])
        new = False
        for i in range(7):
            for j in range(7):
                thing: Thing = tuple(view[i][j])
                if (i, j) == (3, 6) or thing[0] == UNSEEN:
                    continue
                cell = (
                    self.at[0] + (6 - j) * ahead[0] + (i - 3) * right[0],
                    self.at[1] + (6 - j) * ahead[1] + (i - 3) * right[1],
                )
                self.now[cell] = thing
                new |= self.first.setdefault(cell, thing) is thing
        if last == TOGGLE and before and before[0] == BOX and self.now[front][0] == KEY:
            self.opened[front] = self.now[front]
            new = True
        return new
