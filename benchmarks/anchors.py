"""Measure the anchors (trivial policies) of tasks on the paper's cases or on sealed ones, and write them down.

    python benchmarks/anchors.py -o src/evopolicygym/reference/anchors-paper.json

is the stored file. With ``--shifted``, the tasks have the rules of shifted runs under the same sealing key. Tasks that
are measured replace their lines in the file; the others stay. Deterministic for given versions of the simulators.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from evopolicygym.execution.anchors import measure
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.reference.anchors import AnchorFile, TaskAnchors, dump, load
from evopolicygym.runs.locks import CaseSet, hidden_cases_lock
from evopolicygym.runs.settings import RunSettings, Seeds
from evopolicygym.tasks.conditions import Variant
from evopolicygym.tasks.registry import core16, find_task
from evopolicygym.tasks.splits import Splits
from evopolicygym.tasks.task import Task

FLAGS = ("--seal-key", "--shifted", "--paper-cases")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure trivial policies on held-out cases.")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="default: all of Core16")
    parser.add_argument("-o", "--out", type=Path, required=True, help="file to write")
    parser.add_argument("--seal-key", type=Path, help="cases sealed by this key instead of the paper's")
    parser.add_argument("--shifted", action="store_true", help="play the shifted variant under the key")
    parser.add_argument("--paper-cases", action="store_true", help="use the key for the variant alone")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    settings = RunSettings.make(
        task="",
        seeds=Seeds.SEALED if options.seal_key and not options.paper_cases else Seeds.PAPER,
        seal_key=options.seal_key,
        variant=Variant.SHIFTED if options.shifted else Variant.PLAIN,
    )
    splits = settings.splits()
    measured = load(options.out).tasks if options.out.exists() else {}
    for name in options.tasks or core16():
        measured = {**measured, **_measured(settings.seen(find_task(name)), splits, options.jobs)}
        options.out.write_text(
            dump(AnchorFile(schema_version=1, command=_command(), splits_id=splits.id, tasks=measured))
        )


def _measured(task: Task, splits: Splits, jobs: int) -> dict[str, TaskAnchors]:
    began = time.monotonic()
    apart = hidden_cases_lock(CaseSet(task.id, splits.id), "benchmarks/anchors.py", "Ctrl-C keeps what is measured.")
    with apart, LocalEngine(task, jobs) as engine:
        anchors = measure(engine, task, splits)
    means = "  ".join(f"{kind} {anchor.mean(anchors.heldout_cases):.6g}" for kind, anchor in anchors.trivial().items())
    print(f"{task.id}  {means}  ({time.monotonic() - began:.0f} s)", flush=True)
    return {task.id: anchors}


def _command() -> str:
    """Without the tasks and the jobs: neither changes a number."""
    flags = [" --seal-key KEY" if flag == "--seal-key" else f" {flag}" for flag in FLAGS if flag in sys.argv]
    return f"python benchmarks/anchors.py -o FILE{''.join(flags)}"


if __name__ == "__main__":
    main()
