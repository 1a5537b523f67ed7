"""Generated grid worlds with drawn rules: find out what acts on what, and follow the chain to the goal.

The agent sees the cells around it as codes. Rules, codes, actions and looks are drawn with the world; rooms, objects
and the start with every case."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

import gymnasium
import numpy as np

from evopolicygym.tasks.novel.rules.chain import (
    AGENT,
    FLOOR,
    FORWARD,
    LET_GO,
    NOTHING,
    OFF_CHAIN,
    OUTSIDE,
    STUNNED,
    TURN_LEFT,
    TURN_RIGHT,
    VERB,
    WAIT,
    RuleBook,
    draw_rules,
)
from evopolicygym.tasks.novel.rules.layout import Layout, Plan, lay_out
from evopolicygym.tasks.novel.rules.picture import draw_picture
from evopolicygym.tasks.novel.rules.planner import RulesPlanner
from evopolicygym.tasks.novel.rules.text import describe_world
from evopolicygym.tasks.novel.world import Act

VERSION: Final = 2
SIDES: Final = {1: (9, 10), 2: (10, 11), 3: (12, 13), 4: (13, 15)}
ROOMS: Final = {1: ((1, 2), (2, 1), (2, 2)), 2: ((2, 2),), 3: ((2, 2), (2, 3), (3, 2)), 4: ((2, 3), (3, 2), (3, 3))}
STEPS_PER_LINK: Final = 2.0  # of the horizon, times width plus height
HIGHEST_CODE: Final = 999
TIME_SHARE: Final = 0.9  # of the reward at the goal that is lost by reaching it at the last step


@dataclass(frozen=True)
class RulesWorld:
    """Drawn rules and how they are shown. ``meanings`` tells what each action does, ``codes`` the code of each kind,
    ``order`` where each code stands in the observation. ``shares`` are the rewards of the links of the chain; the
    first of two numbers is for facing the object that the link needs. ``prize`` is for an early end."""

    book: RuleBook
    plan: Plan
    meanings: tuple[int, ...]
    codes: np.ndarray[Any, Any]
    order: np.ndarray[Any, Any]
    shares: tuple[tuple[float, float], ...]
    prize: float
    names: tuple[str, ...]
    hues: tuple[float, ...]
    horizon: int
    failure_return: float = 0.0

    def make(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        return RulesEnv(self, render_mode)

    def expert(self, env: Any) -> Act:
        actions = iter(RulesPlanner(self.book, self.plan, self.meanings).solve(env.layout()))
        return lambda _: next(actions)

    def texts(self) -> dict[str, Any]:
        return describe_world(self)


class RulesEnv(gymnasium.Env[Any, Any]):
    """The environment of drawn rules. Cells are kinds in a bytearray with a border; a step changes a few of them."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, world: RulesWorld, render_mode: str | None = None) -> None:
        self.world, self.render_mode = world, render_mode
        self.observation_space = gymnasium.spaces.Box(0, HIGHEST_CODE, world.order.shape, np.int16)
        self.action_space = gymnasium.spaces.Discrete(len(world.meanings))
        book, plan = world.book, world.plan
        self._rules = {(rule.verb + VERB, rule.held, rule.target): rule for rule in book.rules}
        self._solid, self._steps, self._side = book.solid(), plan.steps, 2 * plan.margin + 1
        self._rows = [row * plan.stride - plan.margin for row in range(-plan.margin, plan.margin + 1)]
        self._middle = self._side * self._side // 2
        self._pushed = book.push.block if book.push else OUTSIDE
        self._link_of = {rule.target: rule.link for rule in book.rules if rule.link != OFF_CHAIN}
        if book.push:
            self._link_of[book.push.block] = book.push.link
        self.observes = True
        self._layout = Layout(bytearray())
        self.cells = bytearray()
        self.place = self.facing = self.clock = self.stun = self.links = self.faced = 0
        self.held, self.done = NOTHING, False
        self.timers: list[tuple[int, int, int]] = []  # when, which cell, what it turns into

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        world = self.world
        self._layout = lay_out(world.book, world.plan, Random(int(self.np_random.integers(2**63))))
        self.cells = bytearray(self._layout.cells)
        self.place, self.facing = self._layout.start, self._layout.facing
        self.clock = self.stun = self.links = self.faced = 0
        self.held, self.done = NOTHING, False
        self.timers = []
        return self._observation() if self.observes else None, {}

    def layout(self) -> Layout:
        """Return the case as it was at the start."""
        return self._layout

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = self.advance(self.world.meanings[action])
        observation = self._observation() if self.observes else None
        return observation, reward, self.done, self.clock >= self.world.horizon, {}

    def advance(self, meaning: int) -> float:
        """Do one step without making an observation; return its reward."""
        self.clock += 1
        reward = 0.0
        if self.stun:
            self.stun -= 1
        elif meaning < WAIT:
            self.facing = meaning
            reward = self._walk()
        elif meaning >= VERB:
            reward = self._apply(meaning)
        elif meaning == FORWARD:
            reward = self._walk()
        elif meaning == LET_GO:
            self.held = NOTHING
        elif meaning != WAIT:
            self.facing = (self.facing + (1 if meaning == TURN_RIGHT else 3)) % 4
        if self.timers:
            self._ripen()
        link = self._link_of.get(self.cells[self.place + self._steps[self.facing]], OFF_CHAIN)
        return reward if link == OFF_CHAIN else reward + self._face(link)

    def _face(self, link: int) -> float:
        """Return the reward for facing what a link needs, if it is the first time."""
        if self.faced >> link & 1:
            return 0.0
        self.faced |= 1 << link
        return self.world.shares[link][0]

    def _walk(self) -> float:
        step = self._steps[self.facing]
        ahead = self.place + step
        kind = self.cells[ahead]
        if kind == FLOOR:
            self.place = ahead
        elif kind == self._pushed:
            return self._push(ahead, ahead + step)
        elif not self._solid[kind]:
            self.place = ahead
            if kind == self.world.book.hazard:
                self.stun = self.world.book.stun
                if not self.stun:
                    self.place = self._layout.start
        return 0.0

    def _push(self, block: int, beyond: int) -> float:
        """Push the block by one cell. If it cannot move, it returns to where it stood at first."""
        cells, push, layout = self.cells, self.world.book.push, self._layout
        assert push is not None
        if cells[beyond] == push.pad:
            cells[block], cells[beyond] = FLOOR, push.leaves
            self.place = block
            return self._reach(push.link, push.opens)
        if cells[beyond] == FLOOR and beyond not in layout.kept:
            cells[block], cells[beyond] = FLOOR, push.block
            self.place = block
        elif self.place != layout.home:
            cells[block] = FLOOR
            cells[layout.home] = push.block
        return 0.0

    def _apply(self, verb: int) -> float:
        ahead = self.place + self._steps[self.facing]
        rule = self._rules.get((verb, self.held, self.cells[ahead]))
        if rule is None:
            return 0.0
        self.held = rule.gives
        self.cells[ahead] = rule.leaves
        if rule.leaves in self.world.book.ripening:
            steps, ripe = self.world.book.ripening[rule.leaves]
            self.timers.append((self.clock + steps, ahead, ripe))
        return self._reach(rule.link, rule.opens)

    def _reach(self, link: int, opens: int) -> float:
        """Open the gate of a rule, and return the reward of its link if it is reached for the first time."""
        if opens:
            self.cells = self.cells.replace(bytes([opens]), bytes([FLOOR]))
        if link == OFF_CHAIN or self.links >> link & 1:
            return 0.0
        self.links |= 1 << link
        reward = self._face(link) + self.world.shares[link][1]
        if link < self.world.book.depth - 1:
            return reward
        self.done = True
        return reward + self.world.prize * (1.0 - TIME_SHARE * self.clock / self.world.horizon)

    def _ripen(self) -> None:
        for when, cell, ripe in self.timers:
            if when <= self.clock:
                self.cells[cell] = ripe
        self.timers = [timer for timer in self.timers if timer[0] > self.clock]

    def _observation(self) -> Any:
        cells, place, side = self.cells, self.place, self._side
        seen = bytearray()
        for row in self._rows:
            seen += cells[place + row : place + row + side]
        seen[self._middle] = STUNNED if self.stun else AGENT + self.facing
        pulses = self.world.book.pulses
        seen += bytes((self.held, pulses[self.clock % len(pulses)], OUTSIDE))
        return self.world.codes[np.frombuffer(seen, np.uint8)[self.world.order]]

    def render(self) -> Any:
        return draw_picture(self)


