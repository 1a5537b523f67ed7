"""MiniGrid by mapping and search, for every task of the family that ends at a goal or an object.

The 7x7 views are pasted into a map around the (dead-reckoned) start. Every decision is a
shortest-path search over poses for the nearest one that faces a wanted cell. In order: the goal
or the mission's object, a locked door whose key is in hand, a known key of a known door, a box
while a key is missing, then unseen cells. Objects in the way are picked up and put where they
block nothing; whatever is in hand is put down only when the hand is needed.
"""

from __future__ import annotations

import heapq
import re
from typing import Any

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE = range(6)
UNSEEN, EMPTY, WALL, FLOOR, DOOR, KEY, BALL, BOX, GOAL, LAVA = range(10)
OPEN, CLOSED, LOCKED = range(3)
COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
OBJECTS = {"key": KEY, "ball": BALL, "box": BOX}
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))
RING = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))

Cell = tuple[int, int]
Pose = tuple[int, int, int]
Thing = tuple[int, int, int]  # type, colour, state, as in the observation


class Policy:
    def __init__(self, obs_space: Any = None, action_space: Any = None, env_meta: Any = None) -> None:
        self.reset(0)

    def reset(self, episode_index: int) -> None:
        self.map: dict[Cell, Thing] = {(0, 0): (EMPTY, 0, 0)}
        self.at: Cell = (0, 0)
        self.facing = 0
        self.carried: Thing = (EMPTY, 0, 0)
        self.route: list[int] = []
        self.last: int | None = None

    def act(self, obs: Any) -> int:
        if self.last == FORWARD and self._can_enter(self._front()):
            self.at = self._front()
        changed = self._look(obs)
        if changed or not self.route:
            self.route = self._decide(str(obs["mission"])) or [LEFT]
        action = self.route.pop(0)
        if action == FORWARD and self.map.get(self._front(), (WALL, 0, 0))[::2] == (DOOR, CLOSED):
            self.route.insert(0, FORWARD)
            action = TOGGLE
        self.last = action
        return action

    # --- the map ---------------------------------------------------------------------------

    def _front(self) -> Cell:
        return self.at[0] + STEPS[self.facing][0], self.at[1] + STEPS[self.facing][1]

    def _can_enter(self, cell: Cell) -> bool:
        kind, _, state = self.map.get(cell, (WALL, 0, 0))
        return kind in (EMPTY, FLOOR, GOAL) or (kind == DOOR and state == OPEN)

    def _look(self, obs: Any) -> bool:
        """Paste the view into the map; tell whether anything new came up."""
        self.facing = int(obs["direction"])
        ahead, right = STEPS[self.facing], STEPS[(self.facing + 1) % 4]
        changed = False
        view = obs["image"].tolist()
        for i in range(7):
            for j in range(7):
                thing: Thing = tuple(view[i][j])
                if (i, j) == (3, 6):
                    changed |= thing != self.carried
                    self.carried = thing
                elif thing[0] != UNSEEN:
                    cell = (
                        self.at[0] + (6 - j) * ahead[0] + (i - 3) * right[0],
                        self.at[1] + (6 - j) * ahead[1] + (i - 3) * right[1],
                    )
                    changed |= self.map.get(cell) != thing
                    self.map[cell] = thing
        return changed

    def _cells(self, kind: int, color: int | None = None, state: int | None = None) -> list[Cell]:
        return [
            cell
            for cell, thing in self.map.items()
            if thing[0] == kind and color in (None, thing[1]) and state in (None, thing[2])
        ]

    # --- what to do ------------------------------------------------------------------------

    def _decide(self, mission: str) -> list[int] | None:
        wanted = re.search(r"(\w+) (key|ball|box)$", mission)
        if wanted and wanted[1] in COLORS:
            prize = self._cells(OBJECTS[wanted[2]], COLORS.index(wanted[1]))
        else:
            prize = self._cells(GOAL)
        route = self._go(prize, PICKUP if wanted else FORWARD, clear=True)
        doors = self._cells(DOOR, state=LOCKED)
        hand = self.carried[1] if self.carried[0] == KEY else None
        ready = [door for door in doors if self.map[door][1] == hand]
        route = route or self._go(ready, TOGGLE, clear=True)
        lacking = False
        for door in doors:
            keys = self._cells(KEY, self.map[door][1])
            lacking = lacking or not keys
            if keys and not route:
                route = self._clear_way([door]) or self._go(keys, PICKUP, clear=True)
        if not doors:
            route = route or (None if hand is not None else self._go(self._cells(KEY), PICKUP))
        if lacking:
            route = route or self._go(self._cells(BOX), TOGGLE)
        route = route or self._explore()
        return route or self._go(self._cells(BOX), TOGGLE, clear=True)

    def _explore(self) -> list[int] | None:
        unseen: set[Cell] = set()
        for x, y in list(self.map):
            kind, _, state = self.map[x, y]
            if kind in (EMPTY, FLOOR) or (kind == DOOR and state != LOCKED):
                unseen.update((x + dx, y + dy) for dx, dy in STEPS if (x + dx, y + dy) not in self.map)
        return self._search(unseen) or self._clear_way(list(unseen))

    def _go(self, cells: list[Cell], action: int, clear: bool = False) -> list[int] | None:
        """Face one of the cells and act on it, with the hand emptied first if need be."""
        route = self._search(set(cells))
        if route is None:
            return self._clear_way(cells) if clear else None
        if action == PICKUP and self.carried[0] != EMPTY:
            return self._put_down()
        return [*route, action]

    def _clear_way(self, cells: list[Cell]) -> list[int] | None:
        """Take away the first object on the way to cells that can only be faced past objects."""
        if not cells or self._search(set(cells)) is not None:
            return None
        route = self._search(set(cells), through_objects=True)
        (x, y), facing = self.at, self.facing
        for action in route or []:
            if action == FORWARD:
                x, y = x + STEPS[facing][0], y + STEPS[facing][1]
                if self.map[x, y][0] in (KEY, BALL, BOX):
                    return self._go([(x, y)], PICKUP)
            else:
                facing = (facing + (1 if action == RIGHT else -1)) % 4
        return None

    def _put_down(self) -> list[int] | None:
        """Drop at the nearest cell that joins no two free regions and is beside no door."""
        empty = [cell for cell in self._cells(EMPTY) if cell != self.at]
        aside = [
            (x, y) for x, y in empty if all(self.map.get((x + dx, y + dy), (WALL, 0, 0))[0] != DOOR for dx, dy in STEPS)
        ]
        harmless = []
        for x, y in aside:
            free = [self._can_enter((x + dx, y + dy)) for dx, dy in RING]
            if sum(free[i] != free[i - 1] for i in range(8)) <= 2:
                harmless.append((x, y))
        for choice in (harmless, aside, empty):
            route = self._search(set(choice))
            if route is not None:
                return [*route, DROP]
        return None

    def _search(self, cells: set[Cell], through_objects: bool = False) -> list[int] | None:
        """Cheapest sequence of turns and moves to a pose that faces one of the cells."""
        start = (*self.at, self.facing)
        came: dict[Pose, tuple[Pose, int]] = {}
        costs: dict[Pose, int] = {start: 0}
        queue = [(0, start)] if cells else []
        while queue:
            cost, pose = heapq.heappop(queue)
            if cost > costs[pose]:
                continue
            x, y, facing = pose
            front = (x + STEPS[facing][0], y + STEPS[facing][1])
            if front in cells:
                route = []
                while pose != start:
                    pose, action = came[pose]
                    route.append(action)
                return route[::-1]
            nexts = [(1, (x, y, (facing - 1) % 4), LEFT), (1, (x, y, (facing + 1) % 4), RIGHT)]
            toll = self._toll(front, through_objects)
            if toll:
                nexts.append((toll, (*front, facing), FORWARD))
            for price, following, action in nexts:
                if cost + price < costs.get(following, cost + price + 1):
                    costs[following] = cost + price
                    came[following] = (pose, action)
                    heapq.heappush(queue, (cost + price, following))
        return None

    def _toll(self, cell: Cell, through_objects: bool) -> int:
        """Steps that entering the cell takes, nought if it cannot be entered."""
        kind, _, state = self.map.get(cell, (WALL, 0, 0))
        if kind in (EMPTY, FLOOR, GOAL):
            return 1
        if kind == DOOR and state != LOCKED:
            return 1 + state
        return 30 if through_objects and kind in (KEY, BALL, BOX) else 0
