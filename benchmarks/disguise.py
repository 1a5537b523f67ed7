"""Compares the built-in tuner on tasks in disguise with the same tasks at the blind text, in whole runs.

    python benchmarks/disguise.py -o disguise.json [--tasks TASK ...] [--runs N] [--jobs N] [--budget N]

Run k of both kinds has the seed k of the tuner and the sealing key k, which gives both the same cases and draws the
disguise. The tuner knows nothing about environments, so what it loses is what the disguise itself makes harder, and not
knowledge: added entries and actions, other scales. Prints for each task the mean normalised held-out score of both, and
the mean difference with its 95 % interval (Student's t, paired by run). The file keeps the score of every run: another
call continues it. ``--jobs`` runs are played at a time, each on one core.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from scipy.stats import ttest_1samp

import evopolicygym
from evopolicygym.files import write_json
from evopolicygym.reference.scales import scales

TASKS = ("acrobot", "mountain-car-continuous", "reacher", "half-cheetah", "roundabout")
KINDS = {"blind": "plain", "disguised": "disguised"}
VALIDATION_CASES, HELDOUT_CASES = 8, 16
HEADER = "| task | runs | blind | disguised | difference (95 % interval) |\n|---|---|---|---|---|"

Scores = dict[str, float]  # held-out mean of each run, by its name


def play_pair(task: str, number: int, budget: int, missing: list[str], isolation: Any) -> Scores:
    """Play the missing runs of one number, one after the other: they share their cases, and an agent must not live
    while these are played."""
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder, "key")
        key.write_text(f"{number:064x}\n")
        key.chmod(0o600)
        return {
            name_of(task, number, budget, kind): play(task, number, budget, kind, Path(folder), key, isolation)
            for kind in missing
        }


def play(task: str, number: int, budget: int, kind: str, folder: Path, key: Path, isolation: Any) -> float:
    """Play one run and return its held-out mean."""
    variant: Any = KINDS[kind]
    run = evopolicygym.run(
        task,
        "tuner",
        seed=number,
        budget=budget,
        folder=folder / kind,
        seal_key=key,
        validation_cases=VALIDATION_CASES,
        heldout_cases=HELDOUT_CASES,
        text="blind",
        variant=variant,
        isolation=isolation,
        agent_isolation=isolation,
        jobs=1,
    )
    assert run.score is not None, run.missing
    return run.score


def name_of(task: str, number: int, budget: int, kind: str) -> str:
    return f"{task} {kind} {budget} {number}"


def row(task: str, runs: int, budget: int, scores: Scores) -> str:
    """Return the line of a task in the table."""
    scale = scales()[task]
    blind, disguised = (
        [(scores[name_of(task, number, budget, kind)] - scale.low) / scale.unit for number in range(runs)]
        for kind in KINDS
    )
    differences = [hidden - shown for hidden, shown in zip(disguised, blind, strict=True)]
    interval = ttest_1samp(differences, 0.0).confidence_interval() if runs > 1 else None
    ends = f"{interval.low:+.2f} to {interval.high:+.2f}" if interval else "no interval from one run"
    means = [f"{statistics.fmean(values):.2f}" for values in (blind, disguised)]
    return f"| {task} | {runs} | {' | '.join(means)} | {statistics.fmean(differences):+.2f} ({ends}) |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True, help="file with the scores; it is continued")
    parser.add_argument("--tasks", nargs="+", default=TASKS, metavar="TASK", help="tasks of Core16")
    parser.add_argument("--runs", type=int, default=12, help="runs of each kind for each task")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at a time")
    parser.add_argument("--budget", type=int, default=64, help="training episodes of a run")
    parser.add_argument("--isolation", default="auto", help="of policies and agent, as of `evopolicygym run`")
    options = parser.parse_args()
    tasks = [task if "/" in task else f"core16/{task}" for task in options.tasks]
    scores: Scores = json.loads(options.out.read_text()) if options.out.exists() else {}
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        pending = []
        for number in range(options.runs):
            for task in tasks:
                missing = [kind for kind in KINDS if name_of(task, number, options.budget, kind) not in scores]
                if missing:
                    pending.append(pool.submit(play_pair, task, number, options.budget, missing, options.isolation))
        for done, pair in enumerate(as_completed(pending), start=1):
            scores |= pair.result()
            write_json(options.out, dict(sorted(scores.items())))
            print(f"{done} of {len(pending)}: {pair.result()}", file=sys.stderr, flush=True)
    print(HEADER, *(row(task, options.runs, options.budget, scores) for task in tasks), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
