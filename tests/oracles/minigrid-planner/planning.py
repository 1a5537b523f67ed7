"""Planning in levels that agree with what was seen.

Levels are drawn as the simulator draws them, with all that was seen held fixed. Shortest plans of a few such levels,
each up to its next discovery, are the candidates; the one with the fewest steps on average over all is played.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod

from memory import Memory
from search import TOGGLE, Level, Search

WORLDS = 12
LIMIT = 20000
UNSOLVED = 100


class Planner(ABC):
    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.rng = random.Random(0)

    @abstractmethod
    def draw(self, count: int) -> list[Level]:
        """Draw levels as they may be now."""

    def horizon(self, plan: list[int]) -> int:
        """Return how many actions of a plan come before the first that shows something unknown."""
        return plan.index(TOGGLE) + 1 if TOGGLE in plan else len(plan)

    def plan(self, mission: str) -> list[int]:
        self.mission = mission
        searches = [Search(level, lift_boxes=False) for level in self.draw(WORLDS)]
        solved = [(search, plan) for search in searches if (plan := search.plan(LIMIT))]
        candidates = {tuple(plan[: self.horizon(plan)]) for _, plan in solved}
        if len(candidates) < 2:
            return list(next(iter(candidates), (0,)))
        return list(min(sorted(candidates), key=lambda plan: mean_steps([search for search, _ in solved], plan)))


def mean_steps(searches: list[Search], plan: tuple[int, ...]) -> float:
    """Return the mean number of steps if the plan is followed and then everything is known."""
    total = 0.0
    for search in searches:
        state = search.start
        for count, action in enumerate(plan):
            following = dict(search.successors(state)).get(action, state)
            if following is None:
                total += count + 1
                break
            state = following
        else:
            rest = Search(search.level, start=state, lift_boxes=False).plan(LIMIT)
            total += len(plan) + (len(rest) if rest else UNSOLVED)
    return total / len(searches)