def draw(generator: np.random.Generator, level: int) -> RulesWorld:
    """Draw the rules of a level, and how they are shown."""
    random = Random(int(generator.integers(2**63)))
    verbs = random.randint(1, 2)
    book = draw_rules(random, level, verbs)
    down, across = random.choice(ROOMS[level])
    width, height = (max(random.randint(*SIDES[level]), 4 * rooms + 1) for rooms in (across, down))
    margin = random.choice((2, 3))
    plan = Plan(
        width=width,
        height=height,
        rooms_across=across,
        rooms_down=down,
        margin=margin,
        extra_doors=random.uniform(0.0, 0.6),
        clutter=random.uniform(0.0, 0.12),
        hazards=random.uniform(0.02, 0.08),
    )
    moves = random.choice(((0, 1, 2, 3), (TURN_LEFT, TURN_RIGHT, FORWARD)))
    meanings = [*moves, WAIT, LET_GO, *range(VERB, VERB + verbs)]
    random.shuffle(meanings)
    kinds = len(book.roles)
    prize = round(random.uniform(0.4, 0.6), 3)
    return RulesWorld(
        book=book,
        plan=plan,
        meanings=tuple(meanings),
        codes=np.array(random.sample(range(HIGHEST_CODE + 1), kinds), np.int16),
        order=_draw_order(random, 2 * margin + 1),
        shares=_draw_shares(random, book.depth, 1.0 - prize),
        prize=prize,
        names=_draw_names(random, kinds),
        hues=tuple(random.random() for _ in range(kinds)),
        horizon=int(book.depth * (width + height) * STEPS_PER_LINK),
    )


