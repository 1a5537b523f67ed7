"""Compares the experts of the MiniGrid tasks with the exact optimum of each held-out case of the paper.

    python benchmarks/minigrid_optimum.py                     the 32 held-out cases of all four tasks
    python benchmarks/minigrid_optimum.py --split train --cases 64

The optimum is the return of a shortest plan with full knowledge of the level: a search over the simulator's true state
(the agent's cell and direction, what it carries, every door, box, key and ball), whose plan is then played in the
simulator. It is an upper bound: a policy sees 7 x 7 cells and must look for the goal, so none can reach it in every
case. The expert's mean is that of reference/experts.toml, for the held-out cases only.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from evopolicygym.reference.experts import stored_experts
from evopolicygym.reference.paper import HELDOUT_CASES
from evopolicygym.tasks import simulator
from evopolicygym.tasks.registry import core16
from evopolicygym.tasks.splits import PaperSplits, Split, cases
from evopolicygym.tasks.task import Task

SEARCH = Path(__file__).parents[1] / "tests/oracles/minigrid-planner/search.py"
TASKS = ("core16/door-key", "core16/key-corridor", "core16/four-rooms", "core16/obstructed-maze")


def load_search() -> ModuleType:
    spec = importlib.util.spec_from_file_location("minigrid_search", SEARCH)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def true_level(search: ModuleType, env: Any) -> Any:
    """Return the level of an environment that has just been reset, with what is in its boxes."""
    world = env.unwrapped
    cells, boxes = {}, {}
    for x in range(world.grid.width):
        for y in range(world.grid.height):
            item = world.grid.get(x, y)
            cells[x, y] = tuple(item.encode()) if item else (search.EMPTY, 0, 0)
            if item is not None and getattr(item, "contains", None):
                boxes[x, y] = tuple(item.contains.encode())
    goal = tuple(world.obj.encode()) if hasattr(world, "obj") else (search.GOAL, 1, 0)
    at = tuple(int(value) for value in world.agent_pos)
    return search.Level(cells, at, int(world.agent_dir), boxes=boxes, goal=goal)


def best_return(search: ModuleType, env: Any) -> float:
    """Return what a shortest plan earns in an environment that has just been reset, by playing it."""
    plan = search.Search(true_level(search, env)).plan()
    rewards, terminated = [], False
    for action in plan:
        _, reward, terminated, _, _ = env.step(action)
        rewards.append(float(reward))
    assert terminated, "the plan does not end the episode"
    return sum(rewards)


def optimum(task: Task, split: Split, count: int) -> float:
    """Return the mean over cases of the best return that full knowledge allows."""
    search, env = load_search(), simulator.make(task)
    total = 0.0
    for case in cases(PaperSplits(), task.id, split, list(range(count))):
        env.reset(seed=case.seed)
        total += best_return(search, env)
    env.close()
    return total / count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", type=Split, choices=list(Split), default=Split.HELDOUT)
    parser.add_argument("--cases", type=int, default=HELDOUT_CASES)
    options = parser.parse_args()
    measured = options.split is Split.HELDOUT and options.cases == HELDOUT_CASES
    print("task | optimum | expert | gap")
    for slug in TASKS:
        best = optimum(core16()[slug], options.split, options.cases)
        expert = stored_experts()[slug].score
        rest = f"{expert:.4f} | {100 * (1 - expert / best):.1f} %" if measured else "- | -"
        print(f"{slug} | {best:.4f} | {rest}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
