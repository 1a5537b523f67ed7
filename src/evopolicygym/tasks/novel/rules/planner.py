"""Solves a case of a generated grid world in the fewest steps.

The search is exact. It is Dijkstra's over moments at which the agent changes the world (acts on an object, pushes the
block, lets go); between two of them it takes a shortest walk, so that only the places before and after matter. A state
holds all that the future depends on: all cells, what is held, the steps until each growing object is ripe, place and
direction. Only rules beside the chain are left out: what they give is of use to no rule of the chain, so an agent that
applies one could as well wait or let go."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final, NamedTuple

from evopolicygym.errors import Fault
from evopolicygym.tasks.novel.rules.chain import (
    FLOOR,
    FORWARD,
    LET_GO,
    NOTHING,
    OFF_CHAIN,
    TURN_LEFT,
    TURN_RIGHT,
    VERB,
    WAIT,
    Rule,
    RuleBook,
)
from evopolicygym.tasks.novel.rules.layout import Layout, Plan

NEVER: Final = 1 << 30
SOLVED: Final = -1
Timers = tuple[tuple[int, int], ...]  # cell and steps until it is ripe


class _State(NamedTuple):
    """``stand`` is four times the agent's cell, plus the direction that it faces; ``SOLVED`` at the goal."""

    cells: bytes
    held: int
    timers: Timers
    stand: int


class _Change(NamedTuple):
    """A walk to ``approach``, perhaps some waiting, and one action that leads to another state."""

    after: _State
    steps: int
    approach: int
    meaning: int


class _Walks:
    """Shortest walks from one stand to all others, without changing the world. ``came`` has the step to each."""

    def __init__(self, start: int) -> None:
        self.steps = {start: 0}
        self.came: dict[int, tuple[int, int, int]] = {}  # from where, meaning of the action, steps that it takes


