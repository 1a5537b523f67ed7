"""Compares the built-in tuner on tasks in disguise with the same tasks at the blind text, in whole runs.

    python benchmarks/disguise.py [TASK ...] [--keys N] [--budget N]

Each of N keys is another disguise, and the seed of the tuner in both runs. The tuner knows nothing about environments,
so what it loses is what the disguise itself makes harder, and not knowledge: added entries and actions, other scales.
Prints for each task the mean normalised held-out score of both, and the difference with its 95 % interval (Welch).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from scipy.stats import ttest_ind

import evopolicygym
from evopolicygym.reference.anchors import scales

TASKS = ("core16/acrobot", "core16/mountain-car-continuous", "core16/reacher")


def score(task: str, key: int, budget: int, folder: Path, key_file: Path | None) -> float:
    """Play one run with the tuner, disguised if there is a key; return its normalised held-out score."""
    run = evopolicygym.run(
        task,
        "tuner",
        seed=key,
        budget=budget,
        folder=folder,
        seeds="paper",
        validation_cases=8,
        heldout_cases=16,
        text="blind",
        variant="disguised" if key_file else "plain",
        seal_key=key_file,
    )
    assert run.score is not None, run.missing
    return (run.score - scales()[task].low) / scales()[task].unit


def compare(task: str, keys: int, budget: int, folder: Path) -> str:
    """Return the row of a task."""
    blind, disguised = [], []
    for key in range(keys):
        file = folder / f"key-{key}"
        file.write_text(f"{key:064x}\n")
        file.chmod(0o600)
        blind.append(score(task, key, budget, folder / f"blind-{key}", None))
        disguised.append(score(task, key, budget, folder / f"disguised-{key}", file))
        print(f"{task} key {key}: {blind[-1]:.3f} blind, {disguised[-1]:.3f} disguised", file=sys.stderr, flush=True)
    interval = ttest_ind(disguised, blind, equal_var=False).confidence_interval()
    means = statistics.fmean(blind), statistics.fmean(disguised)
    difference = f"{means[1] - means[0]:+.2f} ({interval.low:+.2f} to {interval.high:+.2f})"
    return f"| {task} | {keys} | {means[0]:.2f} | {means[1]:.2f} | {difference} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--keys", type=int, default=8)
    parser.add_argument("--budget", type=int, default=64)
    options = parser.parse_args()
    print("| task | keys | blind | disguised | difference (95 % interval) |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as place:
        for number, task in enumerate(options.tasks):
            folder = Path(place, str(number))
            folder.mkdir()
            print(compare(task, options.keys, options.budget, folder), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
