"""Shortest plans in a MiniGrid level that is known in full, by A* over the simulator's true state.

A state is the agent's cell and direction, what it carries, where every object is, and which doors are open. The bound
of the remaining steps never exceeds them: it counts the turns and moves on an empty map, past the box or key of the
locked door, that door and the goal in this order, and the actions that no plan can leave out. So a plan is a shortest
one.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE = range(6)
UNSEEN, EMPTY, WALL, FLOOR, DOOR, KEY, BALL, BOX, GOAL, LAVA = range(10)
OPEN, CLOSED, LOCKED = range(3)
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))
HAND, GONE = (-1, -1), (-2, -2)
FAR = 10**6

Cell = tuple[int, int]
Pose = tuple[int, int, int]
Thing = tuple[int, int, int]  # type, colour, state, as in the observation
State = tuple[Pose, tuple[Cell, ...], tuple[int, ...]]  # pose, cell of each object, state of each door


@dataclass
class Level:
    """A level and the pose in it. ``boxes`` says which key a box holds, by the box's cell."""

    cells: dict[Cell, Thing]
    at: Cell
    facing: int
    carried: Thing = (EMPTY, 0, 0)
    boxes: dict[Cell, Thing] = field(default_factory=dict)
    goal: Thing = (GOAL, 1, 0)


def front_of(pose: Pose) -> Cell:
    return pose[0] + STEPS[pose[2]][0], pose[1] + STEPS[pose[2]][1]


