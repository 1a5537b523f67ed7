"""The rules of a generated grid world: what happens when the agent acts on an object, as a table that is drawn.

A chain of rules leads to the goal; each of its links needs the one before. Rules beside the chain lead nowhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final

# Kinds that every world has. The others are drawn.
FLOOR, WALL, OUTSIDE, NOTHING, STUNNED = range(5)
AGENT: Final = 5  # and the three after it: the agent by the direction that it faces
DRAWN: Final = 9  # the first drawn kind
OFF_CHAIN: Final = -1
# What actions do. The first four move up, right, down and left; verbs act on the cell ahead.
WAIT, LET_GO, TURN_LEFT, TURN_RIGHT, FORWARD, VERB = range(4, 10)
MOST_GATES: Final = {1: 1, 2: 1, 3: 2, 4: 2}
MOST_BEHIND: Final = 3  # objects behind one gate, which is a small room
DISTRACTORS: Final = {1: 1, 2: 2, 3: 3, 4: 4}


class Role(StrEnum):
    """The part that a kind of object plays. Worlds with the same roles still differ in rules, codes and looks."""

    FIXED = "fixed"
    ITEM = "item"
    SOURCE = "source"
    STATION = "station"
    GROWING = "growing"
    GATE = "gate"
    LEVER = "lever"
    BLOCK = "block"
    PAD = "pad"
    HAZARD = "hazard"
    GOAL = "goal"
    PULSE = "pulse"


WALKABLE: Final = (Role.PAD, Role.HAZARD)


@dataclass(frozen=True)
class Rule:
    """Acting with ``verb`` on a ``target`` while holding ``held``: what is held then, and what the target turns into.
    ``opens`` is the gate that turns to floor, ``link`` the rule's place in the chain."""

    verb: int
    held: int
    target: int
    gives: int
    leaves: int
    opens: int = FLOOR
    link: int = OFF_CHAIN


@dataclass(frozen=True)
class Push:
    """A block that can be pushed; on the pad it turns the pad into ``leaves`` and opens a gate, if there is one."""

    block: int
    pad: int
    leaves: int
    opens: int
    link: int
    region: int


@dataclass(frozen=True)
class Gate:
    """A gate to a room of its own, which is region 1, 2, ... The gate is seen from region ``before``; 0 is the rest."""

    kind: int
    before: int


@dataclass(frozen=True)
class Placement:
    """Objects of one kind that every case has."""

    kind: int
    region: int
    copies: int


@dataclass(frozen=True)
class RuleBook:
    """All rules of a world. ``roles`` is indexed by kind. ``ripening`` tells what a kind turns into, after how many
    steps. A hazard stuns for ``stun`` steps, or with 0 sends the agent back to the start."""

    depth: int
    roles: tuple[Role, ...]
    rules: tuple[Rule, ...]
    ripening: dict[int, tuple[int, int]]
    push: Push | None
    gates: tuple[Gate, ...]
    placements: tuple[Placement, ...]
    hazard: int
    stun: int
    pulses: tuple[int, ...]

    def solid(self) -> bytes:
        """Return, by kind, whether it stands in the way."""
        return bytes(kind != FLOOR and role not in WALKABLE for kind, role in enumerate(self.roles))


def draw_rules(random: Random, level: int, verbs: int) -> RuleBook:
    """Draw the rules of a level: a chain of depth 2, 4, 6 or 8, and distractors."""
    builder = _Builder(random, MOST_GATES[level], verbs)
    builder.chain(2 * level)
    for _ in range(DISTRACTORS[level]):
        builder.distractor()
    hazard = builder.new(Role.HAZARD)
    pulses = tuple(builder.new(Role.PULSE) for _ in range(random.choice((1, 3, 4, 5, 7))))
    return RuleBook(
        depth=2 * level,
        roles=tuple(builder.roles),
        rules=tuple(builder.rules.values()),
        ripening=builder.ripening,
        push=builder.push,
        gates=tuple(builder.gates),
        placements=tuple(builder.placements),
        hazard=hazard,
        stun=random.choice((0, 0, 4, 6, 9)),
        pulses=pulses,
    )


