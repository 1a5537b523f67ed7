"""Search for something that may be in many places: the path that sees likely places soon, by beam search.

A path costs the mean, over where the target may be, of the steps until it is seen and the steps from there to it. Paths
are judged on several maps that agree with what was seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from search import FORWARD, LEFT, RIGHT, STEPS, Cell, Pose

WIDTH = 60
DEPTH = 30


def way(ahead: int, aside: int) -> int:
    """Return the moves and turns to a cell in view if nothing is between."""
    return ahead + abs(aside) + (aside != 0)


@dataclass
class Chart:
    """A map in the agent's coordinates. ``targets`` are the cells where the target may be."""

    walls: set[Cell]
    targets: list[Cell]
    weight: float = 1.0
    views: dict[Pose, tuple[int, list[tuple[int, int]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bits = {cell: 1 << index for index, cell in enumerate(self.targets)}

    def view(self, pose: Pose) -> tuple[int, list[tuple[int, int]]]:
        """Return which targets can be seen from a pose, and them by the steps that they then take."""
        known = self.views.get(pose)
        if known is None:
            groups: dict[int, int] = {}
            for cell, ahead, aside in visible(pose, self.walls):
                if cell in self.bits:
                    steps = way(ahead, aside)
                    groups[steps] = groups.get(steps, 0) | self.bits[cell]
            together = 0
            for bits in groups.values():
                together |= bits
            known = self.views[pose] = (together, [(bits, steps) for steps, bits in groups.items()])
        return known


def visible(pose: Pose, opaque: set[Cell]) -> Iterator[tuple[Cell, int, int]]:
    """Yield the cells that are seen from a pose, with how far ahead and aside they are, as the task describes it."""
    x, y, facing = pose
    (ax, ay), (rx, ry) = STEPS[facing], STEPS[(facing + 1) % 4]
    row = {0}
    for ahead in range(7):
        further: set[int] = set()
        cells = {aside: (x + ahead * ax + aside * rx, y + ahead * ay + aside * ry) for aside in range(-3, 4)}
        for sweep, step in ((range(-3, 3), 1), (range(3, -3, -1), -1)):
            for aside in sweep:
                if aside in row and cells[aside] not in opaque:
                    row.add(aside + step)
                    further |= {aside, aside + step}
        for aside in row:
            yield cells[aside], ahead, aside
        row = further


@dataclass
class Node:
    pose: Pose
    hidden: tuple[int, ...]  # targets not seen yet, in each chart
    cost: float
    score: float
    before: Node | None
    action: int

    def path(self) -> list[int]:
        node, actions = self, []
        while node.before is not None:
            actions.append(node.action)
            node = node.before
        return actions[::-1]


def look(charts: list[Chart], pose: Pose, rest: float) -> list[int]:
    """Return the best path; ``rest`` is the guess of the steps that a target takes which the path does not see."""
    masses = [chart.weight / max(1, len(chart.targets)) for chart in charts]
    hidden = tuple((1 << len(chart.targets)) - 1 for chart in charts)
    beam = [Node(pose, hidden, 0.0, 0.0, None, LEFT)]
    finished: list[Node] = []
    for count in range(1, DEPTH + 1):
        best: dict[tuple[Pose, tuple[int, ...]], Node] = {}
        for node in beam:
            for action, following in _moves(node.pose):
                child = _child(charts, masses, node, action, following, count, rest)
                if child is None:
                    continue
                if not any(child.hidden):
                    finished.append(child)
                    continue
                key = (child.pose, child.hidden)
                if key not in best or child.cost < best[key].cost:
                    best[key] = child
        beam = sorted(best.values(), key=lambda node: node.score)[:WIDTH]
        if not beam:
            break
    return min(finished + beam, key=lambda node: node.score).path()


def _moves(pose: Pose) -> list[tuple[int, Pose]]:
    x, y, facing = pose
    return [
        (FORWARD, (x + STEPS[facing][0], y + STEPS[facing][1], facing)),
        (LEFT, (x, y, (facing - 1) % 4)),
        (RIGHT, (x, y, (facing + 1) % 4)),
    ]


def _child(
    charts: list[Chart], masses: list[float], node: Node, action: int, pose: Pose, count: int, rest: float
) -> Node | None:
    cost = node.cost
    left = 0.0
    hidden = []
    bumps = 0
    for chart, mass, bits in zip(charts, masses, node.hidden, strict=True):
        if action == FORWARD and pose[:2] in chart.walls:
            bumps += 1
            cost += mass * bits.bit_count() * (count + rest)  # the path ends here in this chart
            hidden.append(0)
            continue
        together, groups = chart.view(pose)
        new = bits & together
        if new:
            for part, steps in groups:
                if found := new & part:
                    cost += mass * found.bit_count() * (count + steps)
            bits &= ~together
        hidden.append(bits)
        left += mass * bits.bit_count()
    if bumps == len(charts):
        return None
    return Node(pose, tuple(hidden), cost, cost + left * (count + rest), node, action)
