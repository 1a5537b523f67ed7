"""Compares the same hidden evaluations serially, with two local workers, and with Ray on two workers.

    python benchmarks/cluster.py [ROUNDS]

The three take turns, so that all meet the same machine. Times are the best of all rounds, since other work on the
machine can only add to them. What Ray costs is CPU time, which other work changes little: that of this process, of the
remote workers and of all of Ray, less what this process needs for two local workers. Engines are started once, as in a
run. Returns are compared to the bit.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from engine import CONSTANT

from evopolicygym.execution.engine import Engine, LocalEngine
from evopolicygym.execution.ray.cluster import ClusterSlots, RayCluster
from evopolicygym.execution.ray.engine import RayEngine
from evopolicygym.execution.records import Episode, EpisodeResult
from evopolicygym.tasks.registry import find_task
from evopolicygym.tasks.splits import PaperSplits, Split, cases
from evopolicygym.tasks.task import Task

WORK = {"reacher": 128, "acrobot": 64, "half-cheetah": 16, "door-key": 32, "car-racing": 2}
ROUNDS = 8


def timed(engine: Engine, policy: Path, task: Task, count: int) -> tuple[float, list[float]]:
    checkpoint = engine.store.snapshot(policy)
    chosen = cases(PaperSplits(), task.id, Split.HELDOUT, list(range(count)))
    began = time.perf_counter()
    outcomes = list(engine.run((Episode(i, checkpoint, case) for i, case in enumerate(chosen)), background=True))
    seconds = time.perf_counter() - began
    results = {outcome.number: outcome.score for outcome in outcomes if isinstance(outcome, EpisodeResult)}
    return seconds, [results[number] for number in range(count)]


def upkeep() -> float:
    """CPU seconds of this process and what it has started, but for simulators and policies."""
    parents, spent = {os.getpid(): 0}, 0.0
    for path in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda path: int(path.parent.name)):
        try:
            fields, command = path.read_text().rpartition(")")[2].split(), (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
        pid, parent = int(path.parent.name), int(fields[1])
        if (pid in parents or parent in parents) and b"worker_entry.py" not in command:
            parents[pid] = parent
            spent += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return spent


def row(ray_cluster: RayCluster, policy: Path, task: Task, count: int, rounds: int) -> Iterator[str]:
    remote = RayEngine(task, ray_cluster.info, ClusterSlots(ray_cluster))
    with LocalEngine(task, 1) as one_worker, LocalEngine(task, 2) as two_workers, remote:
        engines: tuple[Engine, ...] = (one_worker, two_workers, remote)
        returns = [timed(engine, policy, task, count)[1] for engine in engines]
        assert returns[0] == returns[1] == returns[2], "the engines do not agree"
        seconds, spent = [list[float]() for _ in engines], [0.0 for _ in engines]
        for number, engine in list(enumerate(engines)) * rounds:
            before = upkeep()
            seconds[number].append(timed(engine, policy, task, count)[0])
            spent[number] += upkeep() - before
    serial, local, ray = (min(times) for times in seconds)
    yield task.id.rpartition("/")[2]
    yield str(count)
    yield f"{serial / count * 1e3:.1f}"
    yield f"{serial / local:.2f}"
    yield f"{serial / ray:.2f}"
    yield f"{(spent[2] - spent[1]) / count / rounds * 1e3:.2f}"


def main(rounds: int) -> None:
    print(
        "| task | episodes | serial, ms per episode | two workers | Ray, two workers | Ray adds, CPU ms per episode |"
    )
    print("|---|---|---|---|---|---|")
    tasks = {slug: find_task(f"core16/{slug}") for slug in WORK}
    with tempfile.TemporaryDirectory() as folder, RayCluster(list(tasks.values()), most=2) as ray_cluster:
        (Path(folder) / "policy.py").write_text(CONSTANT)
        for slug, task in tasks.items():
            print("|", " | ".join(row(ray_cluster, Path(folder), task, WORK[slug], rounds)), "|", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