def _draw_order(random: Random, side: int) -> np.ndarray[Any, Any]:
    """Draw how the view is turned or mirrored, and where the two readings stand: beside a row of cells or a table."""
    view = np.arange(side * side).reshape(side, side)
    view = np.rot90(view, random.randrange(4))
    if random.random() < 0.5:
        view = view.T
    held, pulse, filler = range(side * side, side * side + 3)
    readings = [held, pulse]
    random.shuffle(readings)
    before = random.random() < 0.5
    if random.random() < 0.5:
        parts = (np.array(readings), view.reshape(-1))
        return np.concatenate(parts if before else parts[::-1])
    row = np.array([[*readings, *[filler] * (side - 2)]])
    return np.concatenate((row, view) if before else (view, row))


def _draw_shares(random: Random, depth: int, total: float) -> tuple[tuple[float, float], ...]:
    """Draw the rewards of every link, for facing what it needs and for doing it."""
    weights = [random.uniform(0.5, 1.5) for _ in range(depth)]
    facing = random.uniform(0.2, 0.4)
    shares = [total * weight / sum(weights) for weight in weights]
    return tuple((round(facing * share, 5), round((1.0 - facing) * share, 5)) for share in shares)


def _draw_names(random: Random, count: int) -> tuple[str, ...]:
    """Draw names for kinds that mean nothing."""
    names: list[str] = []
    while len(names) < count:
        name = "".join(random.choice("bdfgklmnprstvz") + random.choice("aeiou") for _ in range(random.randint(2, 3)))
        if name not in names:
            names.append(name)
    return tuple(names)
