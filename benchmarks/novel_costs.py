"""Measure what `suite estimate` knows of generated tasks, and write it into src/evopolicygym/suites/costs.toml.

    python benchmarks/novel_costs.py
    python benchmarks/novel_costs.py --draws-only    # after more keys were checked
    python benchmarks/novel_costs.py --steps-only    # after steps became cheaper

Steps and their time are means over a few keys. CPU time of judge and policy counts, in the cheapest of some episodes,
so that a busy machine does little harm. The time for drawing a task is that of the checked keys in
benchmarks/novel.json; a task that has none there keeps its value.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean

from engine import CONSTANT

from evopolicygym.execution.engine import PUBLISHABLE
from evopolicygym.execution.episode import play
from evopolicygym.sandbox.checkpoints import Checkpoint, CheckpointStore
from evopolicygym.sandbox.policy.policy_process import PolicyArguments, PolicyProcess
from evopolicygym.sandbox.policy.zygote_client import Zygote
from evopolicygym.suites.estimate import COSTS
from evopolicygym.tasks import simulator
from evopolicygym.tasks.conditions import TaskView
from evopolicygym.tasks.novel.generate import generated, novel
from evopolicygym.tasks.novel.key_checks import read_checks, sealing_key, summarise
from evopolicygym.tasks.splits import Case, PaperSplits, Split, cases
from evopolicygym.tasks.task import Task

CHECKS = Path(__file__).with_name("novel.json")
KEYS = (0, 1)
EPISODES = 20
BEGIN = "[drawn]\n"


def drawn_task(task: Task, number: int) -> Task:
    """Return the first draw of a key. Whether it was accepted makes no difference to its cost."""
    recorded = {"draw": 0, "low": 0.0, "high": 1.0}
    return generated(task.seen(TaskView()), sealing_key(number), recorded)


def episode_cost(task: Task, zygote: Zygote, checkpoint: Checkpoint, case: Case) -> tuple[float, int]:
    """Play an isolated episode, as a worker does; return the CPU time of both sides, and how many steps it took."""
    env = simulator.make(task)
    arguments = PolicyArguments(*simulator.schemas(task, env), task.env_meta())
    policy = PolicyProcess(zygote, checkpoint.hash, arguments, task.limits, case.randomness_key())
    policy.wait_ready()
    began = time.process_time()
    progress = play(task, env, case.seed, policy)
    judge_s = time.process_time() - began
    process = policy.close()
    env.close()
    return judge_s + process.ended.cpu_s - process.init_cpu_s, progress.length


def step_us(task: Task, zygote: Zygote, checkpoint: Checkpoint) -> float:
    """Return microseconds of an isolated step. Beginning and end of an episode are those of one with a single step."""
    listed = cases(PaperSplits(), task.id, Split.TRAIN, list(range(EPISODES)))
    once = replace(task, horizon=1)
    ends_s = min(episode_cost(once, zygote, checkpoint, case)[0] for case in listed)
    whole = [episode_cost(task, zygote, checkpoint, case) for case in listed]
    return min(1e6 * (cost_s - ends_s) / (length - 1) for cost_s, length in whole)


def measured(folder: Path) -> Iterator[tuple[str, float, float]]:
    """Yield name, steps and time of a step of every generated task."""
    policy, stage = folder / "policy", folder / "stage"
    policy.mkdir()
    (policy / "policy.py").write_text(CONSTANT)
    checkpoint = CheckpointStore(stage).snapshot(policy)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # a worker shares one core with its policies
    zygote = Zygote.best(PUBLISHABLE, stage)
    for name, task in novel().items():
        drawn = [drawn_task(task, number) for number in KEYS]
        yield name, mean(each.horizon for each in drawn), mean(step_us(each, zygote, checkpoint) for each in drawn)
    zygote.close()


def stored() -> dict[str, dict[str, float]]:
    drawn: dict[str, dict[str, float]] = tomllib.loads(COSTS.read_text())["drawn"]
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--draws-only", action="store_true", help="measure no steps; renew the time for drawing")
    part.add_argument("--steps-only", action="store_true", help="measure steps; keep the time for drawing")
    options = parser.parse_args()
    before = stored()
    draw_s = {name: cost["draw_s"] for name, cost in before.items()}
    if not options.steps_only:
        draw_s |= {summary.task: summary.cpu_s for summary in summarise(read_checks(CHECKS).values())}
    kept = ((name, cost["steps"], cost["step_us"]) for name, cost in before.items())
    lines = []
    with tempfile.TemporaryDirectory() as place:
        for name, steps, time_us in kept if options.draws_only else measured(Path(place)):
            cost = f"steps = {steps:.0f}, step_us = {time_us:.0f}, draw_s = {draw_s.get(name, 0.0):.1f}"
            lines.append(f'"{name}" = {{ {cost} }}\n')
            print(lines[-1], end="", flush=True)
    others, _, _ = COSTS.read_text().partition(BEGIN)
    COSTS.write_text(others + BEGIN + "".join(lines))


if __name__ == "__main__":
    main()
