"""Measure shifted tasks: the best trivial policy, the plain oracle and an adapted one, for ten keys.

    python benchmarks/shift_table.py measure -o shift.json --jobs 16
    python benchmarks/shift_table.py write shift.json        # the table of docs/shifted.md

Policies run in the process of the simulator, without isolation: they are this repository's own. Keys are the hashes of
0 to 9, so that anybody can repeat the numbers; runs use secret ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from shift_oracles import TARGETS, AdaptedOracle, load_oracle, told_constants, tune

from evopolicygym.tasks import simulator
from evopolicygym.tasks.conditions import TaskView, TextLevel, Variant
from evopolicygym.tasks.registry import CORE16_ORDER, core16
from evopolicygym.tasks.spaces import constant_actions, schema_of
from evopolicygym.tasks.splits import PaperSplits, Split, cases
from evopolicygym.tasks.task import Task

KEYS = 10
CASES = 8  # measured on; the search plays others
FIRST_CASES = 2
FEW_CASES = {"car-racing": 2, "parking": 4, "ant": 4, "half-cheetah": 4}
TUNING_CASES = {"half-cheetah": 3, "ant": 4, "bipedal-walker": 6}  # others: 8
CANDIDATES = {
    "mountain-car-continuous": 15, "bipedal-walker": 25, "reacher": 25, "half-cheetah": 40, "ant": 12, "pusher": 120,
    "fetch-push": 10, "fetch-pick-and-place": 10,
}  # fmt: skip
DOCS = Path(__file__).parents[1] / "docs" / "shifted.md"
BEGIN, END = "<!-- table: benchmarks/shift_table.py -->", "<!-- end of table -->"


class Constant:
    """Plays one action."""

    def __init__(self, action: Any) -> None:
        self.action = action

    def reset(self, episode_index: int) -> None:
        pass

    def act(self, obs: Any) -> Any:
        return self.action


class Random:
    """Draws actions uniformly."""

    def __init__(self, space: Any) -> None:
        self.space, self.random = space, np.random.default_rng(0)

    def reset(self, episode_index: int) -> None:
        pass

    def act(self, obs: Any) -> Any:
        if hasattr(self.space, "n"):
            return int(self.space.start + self.random.integers(self.space.n))
        return self.random.uniform(self.space.low, self.space.high).astype(self.space.dtype)


@dataclass
class Simulation:
    """A task and one environment of it, which plays many episodes."""

    task: Task
    env: Any

    def play(self, policy: Any, seed: int) -> float:
        """Return the return of one episode."""
        observation = simulator.reset(self.env, seed)
        step, total = simulator.stepper(self.task, self.env), 0.0
        policy.reset(0)
        for _ in range(self.task.horizon):
            observation, reward, terminated, truncated, _ = step(policy.act(observation))
            total += float(reward)
            if terminated or truncated:
                break
        return total

    def mean(self, policy: Any, seeds: list[int]) -> float:
        return float(np.mean([self.play(policy, seed) for seed in seeds]))


def seeds_of(task: Task, first: int, count: int) -> list[int]:
    train = cases(PaperSplits(), task.id, Split.TRAIN, list(range(first, first + count)))
    return [case.seed for case in train]


def shifted(slug: str, key: int) -> Task:
    secret = hashlib.sha256(f"{key}".encode()).digest()
    return core16()[f"core16/{slug}"].seen(TaskView(TextLevel.BRIEF, Variant.SHIFTED, secret))


def best_trivial(simulation: Simulation, seeds: list[int]) -> float:
    """Return the best mean of zero, constants and random actions: chosen on the cases measured, in its favour.

    Constants that are not among the best three on the first cases are not played on all of them."""
    space = simulation.env.action_space
    zero, *others = [
        Constant(action if isinstance(action, int) else np.array(action, space.dtype))
        for action in constant_actions(schema_of(space))
    ]
    others.sort(key=lambda policy: simulation.mean(policy, seeds[:FIRST_CASES]), reverse=True)
    return max(simulation.mean(policy, seeds) for policy in [zero, *others[:3], Random(space)])


def measure(slug: str, key: int | None) -> dict[str, Any]:
    """Measure one task, plain or under one key."""
    began = time.process_time()
    task = core16()[f"core16/{slug}"] if key is None else shifted(slug, key)
    simulation = Simulation(task, simulator.make(task))
    seeds = seeds_of(task, 0, FEW_CASES.get(slug, CASES))
    result = {
        "task": slug,
        "key": key,
        "trivial": best_trivial(simulation, seeds),
        "plain": simulation.mean(load_oracle(slug).Policy(), seeds),
    }
    if key is not None:
        result |= measure_adapted(simulation, slug, key, seeds)
    simulation.env.close()
    return {**result, "cpu_s": round(time.process_time() - began, 1)}


def measure_adapted(simulation: Simulation, slug: str, key: int, seeds: list[int]) -> dict[str, float]:
    """Return the score of the oracle that was told the key's changes. Where that misses the target of the plain task,
    its constants are tuned on some cases; the better one on other cases is then measured on ``seeds``."""
    module, task = load_oracle(slug), simulation.task
    told_constants(task, module)

    def score(seeds: list[int]) -> float:
        return simulation.mean(AdaptedOracle(task, module.Policy(), simulation.env.action_space), seeds)

    shown = score(seeds)
    if slug not in CANDIDATES or shown > TARGETS[slug]["threshold"]:
        return {"told": shown, "adapted": shown}
    tuning, choosing = seeds_of(task, 100, TUNING_CASES.get(slug, 8)), seeds_of(task, 200, len(seeds))
    before = score(choosing)
    tune(slug, module, lambda: score(tuning), CANDIDATES[slug], key)
    return {"told": shown, "adapted": score(seeds) if score(choosing) > before else shown}


def measure_all(out: Path, slugs: list[str], keys: int, jobs: int) -> None:
    """Measure what the file does not have yet, and write it after each task and key."""
    results: list[dict[str, Any]] = json.loads(out.read_text())["rows"] if out.exists() else []
    have = {(row["task"], row["key"]) for row in results}
    with ProcessPoolExecutor(jobs) as pool:
        pairs = [(slug, key) for key in (None, *range(keys)) for slug in slugs if (slug, key) not in have]
        work = [pool.submit(measure, *pair) for pair in pairs]
        for done in as_completed(work):
            results.append(done.result())
            results.sort(key=lambda row: (CORE16_ORDER.index(row["task"]), -1 if row["key"] is None else row["key"]))
            out.write_text(json.dumps({"keys": keys, "rows": results}, indent=1) + "\n")
            print(json.dumps(done.result()), flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    """Return the table in Markdown: means over the keys measured."""
    lines = [
        "| task | keys | oracle, plain task | plain oracle | best trivial | adapted oracle | lowest lead | lost |",
        "|---|---|---|---|---|---|---|---|",
    ]
    by_task = {slug: [row for row in rows if row["task"] == slug] for slug in CORE16_ORDER}
    return "\n".join([*lines, *(_line(slug, own) for slug, own in by_task.items() if len(own) > 1)])


def _line(slug: str, rows: list[dict[str, Any]]) -> str:
    before = next(row for row in rows if row["key"] is None)
    keyed = [row for row in rows if row["key"] is not None]
    plain, trivial, adapted = (float(np.mean([row[name] for row in keyed])) for name in ("plain", "trivial", "adapted"))
    lead = min(row["adapted"] - row["trivial"] for row in keyed)
    lost = 1.0 - (plain - trivial) / (before["plain"] - before["trivial"])
    numbers = " | ".join(f"{number:.4g}" for number in (before["plain"], plain, trivial, adapted, lead))
    return f"| {slug} | {len(keyed)} | {numbers} | {100 * lost:.0f} % |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure shifted tasks.")
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("tasks", nargs="*", metavar="TASK", help="slugs; default: all of Core16")
    measuring.add_argument("-o", "--out", type=Path, required=True)
    measuring.add_argument("--keys", type=int, default=KEYS)
    measuring.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    writing = commands.add_parser("write")
    writing.add_argument("measured", type=Path)
    options = parser.parse_args()
    if options.command == "measure":
        measure_all(options.out, options.tasks or list(CORE16_ORDER), options.keys, options.jobs)
        return
    text, rows = DOCS.read_text(), json.loads(options.measured.read_text())["rows"]
    before, _, rest = text.partition(BEGIN)
    DOCS.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
