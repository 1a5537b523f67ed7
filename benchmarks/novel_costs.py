"""Measure what `suite estimate` knows of generated tasks, and write it into src/evopolicygym/suites/costs.toml.

    python benchmarks/novel_costs.py
    python benchmarks/novel_costs.py --draws-only    # after more keys were checked

Steps and their time are means over a few keys. The fastest of some short episodes counts, so that a busy machine does
little harm. The time for drawing a task is that of the checked keys in benchmarks/novel.json.
"""

from __future__ import annotations

import argparse
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

from engine import CONSTANT

from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.records import Episode, EpisodeResult
from evopolicygym.suites.estimate import COSTS
from evopolicygym.tasks.conditions import TaskView
from evopolicygym.tasks.novel.generate import generated, novel
from evopolicygym.tasks.novel.key_checks import read_checks, sealing_key, summarise
from evopolicygym.tasks.splits import PaperSplits, Split, cases
from evopolicygym.tasks.task import Task

CHECKS = Path(__file__).with_name("novel.json")
KEYS = (0, 1)
EPISODES = 20
BEGIN = "[drawn]\n"


def drawn_task(task: Task, number: int) -> Task:
    """Return the first draw of a key. Whether it was accepted makes no difference to its cost."""
    recorded = {"draw": 0, "low": 0.0, "high": 1.0}
    return generated(task.seen(TaskView()), sealing_key(number), recorded)


def step_us(task: Task, folder: Path) -> float:
    """Return microseconds of an isolated step, in the episode with the fastest ones."""
    listed = cases(PaperSplits(), task.id, Split.TRAIN, list(range(EPISODES)))
    with LocalEngine(task, 1) as engine:
        checkpoint = engine.store.snapshot(folder)
        outcomes = list(engine.run([Episode(number, checkpoint, case) for number, case in enumerate(listed)]))
    results = [outcome for outcome in outcomes if isinstance(outcome, EpisodeResult)]
    return min(1e6 * result.rollout_s / result.length for result in results)


def measured(folder: Path) -> Iterator[tuple[str, float, float]]:
    """Yield name, steps and time of a step of every generated task."""
    (folder / "policy.py").write_text(CONSTANT)
    for name, task in novel().items():
        drawn = [drawn_task(task, number) for number in KEYS]
        yield name, mean(each.horizon for each in drawn), mean(step_us(each, folder) for each in drawn)


def stored() -> Iterator[tuple[str, float, float]]:
    for name, cost in tomllib.loads(COSTS.read_text())["drawn"].items():
        yield name, cost["steps"], cost["step_us"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws-only", action="store_true", help="measure no steps; renew the time for drawing")
    options = parser.parse_args()
    draw_s = {summary.task: summary.cpu_s for summary in summarise(read_checks(CHECKS).values())}
    lines = []
    with tempfile.TemporaryDirectory() as place:
        for name, steps, time_us in stored() if options.draws_only else measured(Path(place)):
            cost = f"steps = {steps:.0f}, step_us = {time_us:.0f}, draw_s = {draw_s.get(name, 0.0):.1f}"
            lines.append(f'"{name}" = {{ {cost} }}\n')
            print(lines[-1], end="", flush=True)
    before, _, _ = COSTS.read_text().partition(BEGIN)
    COSTS.write_text(before + BEGIN + "".join(lines))


if __name__ == "__main__":
    main()
