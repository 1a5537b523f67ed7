"""Measures how `analyze` and `report` grow with the number of runs, and how well the intervals of hit rates cover.

    python benchmarks/analysis.py             64 runs against 16, of 40 submissions each; peak memory
    python benchmarks/analysis.py --coverage  coverage of the clustered intervals, in a seeded simulation

Each measurement is a process of its own, so that its peak memory is its own. Linear means a ratio of 4.
"""

from __future__ import annotations

import hashlib
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from evopolicygym.analysis.analyze import analyze_runs, summarize_entrants
from evopolicygym.analysis.edits.code_reader import code_facts
from evopolicygym.analysis.stats.hit_rates import HitCount, hit_rate
from evopolicygym.report.page import write_page
from evopolicygym.report.report_data import collect_report

sys.path.append(str(Path(__file__).parents[1] / "tests" / "analysis"))
from run_folders import Step, write_run  # type: ignore[import-not-found]

SIZES = (4, 16)
SUBMISSIONS = 40
LINES = 300
EVENTS = 10  # looks at feedback before each submission
AGENTS = 4
REPEATS = 2
SIMULATIONS = 4000


def policy(chance: random.Random, number: int) -> str:
    """About ``LINES`` lines, of which an edit changes a tenth, and sometimes the shape."""
    lines = [f"        if obs[{k}] > 0.{k}: self.k{k} = {k}.5" for k in range(LINES)]
    for index in chance.sample(range(LINES), LINES // 10):
        lines[index] = f"        if obs[{index}] > {chance.random()}: self.k{index} = {number}"
    extra = ["        self.more = obs"] * chance.choice([0, 0, 1, 2])
    return "\n".join(["class Policy:", "    def act(self, obs):", *lines, *extra, "        return 0", ""])


def write(folder: Path, number: int) -> None:
    """With a transcript of one turn, in which feedback is read between submissions."""
    chance = random.Random(number)
    steps = [Step({"policy.py": policy(chance, k)}, validation=chance.random()) for k in range(SUBMISSIONS)]
    written = write_run(folder / f"run-{number:03}", steps, agent=f"agent-{number % AGENTS}")
    turn = {"exit_code": 0, "wall_s": 1.0, "submissions": SUBMISSIONS, "failure": None, "stop": True, "model": None}
    written.facts["turns"] = [turn | {"usage": None, "price": None}]
    written.rewrite()
    (written.folder / "logs" / "agent").mkdir(parents=True)
    (written.folder / "logs" / "agent" / "turn_001.out").write_text("".join(map(transcript, range(1, SUBMISSIONS + 1))))


def transcript(number: int) -> str:
    calls = [f"cat feedback/submit_{number - 1:03}/episodes/ep_{k:03}/trajectory.jsonl" for k in range(EVENTS)]
    asked = [{"type": "tool_use", "input": {"command": call}} for call in calls]
    answered = ["observation " * 100 for _ in calls] + [f"submit_{number:03}: ok"]
    events = [*asked, *({"type": "tool_result", "content": text} for text in answered)]
    return "".join(json.dumps(event) + "\n" for event in events)


def measured(command: str, folder: Path, count: int) -> tuple[float, float]:
    """CPU seconds and MiB."""
    argv = [sys.executable, __file__, "--once", command, str(folder), str(count)]
    seconds, mib = map(float, subprocess.run(argv, capture_output=True, check=True).stdout.split())
    return seconds, mib


def cpu_seconds() -> float:
    """Return the CPU time of this process and of the limited readers that it started."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure_once(command: str, folder: Path, count: int) -> None:
    """The work of the command, without the start of the interpreter."""
    runs = sorted(folder.iterdir())[:count]
    began = cpu_seconds()
    if command == "report":
        write_page(collect_report(runs, folder), folder.parent / "report.html")
    else:
        analysis = analyze_runs(runs)
        json.dumps(
            [run.as_dict() for run in analysis.runs] + [group.as_dict() for group in summarize_entrants(analysis.runs)]
        )
    print(cpu_seconds() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def copy_run(source: Path, target: Path) -> None:
    """Copy a run as another one: copies of one run would be left out."""
    shutil.copytree(source, target)
    facts = json.loads((target / "run.json").read_text())
    facts |= {"id": target.name, "ledger_head": hashlib.sha256(target.name.encode()).hexdigest()}
    (target / "run.json").write_text(json.dumps(facts))


def growth(folder: Path) -> None:
    for number in range(min(SIZES)):
        write(folder, number)
    for number in range(min(SIZES), max(SIZES)):
        copy_run(folder / f"run-{number % min(SIZES):03}", folder / f"run-{number:03}")
    few, many = SIZES
    print(f"| command | time for {many} runs / time for {few} | CPU seconds, {few} runs | {many} runs | peak MiB |")
    print("|---|---|---|---|---|")
    for command in ("analyze", "report"):
        taken = {count: [measured(command, folder, count) for _ in range(REPEATS)] for count in SIZES}
        best = {count: min(seconds for seconds, _ in each) for count, each in taken.items()}
        peak = max(mib for _, mib in taken[many])
        ratio = best[many] / best[few]
        print(f"| {command} | {ratio:.2f} | {best[few]:.2f} | {best[many]:.2f} | {peak:.0f} |", flush=True)
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
        rate = hit_rate([HitCount(int(a), int(b)) for a, b in zip(n, hits, strict=True)])
        assert rate.low is not None and rate.high is not None
        inside += rate.low <= truth <= rate.high
    return inside / SIMULATIONS


def main() -> None:
    if "--once" in sys.argv:
        measure_once(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    elif "--coverage" in sys.argv:
        coverage()
    else:
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "runs").mkdir()
            growth(Path(name) / "runs")


if __name__ == "__main__":
    main()
