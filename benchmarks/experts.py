"""Measures the expert of each task on the paper's held-out cases, through the jail, and writes reference/experts.toml.

    python benchmarks/experts.py                              all tasks
    python benchmarks/experts.py --task core16/acrobot        one task; the others keep their rows
    python benchmarks/experts.py --scale                      scale-2.toml from stored anchors and experts

The expert is the best of the hand-written policy (tests/oracles) and the trained ones (the stored learning curves,
whose checkpoints were measured in the same way). A score of the paper whose policy is not public cannot be measured
again and is no expert; the command prints where one is higher. Scale 2 is part of published tables: once released,
other numbers are another version.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import evopolicygym
from evopolicygym.config import to_toml
from evopolicygym.reference.anchors import stored_anchors
from evopolicygym.reference.curves import CurveRecord, stored_curves
from evopolicygym.reference.experts import FILE, Expert, dump_experts, stored_experts
from evopolicygym.reference.paper import HELDOUT_CASES, best_agent, published

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "src/evopolicygym/reference"
ORACLES = ROOT / "tests/oracles"
SCALE_COMMENT = """\
The scale of normalised scores, version 2. Written by `python benchmarks/experts.py --scale`; do not edit.
# low: best of the random, zero and constant anchors (anchors-paper.json); high: the expert (experts.toml).
# Frozen: a change of any number is a new version, and scores of different versions are not compared."""


def measure_oracle(task: str, jobs: int) -> Expert:
    """Play the hand-written policy of a task on the held-out cases."""
    target = tomllib.loads((ORACLES / "targets.toml").read_text())[task.removeprefix("core16/")]
    folder = ORACLES / target.get("expert", target["folder"])
    result = evopolicygym.evaluate(folder, task, split="heldout", seeds="paper", cases=range(HELDOUT_CASES), jobs=jobs)
    if result.mean is None or result.faults:
        sys.exit(f"{task}: the judge failed on {len(result.faults)} cases; run it again")
    command = f"evopolicygym evaluate {folder.relative_to(ROOT)} {task} --split heldout --seeds paper"
    return Expert(
        source="oracle",
        score=result.mean,
        policy=result.checkpoint.hash,
        cases=len(result.episodes),
        failed=result.failed,
        isolation=str(result.level),
        comparable_id=result.as_dict()["comparable_id"],
        evopolicygym=evopolicygym.__version__,
        command=command,
    )


def trained(task: str) -> Iterator[Expert]:
    """Yield the checkpoint that validation selected at the end of each stored training on the paper's cases."""
    for curve in stored_curves():
        if curve.task == task and curve.splits_id == "paper" and curve.heldout_cases == HELDOUT_CASES and curve.points:
            yield selected_expert(curve)


def selected_expert(curve: CurveRecord) -> Expert:
    best = max(curve.points, key=lambda point: (point.validation_mean, point.steps))
    return Expert(
        source="curve",
        score=best.heldout_mean,
        policy=best.checkpoint,
        cases=curve.heldout_cases,
        failed=0,
        isolation=curve.isolation,
        comparable_id=curve.comparable_id,
        evopolicygym=curve.evopolicygym,
        command=curve.command,
    )


def write_scale() -> None:
    """Write the ends of scale 2."""
    ends = {
        task: {"low": anchors.best_trivial(HELDOUT_CASES), "high": stored_experts()[task].score}
        for task, anchors in stored_anchors().tasks.items()
    }
    (REFERENCE / "scale-2.toml").write_text(to_toml({"version": 2, "tasks": ends}, SCALE_COMMENT))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", action="append", help="only this task; repeatable")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--scale", action="store_true", help="write scale-2.toml and measure nothing")
    options = parser.parse_args()
    if options.scale:
        write_scale()
        return 0
    experts = dict(stored_experts()) if (REFERENCE / FILE).exists() else {}
    for task in options.task or published():
        experts[task] = max([measure_oracle(task, options.jobs), *trained(task)], key=lambda expert: expert.score)
        best = published()[task][best_agent(task)]
        note = f"below the {best:.6g} of {best_agent(task)} in the paper" if experts[task].score < best else ""
        print(f"{task}: {experts[task].source} {experts[task].score:.6g} {note}", flush=True)
        ordered = {name: experts[name] for name in published() if name in experts}
        (REFERENCE / FILE).write_text(dump_experts(ordered))
    return 0


if __name__ == "__main__":
    sys.exit(main())