class Search:
    def __init__(self, level: Level, start: State | None = None, lift_boxes: bool = True) -> None:
        self.level = level
        self.lift_boxes = lift_boxes
        self.doors = [cell for cell, thing in level.cells.items() if thing[0] == DOOR]
        self.door_index = {cell: index for index, cell in enumerate(self.doors)}
        self.free = {cell for cell, thing in level.cells.items() if thing[0] != WALL}
        self.kinds: list[Thing] = []
        self.held: dict[int, int] = {}  # by a box: the key in it
        places: list[Cell] = []
        for cell, thing in level.cells.items():
            if thing[0] in (KEY, BALL, BOX):
                self.kinds.append(thing)
                places.append(cell)
                if cell in level.boxes and thing[0] == BOX:
                    self.held[len(places) - 1] = len(places)
                    self.kinds.append(level.boxes[cell])
                    places.append(GONE)
        if level.carried[0] != EMPTY:
            self.kinds.append(level.carried)
            places.append(HAND)
        self.start: State = start or (
            (*level.at, level.facing),
            tuple(places),
            tuple(level.cells[cell][2] for cell in self.doors),
        )
        self.wanted = [index for index, kind in enumerate(self.kinds) if kind == level.goal]
        self.goals = [cell for cell, thing in level.cells.items() if thing == level.goal]
        self.locked = [cell for cell in self.doors if level.cells[cell][2] == LOCKED]
        self.distances: dict[tuple[Cell, bool], dict[Pose, int]] = {}
        self.between: dict[tuple[Cell, Cell], int] = {}
        self.expanded = 0

    # --- bound --------------------------------------------------------------------------------

    def to_face(self, cell: Cell, crossing: bool) -> dict[Pose, int]:
        """Return the fewest turns and moves from each pose until it faces the cell, as if nothing lay in the way.

        Without ``crossing``, locked doors count as walls."""
        known = self.distances.get((cell, crossing))
        if known is not None:
            return known
        barred = set() if crossing else set(self.locked)
        found: dict[Pose, int] = {}
        queue: deque[Pose] = deque()
        for facing, (dx, dy) in enumerate(STEPS):
            pose = (cell[0] - dx, cell[1] - dy, facing)
            if pose[:2] in self.free and pose[:2] not in barred:
                found[pose] = 0
                queue.append(pose)
        while queue:
            x, y, facing = pose = queue.popleft()
            back = (x - STEPS[facing][0], y - STEPS[facing][1])
            before = [(x, y, (facing + 1) % 4), (x, y, (facing - 1) % 4)]
            if back in self.free and back not in barred:
                before.append((*back, facing))
            for earlier in before:
                if earlier not in found:
                    found[earlier] = found[pose] + 1
                    queue.append(earlier)
        self.distances[cell, crossing] = found
        return found

    def leg(self, start: Cell, end: Cell, crossing: bool) -> int:
        """Return the fewest turns and moves from any pose that faces one cell to one that faces another."""
        if (start, end) not in self.between:
            distances = self.to_face(end, crossing)
            self.between[start, end] = min(
                (distances.get((start[0] - dx, start[1] - dy, facing), FAR) for facing, (dx, dy) in enumerate(STEPS)),
                default=FAR,
            )
        return self.between[start, end]

    def bound(self, state: State) -> int:
        """Return a number of steps that is never more than those which the best plan still takes."""
        pose, places, doors = state
        if self.wanted:
            goal = places[self.wanted[0]]
            last = 1 + (HAND in places)
        else:
            goal, last = self.goals[0], 1
        locked = [cell for cell in self.locked if doors[self.door_index[cell]] == LOCKED and self._bars(cell)]
        if not locked:
            return self.to_face(goal, True).get(pose, FAR) + last
        door = locked[0]
        color = self.level.cells[door][1]
        after = 1 + self.leg(door, goal, True) + (2 if self.wanted else 1)
        cell, extra, busy = self._key(places, color)
        blocked = 2 * any(self._in_the_way(place, door) for place in places if place != cell)
        if cell == HAND:
            return self.to_face(door, False).get(pose, FAR) + 2 * blocked + after
        if cell == GONE:
            return after
        return (
            self.to_face(cell, False).get(pose, FAR) + extra + max(busy, blocked) + self.leg(cell, door, False) + after
        )

    def _key(self, places: tuple[Cell, ...], color: int) -> tuple[Cell, int, int]:
        """Return where the key is (in the hand, in a box), the steps to take it, and 1 if the hand is to be emptied."""
        busy = int(HAND in places)
        for index, kind in enumerate(self.kinds):
            if kind[:2] == (KEY, color) and places[index] != GONE:
                return places[index], 1, busy
        for box, key in self.held.items():
            if self.kinds[key][:2] == (KEY, color):
                cell = places[box]
                return (GONE, 0, 0) if cell == HAND else (cell, 2, busy)
        return GONE, 0, 0

    def _bars(self, door: Cell) -> bool:
        """Tell whether the goal cannot be reached except through the locked door."""
        return door in self._barring

    @property
    def _barring(self) -> set[Cell]:
        if not hasattr(self, "_barring_doors"):
            self._barring_doors = {door for door in self.locked if self._needed(door)}
        return self._barring_doors

    def _needed(self, door: Cell) -> bool:
        reached, queue = {self.level.at}, deque([self.level.at])
        while queue:
            x, y = queue.popleft()
            for dx, dy in STEPS:
                cell = (x + dx, y + dy)
                if cell in self.free and cell != door and cell not in reached:
                    reached.add(cell)
                    queue.append(cell)
        return not any(goal in reached for goal in self.goals)

    def _in_the_way(self, place: Cell, door: Cell) -> bool:
        """Tell whether an object lies on the only cell from which the door can be opened from this side."""
        return abs(place[0] - door[0]) + abs(place[1] - door[1]) == 1 and place in self._near_side

    @property
    def _near_side(self) -> set[Cell]:
        if not hasattr(self, "_near_cells"):
            barred = set(self.locked)
            reached, queue = {self.level.at}, deque([self.level.at])
            while queue:
                x, y = queue.popleft()
                for dx, dy in STEPS:
                    cell = (x + dx, y + dy)
                    if cell in self.free and cell not in barred and cell not in reached:
                        reached.add(cell)
                        queue.append(cell)
            self._near_cells = reached
        return self._near_cells

    # --- search -------------------------------------------------------------------------------

    def successors(self, state: State) -> list[tuple[int, State | None]]:
        """Return the useful actions and what follows from them; None stands for the end."""
        (x, y, facing), places, doors = state
        front = (x + STEPS[facing][0], y + STEPS[facing][1])
        nexts: list[tuple[int, State | None]] = [
            (LEFT, ((x, y, (facing - 1) % 4), places, doors)),
            (RIGHT, ((x, y, (facing + 1) % 4), places, doors)),
        ]
        if front not in self.free:
            return nexts
        hand = places.index(HAND) if HAND in places else None
        if front in places:
            index = places.index(front)
            if hand is None:
                if index in self.wanted:
                    return [(PICKUP, None)]
                if self.lift_boxes or self.kinds[index][0] != BOX:
                    nexts.append((PICKUP, (state[0], _moved(places, index, HAND), doors)))
            if self.kinds[index][0] == BOX and index in self.held:
                opened = _moved(_moved(places, index, GONE), self.held[index], front)
                nexts.append((TOGGLE, (state[0], opened, doors)))
            return nexts
        door = self.door_index.get(front)
        if door is not None:
            if doors[door] == OPEN:
                nexts.append((FORWARD, ((*front, facing), places, doors)))
            elif doors[door] == CLOSED or (
                hand is not None and self.kinds[hand][:2] == (KEY, self.level.cells[front][1])
            ):
                nexts.append((TOGGLE, (state[0], places, _changed(doors, door, OPEN))))
            return nexts
        if not self.wanted and front in self.goals:
            return [(FORWARD, None)]
        nexts.append((FORWARD, ((*front, facing), places, doors)))
        if hand is not None:
            nexts.append((DROP, (state[0], _moved(places, hand, front), doors)))
        return nexts

    def plan(self, limit: int = FAR) -> list[int] | None:
        """Return a shortest plan, or None if there is none or ``limit`` states did not suffice."""
        if not self.goals:
            return None
        costs: dict[State, int] = {self.start: 0}
        came: dict[State, tuple[State, int]] = {}
        queue: list[tuple[int, int, int, State]] = [(self.bound(self.start), 0, 0, self.start)]
        tie = 0
        while queue:
            estimate, _, _, state = heapq.heappop(queue)
            cost = costs[state]
            if estimate > cost + self.bound(state):
                continue
            self.expanded += 1
            if self.expanded > limit:
                return None
            for action, following in self.successors(state):
                if following is None:
                    return [*_route(came, state), action]
                if cost + 1 < costs.get(following, FAR):
                    ahead = self.bound(following)
                    if ahead >= FAR:
                        continue
                    costs[following] = cost + 1
                    came[following] = (state, action)
                    tie += 1
                    heapq.heappush(queue, (cost + 1 + ahead, -cost, tie, following))
        return None


def _route(came: dict[State, tuple[State, int]], state: State) -> list[int]:
    route = []
    while state in came:
        state, action = came[state]
        route.append(action)
    return route[::-1]


def _moved(places: tuple[Cell, ...], index: int, cell: Cell) -> tuple[Cell, ...]:
    return (*places[:index], cell, *places[index + 1 :])


def _changed(doors: tuple[int, ...], index: int, state: int) -> tuple[int, ...]:
    return (*doors[:index], state, *doors[index + 1 :])