class RulesPlanner:
    """Plans cases of one world."""

    def __init__(self, book: RuleBook, plan: Plan, meanings: Sequence[int]) -> None:
        self._book, self._directions = book, plan.steps
        self._actions = {meaning: action for action, meaning in enumerate(meanings)}
        self._turning = FORWARD in self._actions
        self._solid = book.solid()
        self._growing = {ripe: kind for kind, (_, ripe) in book.ripening.items()}
        self._rules: dict[int, list[Rule]] = {}
        for rule in book.rules:
            if rule.link != OFF_CHAIN:
                self._rules.setdefault(rule.held, []).append(rule)
        self._layout = Layout(bytearray())
        self._walks: dict[tuple[bytes, int], _Walks] = {}
        self._edges: dict[bytes, dict[int, list[tuple[int, int, int]]]] = {}

    def solve(self, layout: Layout) -> list[int]:
        """Return a shortest sequence of actions to the goal."""
        self._layout = layout
        self._walks, self._edges = {}, {}
        start = _State(bytes(layout.cells), NOTHING, (), 4 * layout.start + layout.facing)
        best, numbers = {start: 0}, count()
        reached_from: dict[_State, tuple[_State, _Change]] = {}
        queue: list[tuple[int, int, _State]] = [(0, next(numbers), start)]
        while queue:
            steps, _, state = heapq.heappop(queue)
            if steps > best[state]:
                continue
            if state.stand == SOLVED:
                return self._actions_to(state, reached_from)
            for change in self._changes(state):
                total = steps + change.steps
                if total < best.get(change.after, NEVER):
                    best[change.after] = total
                    reached_from[change.after] = (state, change)
                    heapq.heappush(queue, (total, next(numbers), change.after))
        raise Fault("a generated case cannot be solved")

    def _actions_to(self, state: _State, reached_from: dict[_State, tuple[_State, _Change]]) -> list[int]:
        meanings: list[int] = []  # from the last one to the first
        while state in reached_from:
            state, change = reached_from[state]
            walks = self._walk(state)
            meanings.append(change.meaning)
            meanings += [WAIT] * (change.steps - 1 - walks.steps[change.approach])
            stand = change.approach
            while stand in walks.came:
                stand, meaning, steps = walks.came[stand]
                meanings += [*[WAIT] * (steps - 1), meaning]
        return [self._actions[meaning] for meaning in reversed(meanings)]

    def _changes(self, state: _State) -> Iterator[_Change]:
        """Yield all ways to change the world."""
        walks = self._walk(state)
        remaining = dict(state.timers)
        for rule in self._rules.get(state.held, ()):
            targets = [(cell, 0) for cell in _find(state.cells, rule.target)]
            if rule.target in self._growing:
                growing = self._growing[rule.target]
                targets += [(cell, remaining[cell]) for cell in _find(state.cells, growing)]
            for cell, ready in targets:
                for direction, step in enumerate(self._directions):
                    approach = 4 * (cell - step) + direction
                    if approach in walks.steps:
                        steps = max(walks.steps[approach], ready) + 1
                        yield _Change(
                            self._applied(state, rule, cell, approach, steps), steps, approach, VERB + rule.verb
                        )
        yield from self._pushes(state, walks)
        if state.held != NOTHING:
            cells, timers = self._later(state, 1)
            yield _Change(_State(cells, NOTHING, timers, state.stand), 1, state.stand, LET_GO)

    def _applied(self, state: _State, rule: Rule, cell: int, stand: int, steps: int) -> _State:
        if rule.link == self._book.depth - 1:
            return _State(b"", NOTHING, (), SOLVED)
        before, timers = self._later(state, steps)
        cells = bytearray(before)
        cells[cell] = rule.leaves
        if rule.leaves in self._book.ripening:
            timers = tuple(sorted((*timers, (cell, self._book.ripening[rule.leaves][0]))))
        return _State(self._opened(cells, rule.opens), rule.gives, timers, stand)

    def _pushes(self, state: _State, walks: _Walks) -> Iterator[_Change]:
        push, layout = self._book.push, self._layout
        for block in _find(state.cells, push.block) if push else ():
            assert push is not None
            for direction, step in enumerate(self._directions):
                place, beyond = block - step, block + step
                facings = (direction,) if self._turning else range(4)
                approach = min((4 * place + facing for facing in facings), key=lambda s: walks.steps.get(s, NEVER))
                if approach not in walks.steps:
                    continue
                steps = walks.steps[approach] + 1
                before, timers = self._later(state, steps)
                cells, opens = bytearray(before), FLOOR
                cells[block] = FLOOR
                if cells[beyond] == push.pad:
                    cells[beyond], place, opens = push.leaves, block, push.opens
                elif cells[beyond] == FLOOR and beyond not in layout.kept:
                    cells[beyond], place = push.block, block
                elif place != layout.home:
                    cells[layout.home] = push.block
                else:
                    cells[block] = push.block
                after = _State(self._opened(cells, opens), state.held, timers, 4 * place + direction)
                yield _Change(after, steps, approach, FORWARD if self._turning else direction)

    def _later(self, state: _State, steps: int) -> tuple[bytes, Timers]:
        """Return the cells and timers of a state some steps later."""
        if not state.timers:
            return state.cells, ()
        cells = bytearray(state.cells)
        for cell, remaining in state.timers:
            if remaining <= steps:
                cells[cell] = self._book.ripening[cells[cell]][1]
        return bytes(cells), tuple((cell, remaining - steps) for cell, remaining in state.timers if remaining > steps)

    def _opened(self, cells: bytearray, gate: int) -> bytes:
        return bytes(cells.replace(bytes([gate]), bytes([FLOOR])) if gate else cells)

    def _walk(self, state: _State) -> _Walks:
        """Return the shortest walks from where the agent stands. Where actions move in all directions, the way on does
        not depend on the direction that it faces, so a cell is left only once."""
        key = (state.cells, state.stand)
        if key in self._walks:
            return self._walks[key]
        walks = self._walks[key] = _Walks(state.stand)
        edges, visited = self._edges_of(state.cells), set[int]()
        layers, now = {0: [state.stand]}, 0
        while layers:
            for stand in layers.pop(now, ()):
                node = stand if self._turning else stand >> 2
                if node in visited or walks.steps[stand] < now:
                    continue
                visited.add(node)
                for after, steps, meaning in edges[node]:
                    if now + steps < walks.steps.get(after, NEVER):
                        walks.steps[after] = now + steps
                        walks.came[after] = (stand, meaning, steps)
                        layers.setdefault(now + steps, []).append(after)
            now += 1
        return walks

    def _edges_of(self, cells: bytes) -> dict[int, list[tuple[int, int, int]]]:
        """Return the steps that can be made: to which stand, how long it takes, by which action. They start from
        stands where the agent turns, else from cells."""
        if cells in self._edges:
            return self._edges[cells]
        edges: dict[int, list[tuple[int, int, int]]] = {}
        for cell, kind in enumerate(cells):
            if self._solid[kind]:
                continue
            ahead = [self._step(cells, cell, direction) for direction in range(4)]
            if self._turning:
                for facing, forward in enumerate(ahead):
                    turns = [(4 * cell + (facing + 3) % 4, 1, TURN_LEFT), (4 * cell + (facing + 1) % 4, 1, TURN_RIGHT)]
                    moves = [(*forward, FORWARD)] if forward and forward[0] != 4 * cell + facing else []
                    edges[4 * cell + facing] = turns + moves
            else:
                edges[cell] = [(*step, direction) for direction, step in enumerate(ahead) if step]
        self._edges[cells] = edges
        return edges

    def _step(self, cells: bytes, cell: int, direction: int) -> tuple[int, int] | None:
        """Return where a step in a direction leads, and how long it takes; None if it pushes the block."""
        ahead = cell + self._directions[direction]
        kind = cells[ahead]
        if self._book.push and kind == self._book.push.block:
            return None
        if self._solid[kind]:
            return 4 * cell + direction, 1
        if kind != self._book.hazard:
            return 4 * ahead + direction, 1
        return (
            (4 * ahead + direction, 1 + self._book.stun) if self._book.stun else (4 * self._layout.start + direction, 1)
        )


def _find(cells: bytes, kind: int) -> Iterator[int]:
    cell = cells.find(kind)
    while cell >= 0:
        yield cell
        cell = cells.find(kind, cell + 1)
