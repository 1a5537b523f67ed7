"""Compares the built-in tuner, in whole runs over the API, with the best trivial policy.

    python benchmarks/tuner.py                           four tasks x seeds 0, 1, 2, full protocol
    python benchmarks/tuner.py core16/acrobot --run-seeds 0
    python benchmarks/tuner.py --smoke                   every Core16 task with a small budget: are all submissions ok?

Each run is `evopolicygym serve`, the tuner as a process of its own, and `evopolicygym finish`, on the paper's cases.
Trivial policies play the same held-out cases: random, zero, and constants (each choice of a Discrete; the corners, and
each control alone at -1, -0.5, 0.5, 1, of a Box), of which the best few on train cases are measured. Exits with 1 when
a run does not beat them all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evopolicygym.agents.builtin.evaluator import TunerPolicy, write_policy
from evopolicygym.agents.builtin.policies.features import width
from evopolicygym.execution.conformance import probe_folder
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.execution.evaluation import evaluate_folder
from evopolicygym.tasks import simulator
from evopolicygym.tasks.registry import CORE16_ORDER, find_task
from evopolicygym.tasks.splits import PaperSplits, Split, cases
from evopolicygym.tasks.task import Task

TASKS = ("acrobot", "mountain-car-continuous", "reacher", "half-cheetah")
COMMAND = [sys.executable, "-m", "evopolicygym.cli.main"]
AGENTS = Path(__file__).parents[1] / "src" / "evopolicygym" / "agents"
SMOKE = ("--budget", "24", "--validation-cases", "1", "--heldout-cases", "1")
SCREENING_CASES = 2
FINALISTS = 3
HELDOUT_CASES = 32

Controls = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """One run, or one trivial policy."""

    task: str
    what: str
    heldout: float
    note: str = ""


def play(task: str, seed: int, folder: Path, *options: str) -> dict[str, Any]:
    """One whole run of the tuner; returns the record."""
    server = subprocess.Popen(
        [*COMMAND, "serve", task, "--run", str(folder), "--seeds", "paper", "--json", *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout
    try:
        opened = json.loads(server.stdout.readline())
        agent(opened, seed, folder / "logs" / "tuner.txt")
        finish = [*COMMAND, "finish", str(folder), "--json"]
        done = subprocess.run(finish, stdout=subprocess.PIPE, text=True, check=True)
    finally:
        server.terminate()
        server.wait()
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def agent(opened: dict[str, Any], seed: int, log: Path) -> None:
    """Only what it needs: the folder of the agents that ship is all it can import of this package."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    given = {"EVOPOLICYGYM_API": opened["api"], "EVOPOLICYGYM_WORKSPACE": opened["workspace"]}
    variables = kept | given | {"EVOPOLICYGYM_SEED": str(seed), "PYTHONPATH": str(AGENTS)}
    with open(log, "w") as output:
        subprocess.run(
            [sys.executable, "-m", "builtin.tuner"],
            cwd=opened["workspace"],
            env=variables,
            stdout=output,
            stderr=output,
            check=True,
        )


def trivial(task: Task, jobs: int) -> Iterator[Row]:
    """Random, zero and the best constants, on held-out."""
    with tempfile.TemporaryDirectory() as scratch, LocalEngine(task, jobs=jobs) as engine:

        def mean(folder: Path, split: Split, count: int) -> float:
            chosen = cases(PaperSplits(), task.id, split, list(range(count)))
            value = evaluate_folder(engine, task, folder, chosen, "paper").mean
            assert value is not None
            return value

        constant = [constant_folder(Path(scratch), number, action) for number, action in enumerate(constants(task))]
        constant.sort(key=lambda folder: -mean(folder, Split.TRAIN, SCREENING_CASES))
        for play in ("random", "zero"):
            (Path(scratch) / play).mkdir()
            yield Row(task.id, play, mean(probe_folder(Path(scratch) / play, play), Split.HELDOUT, HELDOUT_CASES))
        for folder in constant[:FINALISTS]:
            controls = json.loads((folder / "parameters.json").read_text())["bias"]
            yield Row(task.id, "constant", mean(folder, Split.HELDOUT, HELDOUT_CASES), f"controls {controls}")


def constants(task: Task) -> list[Controls]:
    env = simulator.make(task)
    space = simulator.schemas(task, env)[1]
    env.close()
    size = width(space)
    alone = [level * unit for unit in np.eye(size) for level in (-1.0, -0.5, 0.5, 1.0)]
    return list(np.eye(size)) if space["type"] == "Discrete" else [*alone, np.ones(size), -np.ones(size)]


def constant_folder(folder: Path, number: int, controls: Controls) -> Path:
    write_policy(
        TunerPolicy("noise", {"bias": controls.tolist(), "spread": 0.0, "hold": 1}), folder / f"constant-{number}"
    )
    return folder / f"constant-{number}"


def prove(task: str, seeds: list[int], folder: Path, jobs: int) -> bool:
    """Prints the rows of one task; true when every run beats every trivial policy."""
    baselines = list(trivial(find_task(task), jobs))
    best = max(baselines, key=lambda row: row.heldout)
    for row in baselines:
        show(row)
    held = True
    for seed in seeds:
        record = play(task, seed, folder / f"{task.replace('/', '-')}-s{seed}", "--jobs", str(jobs))
        score = float(record["outcome"]["heldout"]["mean"])
        passed = score > best.heldout
        held = held and passed
        note = f"{'pass' if passed else 'FAIL'}: best trivial is {best.what}, {best.heldout:.6g}"
        show(Row(task, f"tuner, seed {seed}", score, note))
    return held


def smoke(task: str, folder: Path, jobs: int) -> bool:
    record = play(task, 0, folder / task.replace("/", "-"), *SMOKE, "--jobs", str(jobs))
    fine = bool(record["budget"]["remaining"] == 0) and all(
        submission["verdict"] == "ok" for submission in record["submissions"]
    )
    show(Row(task, "smoke", float(record["outcome"]["heldout"]["mean"]), "ok" if fine else "FAIL"))
    return fine


def show(row: Row) -> None:
    print(f"| {row.task} | {row.what} | {row.heldout:.6g} | {row.note} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--run-seeds", default="0,1,2")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="put the runs here instead of throwing them away")
    options = parser.parse_args()
    tasks = options.tasks or [f"core16/{name}" for name in (CORE16_ORDER if options.smoke else TASKS)]
    seeds = [int(seed) for seed in options.run_seeds.split(",")]
    print("| task | what | held-out mean | |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        if options.smoke:
            held = [smoke(task, folder, options.jobs) for task in tasks]
        else:
            held = [prove(task, seeds, folder, options.jobs) for task in tasks]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