class _Builder:
    """Builds a chain from its first link. ``held`` is what the agent holds after the links so far; ``behind`` means
    that the next object must stand behind the gate that was opened last, because else that link was not needed."""

    def __init__(self, random: Random, most_gates: int, verbs: int) -> None:
        self._random, self._most_gates, self._verbs = random, most_gates, verbs
        self.roles = [Role.FIXED] * DRAWN
        self.rules: dict[tuple[int, int, int], Rule] = {}
        self.ripening: dict[int, tuple[int, int]] = {}
        self.push: Push | None = None
        self.gates: list[Gate] = []
        self.placements: list[Placement] = []
        self._held, self._behind, self._links = NOTHING, False, 0
        self._junk: list[int] = []
        self._items: list[int] = []

    def chain(self, depth: int) -> None:
        used: list[str] = []
        while (rest := depth - self._links) > 1:
            options = self._options(rest)
            names = sorted(options)
            weights = [0.25 ** used.count(name) for name in names]
            name = self._random.choices(names, weights)[0]
            used.append(name)
            options[name]()
        goal = self._object(Role.GOAL)
        self._link(self._held, goal, NOTHING, goal)

    def distractor(self) -> None:
        """Add an item that is good for nothing, a station that spoils an item, or one that does nothing."""
        choice = self._random.randrange(3)
        if choice == 0 or not self._items:
            source, item = self._object(Role.SOURCE), self.new(Role.ITEM)
            self._add(NOTHING, source, item, source, FLOOR, OFF_CHAIN)
            self._junk.append(item)
        elif choice == 1:
            spoiled = self._random.choice(self._items + self._junk)
            station, item = self._object(Role.STATION), self.new(Role.ITEM)
            self._add(spoiled, station, item, station, FLOOR, OFF_CHAIN)
            self._junk.append(item)
        else:
            self._object(self._random.choice((Role.SOURCE, Role.STATION, Role.LEVER)))

    def new(self, role: Role) -> int:
        self.roles.append(role)
        return len(self.roles) - 1

    def _options(self, rest: int) -> dict[str, Callable[[], None]]:
        """Return the links that can come next, if ``rest`` links are left and the last of them is the goal."""
        gate, push = len(self.gates) < self._most_gates, self.push is None
        options: dict[str, tuple[bool, int, Callable[[], None]]] = {}
        if self._held == NOTHING:
            options |= {
                "source": (True, 1, self._source),
                "lever": (gate, 1, self._lever),
                "push": (gate and push, 1, self._push_opens),
                "push_source": (push, 2, self._push_gives),
            }
        else:
            options |= {
                "transform": (True, 1, self._transform),
                "unlock": (gate, 1, self._unlock),
                "plant": (True, 2, self._plant),
                "merge": (True, 3, self._merge),
                "push": (gate and push, 1, self._push_opens),
            }
        return {name: add for name, (allowed, links, add) in options.items() if allowed and links < rest}

    def _source(self) -> None:
        source, item = self._object(Role.SOURCE, copies=self._random.randint(1, 2)), self._item()
        self._link(NOTHING, source, item, source)

    def _transform(self) -> None:
        station, item = self._object(Role.STATION), self._item()
        self._link(self._held, station, item, station)

    def _plant(self) -> None:
        station, item = self._object(Role.STATION), self._item()
        growing, ripe = self.new(Role.GROWING), self.new(Role.GROWING)
        self.ripening[growing] = (self._random.randint(5, 15), ripe)
        self._link(self._held, station, NOTHING, growing)
        self._link(NOTHING, ripe, item, station)

    def _merge(self) -> None:
        station, half = self._object(Role.STATION), self.new(Role.STATION)
        self._link(self._held, station, NOTHING, half)
        self._source()
        self._link(self._held, half, self._item(), station)

    def _unlock(self) -> None:
        held, gate = self._held, self._gate(seen=True)
        self._link(held, gate, NOTHING, FLOOR)

    def _lever(self) -> None:
        lever, pulled = self._object(Role.LEVER), self.new(Role.LEVER)
        self._link(NOTHING, lever, NOTHING, pulled, opens=self._gate())

    def _push_opens(self) -> None:
        region = self._region()
        block, pad, pressed = (self.new(role) for role in (Role.BLOCK, Role.PAD, Role.PAD))
        self.push = Push(block, pad, pressed, self._gate(), self._links, region)
        self._links += 1

    def _push_gives(self) -> None:
        region = self._region()
        block, pad, source = (self.new(role) for role in (Role.BLOCK, Role.PAD, Role.SOURCE))
        self.push = Push(block, pad, source, FLOOR, self._links, region)
        self._links += 1
        self._link(NOTHING, source, self._item(), source)

    def _link(self, held: int, target: int, gives: int, leaves: int, opens: int = FLOOR) -> None:
        self._add(held, target, gives, leaves, opens, self._links)
        self._links += 1
        self._held = gives

    def _add(self, held: int, target: int, gives: int, leaves: int, opens: int, link: int) -> None:
        verb = self._random.randrange(self._verbs)
        self.rules[verb, held, target] = Rule(verb, held, target, gives, leaves, opens, link)

    def _item(self) -> int:
        self._items.append(self.new(Role.ITEM))
        return self._items[-1]

    def _object(self, role: Role, copies: int = 1) -> int:
        kind = self.new(role)
        self.placements.append(Placement(kind, self._region(), copies))
        return kind

    def _region(self) -> int:
        """Return where the next object stands: behind the gate that was opened last, if that is needed."""
        regions = [placement.region for placement in self.placements]
        free = [region for region in range(1, len(self.gates) + 1) if regions.count(region) < MOST_BEHIND]
        region = len(self.gates) if self._behind else self._random.choice([0, 0, *free])
        self._behind = False
        return region

    def _gate(self, seen: bool = False) -> int:
        """Add a gate. If it is itself acted on, it counts as the next object."""
        before = self._region() if seen else self._random.randint(0, len(self.gates))
        self.gates.append(Gate(self.new(Role.GATE), before))
        self._behind = True
        return self.gates[-1].kind
