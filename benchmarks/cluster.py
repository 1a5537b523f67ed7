"""The same hidden evaluations serially, with two local workers, and with Ray on two workers.

    python benchmarks/cluster.py [ROUNDS]

The three take turns, so that all meet the same machine; figures are medians over rounds. Engines are started once, as
in a run. Every return is compared to the bit.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from engine import POLICY

from evopolicygym.rollout.engine import Engine, LocalEngine
from evopolicygym.rollout.ray.engine import RayEngine
from evopolicygym.rollout.ray.fleet import Fleet
from evopolicygym.rollout.ray.slots import FleetSlots
from evopolicygym.rollout.records import Episode, EpisodeResult
from evopolicygym.tasks.registry import resolve
from evopolicygym.tasks.splits import PaperSplits, Split, cases
from evopolicygym.tasks.task import Task

WORK = {"reacher": 128, "acrobot": 64, "half-cheetah": 32, "door-key": 32, "car-racing": 4}
ROUNDS = 5


def timed(engine: Engine, policy: Path, task: Task, count: int) -> tuple[float, list[float]]:
    checkpoint = engine.store.snapshot(policy)
    chosen = cases(PaperSplits(), task.id, Split.HELDOUT, list(range(count)))
    began = time.perf_counter()
    outcomes = list(engine.run((Episode(i, checkpoint, case) for i, case in enumerate(chosen)), background=True))
    seconds = time.perf_counter() - began
    results = {one.number: one.score for one in outcomes if isinstance(one, EpisodeResult)}
    return seconds, [results[number] for number in range(count)]


def row(fleet: Fleet, policy: Path, task: Task, count: int, rounds: int) -> Iterator[str]:
    remote = RayEngine(task, fleet.whereabouts, FleetSlots(fleet))
    with LocalEngine(task, 1) as one_worker, LocalEngine(task, 2) as two_workers, remote:
        engines: tuple[Engine, ...] = (one_worker, two_workers, remote)
        for engine in engines:
            timed(engine, policy, task, 2)
        seconds: list[list[float]] = [[], [], []]
        for _ in range(rounds):
            played = [timed(engine, policy, task, count) for engine in engines]
            assert played[0][1] == played[1][1] == played[2][1], "the engines do not agree"
            for times, (one, _) in zip(seconds, played, strict=True):
                times.append(one)
    serial, local, ray = (statistics.median(times) for times in seconds)
    yield f"{task.id.rpartition('/')[2]}"
    yield f"{count}"
    yield f"{serial / count * 1e3:.1f}"
    yield f"{serial / local:.2f}"
    yield f"{serial / ray:.2f}"
    yield f"{(ray - local) / count * 1e3:.2f}"


def main(rounds: int) -> None:
    print("| task | episodes | serial, ms per episode | two workers | Ray, two workers | Ray adds, ms per episode |")
    print("|---|---|---|---|---|---|")
    tasks = {slug: resolve(f"core16/{slug}") for slug in WORK}
    with tempfile.TemporaryDirectory() as folder, Fleet(list(tasks.values()), most=2) as fleet:
        (Path(folder) / "policy.py").write_text(POLICY)
        for slug, task in tasks.items():
            print("|", " | ".join(row(fleet, Path(folder), task, WORK[slug], rounds)), "|", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
