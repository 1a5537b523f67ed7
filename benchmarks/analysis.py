"""How `analyze` grows with the number of runs, and how well its intervals cover.

    python benchmarks/analysis.py             64 runs against 16, of 40 submissions each; peak memory
    python benchmarks/analysis.py --coverage  coverage of the clustered intervals, in a seeded simulation

Each measurement is a process of its own, so that its peak memory is its own. Linear means a ratio of 4.
"""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from evopolicygym.analysis.code_reader import code_facts
from evopolicygym.analysis.groups import groups
from evopolicygym.analysis.intervals import Count, hit_rate
from evopolicygym.analysis.survey import survey

sys.path.append(str(Path(__file__).parents[1] / "tests" / "analysis"))
from folders import Step, write_run  # type: ignore[import-not-found]

SIZES = (16, 64)
SUBMISSIONS = 40
LINES = 300
REPEATS = 3
SIMULATIONS = 4000


def policy(chance: random.Random, number: int) -> str:
    """About ``LINES`` lines, of which an edit changes a tenth, and sometimes the shape."""
    lines = [f"        if obs[{k}] > 0.{k}: self.k{k} = {k}.5" for k in range(LINES)]
    for place in chance.sample(range(LINES), LINES // 10):
        lines[place] = f"        if obs[{place}] > {chance.random()}: self.k{place} = {number}"
    extra = ["        self.more = obs"] * chance.choice([0, 0, 1, 2])
    return "\n".join(["class Policy:", "    def act(self, obs):", *lines, *extra, "        return 0", ""])


def write(folder: Path, number: int) -> None:
    chance = random.Random(number)
    steps = [Step({"policy.py": policy(chance, k)}, validation=chance.random()) for k in range(SUBMISSIONS)]
    write_run(folder / f"run-{number:03}", steps)


def measured(folder: Path, count: int) -> tuple[float, float]:
    """CPU seconds and MiB."""
    done = subprocess.run([sys.executable, __file__, "--one", folder, str(count)], capture_output=True, check=True)
    seconds, mib = map(float, done.stdout.split())
    return seconds, mib


def one(folder: Path, count: int) -> None:
    began = time.process_time()
    groups(survey(sorted(folder.iterdir())[:count]).runs)
    print(time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def growth(folder: Path) -> None:
    for number in range(min(SIZES)):
        write(folder, number)
    for number in range(min(SIZES), max(SIZES)):
        shutil.copytree(folder / f"run-{number % min(SIZES):03}", folder / f"run-{number:03}")
    print("| runs | CPU seconds | peak MiB |\n|---|---|---|")
    best = {}
    for count in SIZES:
        taken = [measured(folder, count) for _ in range(REPEATS)]
        best[count] = min(seconds for seconds, _ in taken)
        print(f"| {count} | {best[count]:.2f} | {max(mib for _, mib in taken):.0f} |", flush=True)
    print(f"time for {SIZES[1]} runs / time for {SIZES[0]}: {best[SIZES[1]] / best[SIZES[0]]:.2f}")
    checkpoint = next((folder / "run-000" / "checkpoints").iterdir())
    began = time.perf_counter()
    for _ in range(10):
        code_facts(checkpoint)
    print(f"reading one checkpoint's code, in its limited process: {(time.perf_counter() - began) * 100:.0f} ms")


def coverage() -> None:
    """Runs of 2 to 15 edits whose own hit rates are beta-distributed around the truth."""
    print("| true rate | correlation within runs | 2 runs | 3 | 5 | 10 | 20 |\n|---|---|---|---|---|---|---|")
    generator = np.random.default_rng(0)
    for truth in (0.3, 0.1):
        for correlation in (0.0, 0.1, 0.3):
            shares = [covered(generator, truth, correlation, runs) for runs in (2, 3, 5, 10, 20)]
            print(f"| {truth} | {correlation} | " + " | ".join(f"{100 * share:.1f} %" for share in shares) + " |")


def covered(generator: np.random.Generator, truth: float, correlation: float, runs: int) -> float:
    inside = 0
    for _ in range(SIMULATIONS):
        n = generator.integers(2, 16, runs)
        scale = (1 - correlation) / correlation if correlation else 0.0
        own = generator.beta(truth * scale, (1 - truth) * scale, runs) if correlation else np.full(runs, truth)
        hits = generator.binomial(n, own)
        rate = hit_rate([Count(int(a), int(b)) for a, b in zip(n, hits, strict=True)])
        assert rate.low is not None and rate.high is not None
        inside += rate.low <= truth <= rate.high
    return inside / SIMULATIONS


def main() -> None:
    if "--one" in sys.argv:
        one(Path(sys.argv[2]), int(sys.argv[3]))
    elif "--coverage" in sys.argv:
        coverage()
    else:
        with tempfile.TemporaryDirectory() as name:
            growth(Path(name))


if __name__ == "__main__":
    main()
