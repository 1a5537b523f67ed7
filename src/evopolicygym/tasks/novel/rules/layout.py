"""Lays out the cases of a generated grid world: rooms, doors, locked rooms, and objects, so that the goal can be
reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from evopolicygym.errors import Fault
from evopolicygym.tasks.novel.rules.chain import FLOOR, OUTSIDE, WALL, Placement, RuleBook

SMALLEST_ROOM: Final = 3
MOST_ATTEMPTS: Final = 1000
LOCK_ATTEMPTS: Final = 50
PATIENCE: Final = 20  # attempts after which obstacles are left out


@dataclass(frozen=True)
class Plan:
    """Facts that all cases of a world share. ``margin`` is the width of the border, as wide as the agent sees."""

    width: int
    height: int
    rooms_across: int
    rooms_down: int
    margin: int
    extra_doors: float
    clutter: float
    hazards: float

    @property
    def stride(self) -> int:
        return self.width + 2 * self.margin

    @property
    def steps(self) -> tuple[int, int, int, int]:
        """How far apart neighbouring cells are, by direction: up, right, down, left."""
        return (-self.stride, 1, self.stride, -1)

    def cell(self, x: int, y: int) -> int:
        return (y + self.margin) * self.stride + x + self.margin


@dataclass
class Layout:
    """One case before its first step. Cells are numbers into ``cells``, row by row. ``kept`` are cells onto which the
    block cannot be pushed: doorways and the start. ``home`` is where the block stands; 0 without one."""

    cells: bytearray
    start: int = 0
    facing: int = 0
    home: int = 0
    kept: set[int] = field(default_factory=set)


class _Unsuitable(Exception):
    """This attempt cannot be continued; another one can succeed."""


def lay_out(book: RuleBook, plan: Plan, random: Random) -> Layout:
    """Draw layouts until one can be solved."""
    for attempt in range(MOST_ATTEMPTS):
        builder = _LayoutBuilder(book, plan, random)
        try:
            return builder.build(obstacles=attempt < PATIENCE)
        except _Unsuitable:
            continue
    raise Fault(f"no layout was found in {MOST_ATTEMPTS} attempts")


class _LayoutBuilder:
    def __init__(self, book: RuleBook, plan: Plan, random: Random) -> None:
        self._book, self._plan, self._random = book, plan, random
        self._layout = Layout(bytearray([OUTSIDE]) * (plan.stride * (plan.height + 2 * plan.margin)))
        self._rooms: list[list[int]] = []
        self._region: dict[int, int] = {}  # of a room
        self._gate_cells: list[int] = []
        self._reserved: set[int] = set()
        self._objects: list[tuple[int, int]] = []  # region and cell
        self._pusher = 0  # the cell from which the block is pushed to the pad

    def build(self, obstacles: bool) -> Layout:
        layout, random = self._layout, self._random
        self._build_rooms()
        self._lock_rooms()
        self._open_doors()
        open_rooms = [room for room, region in self._region.items() if region == 0]
        self._place_push()
        layout.start = self._take(self._rooms[random.choice(open_rooms)])
        layout.facing = random.randrange(4)
        layout.kept.add(layout.start)
        for placement in self._book.placements:
            self._place(placement)
        if obstacles:
            self._place_obstacles()
        self._check()
        return layout

    def _build_rooms(self) -> None:
        plan, cells = self._plan, self._layout.cells
        for y in range(plan.height):
            begin = plan.cell(0, y)
            cells[begin : begin + plan.width] = bytes([WALL]) * plan.width
        across = list(_spans(self._random, plan.width, plan.rooms_across))
        for top, bottom in _spans(self._random, plan.height, plan.rooms_down):
            for left, right in across:
                room = [plan.cell(x, y) for y in range(top, bottom) for x in range(left, right)]
                for cell in room:
                    cells[cell] = FLOOR
                self._rooms.append(room)

    def _lock_rooms(self) -> None:
        """Choose the room behind each gate: beside the room from which the gate is seen; the others stay connected."""
        numbers = range(len(self._rooms))
        for _ in range(LOCK_ATTEMPTS):
            locked = self._random.sample(numbers, len(self._book.gates))
            self._region = {room: locked.index(room) + 1 if room in locked else 0 for room in numbers}
            seen = (
                any(self._region[other] == gate.before for other in self._neighbours(room))
                for room, gate in zip(locked, self._book.gates, strict=True)
            )
            if all(seen) and self._connected([room for room in numbers if room not in locked]):
                return
        raise _Unsuitable

    def _connected(self, rooms: list[int]) -> bool:
        reached, waiting = {rooms[0]}, [rooms[0]]
        while waiting:
            for room in self._neighbours(waiting.pop()):
                if room in rooms and room not in reached:
                    reached.add(room)
                    waiting.append(room)
        return len(reached) == len(rooms)

    def _neighbours(self, room: int) -> Iterator[int]:
        across = self._plan.rooms_across
        down, right = divmod(room, across)
        for y, x in ((down - 1, right), (down, right + 1), (down + 1, right), (down, right - 1)):
            if 0 <= y < self._plan.rooms_down and 0 <= x < across:
                yield y * across + x

    def _open_doors(self) -> None:
        random = self._random
        rest = [room for room, region in self._region.items() if region == 0]
        joined = {random.choice(rest)}
        while len(joined) < len(rest):
            pairs = [(a, b) for a in joined for b in self._neighbours(a) if b in rest and b not in joined]
            a, b = random.choice(sorted(pairs))
            joined.add(b)
            self._door(a, b, FLOOR)
        for a in rest:
            for b in self._neighbours(a):
                if a < b and b in rest and random.random() < self._plan.extra_doors:
                    self._door(a, b, FLOOR)
        for number, gate in enumerate(self._book.gates, start=1):
            room = next(room for room, region in self._region.items() if region == number)
            before = [other for other in self._neighbours(room) if self._region[other] == gate.before]
            self._gate_cells.append(self._door(room, random.choice(before), gate.kind))

    def _door(self, a: int, b: int, kind: int) -> int:
        """Make a door in the wall between two rooms. The cells on both sides stay free."""
        first, second = set(self._rooms[a]), set(self._rooms[b])
        sides = [(cell + step, cell, cell + 2 * step) for cell in self._rooms[a] for step in self._plan.steps]
        door, inner, outer = self._random.choice([side for side in sides if side[1] in first and side[2] in second])
        self._layout.cells[door] = kind
        self._layout.kept.add(door)
        self._reserved |= {door, inner, outer}
        return door

    def _place_push(self) -> None:
        """Place block and pad in a line, with a free cell from which to push, and free cells between them."""
        if not (push := self._book.push):
            return
        random, layout = self._random, self._layout
        room = self._rooms[random.choice([room for room, region in self._region.items() if region == push.region])]
        inside, lines = set(room), []
        for cell in room:
            for step in self._plan.steps:
                for length in (1, 2, 3):
                    line = [cell + step * number for number in range(-1, length + 1)]
                    if inside.issuperset(line) and not self._reserved.intersection((line[1], line[-1])):
                        lines.append(line)
        if not lines:
            raise _Unsuitable
        line = random.choice(lines)
        self._pusher, layout.home = line[:2]
        layout.cells[layout.home], layout.cells[line[-1]] = push.block, push.pad
        self._reserved.update(line)

    def _place(self, placement: Placement) -> None:
        rooms = [self._rooms[room] for room, region in self._region.items() if region == placement.region]
        for _ in range(placement.copies):
            cell = self._take(self._random.choice(rooms))
            self._layout.cells[cell] = placement.kind
            self._objects.append((placement.region, cell))

    def _place_obstacles(self) -> None:
        for room in self._rooms:
            for cell in room:
                chance = self._random.random()
                if cell in self._reserved or chance > self._plan.clutter + self._plan.hazards:
                    continue
                if self._can_close(cell):
                    self._layout.cells[cell] = WALL if chance < self._plan.clutter else self._book.hazard

    def _take(self, room: Iterable[int]) -> int:
        free = [cell for cell in room if cell not in self._reserved and self._can_close(cell)]
        if not free:
            raise _Unsuitable
        cell = self._random.choice(free)
        self._reserved.add(cell)
        return cell

    def _can_close(self, cell: int) -> bool:
        """Return whether the free cells around a cell stay connected if it is closed: they form one piece."""
        cells, (up, right, down, left) = self._layout.cells, self._plan.steps
        ring = (up, up + right, right, right + down, down, down + left, left, left + up)
        free = [cells[cell + step] == FLOOR for step in ring]
        pieces = sum(free[side] and not (free[side - 1] and free[side - 2]) for side in (0, 2, 4, 6))
        return pieces == 1 or all(free)

    def _check(self) -> None:
        """Walk from the start through one gate after the other, on plain floor alone; everything must be in reach."""
        cells, steps = self._layout.cells, self._plan.steps
        reached, waiting = {self._layout.start}, [self._layout.start]
        for region in range(len(self._book.gates) + 1):
            if region:
                gate = self._gate_cells[region - 1]
                if not any(gate + step in reached for step in steps):
                    raise _Unsuitable
                reached.add(gate)
                waiting.append(gate)
            while waiting:
                cell = waiting.pop()
                for step in steps:
                    if cells[cell + step] == FLOOR and cell + step not in reached:
                        reached.add(cell + step)
                        waiting.append(cell + step)
            objects = (cell for wanted, cell in self._objects if wanted == region)
            if not all(any(cell + step in reached for step in steps) for cell in objects):
                raise _Unsuitable
            if self._book.push and self._book.push.region == region and self._pusher not in reached:
                raise _Unsuitable


def _spans(random: Random, size: int, rooms: int) -> Iterator[tuple[int, int]]:
    """Divide a side into rooms with a wall around each; yield where each begins and ends."""
    spare = size - 1 - rooms * (SMALLEST_ROOM + 1)
    cuts = sorted(random.randint(0, spare) for _ in range(rooms - 1))
    begin = 1
    for before, after in zip([0, *cuts], [*cuts, spare], strict=True):
        end = begin + SMALLEST_ROOM + after - before
        yield begin, end
        begin = end + 1
