"""Plays the runs and trains the curves behind docs/baselines.md, within a time limit. The same command continues.

    python benchmarks/baselines.py search --folder FOLDER --jobs 16 --seconds 1500
    python benchmarks/baselines.py search --folder FOLDER --jobs 16 --task core16/acrobot --agent ars

`search` plays suites/baselines.toml and copies the record of every finished run to FOLDER/records, one JSON file each.
Exits with 0 if everything has a result, with 3 if the time was over before.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
from pathlib import Path

SUITE = Path(__file__).parents[1] / "suites" / "baselines.toml"
COMMAND = [sys.executable, "-m", "evopolicygym.cli.main"]
TIME_IS_OVER = 3
PATIENCE_S = 60.0  # for a suite to end its submissions, before it is told again


def run_within(command: list[str], seconds: float) -> int:
    """Run a command. When the time is over, tell it to stop, and after a while to stop at once."""
    process = subprocess.Popen(command, stdout=sys.stderr)
    for limit in (seconds, PATIENCE_S, PATIENCE_S):
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
    process.kill()
    process.wait()
    return TIME_IS_OVER


def play_search(options: argparse.Namespace) -> int:
    """Play the suite, then copy the records."""
    chosen = []
    if options.task:
        chosen += ["--set", f"tasks={options.task!r}".replace("'", '"')]
    if options.agent:
        chosen += ["--set", "agents={" + ", ".join(f"{agent} = {{}}" for agent in options.agent) + "}"]
    folder = options.folder / "search"
    command = [*COMMAND, "suite", "run", str(SUITE), "--folder", str(folder), "--jobs", str(options.jobs)]
    code = run_within([*command, "--parallel-runs", str(options.jobs), *chosen], options.seconds)
    copied = copy_records(folder / "runs", options.folder / "records")
    print(f"{copied} finished runs in {options.folder / 'records'}")
    return 0 if code == 0 else TIME_IS_OVER


def copy_records(runs: Path, target: Path) -> int:
    """Copy run.json of every scored run; return how many there are."""
    from evopolicygym.run_record import RunStatus, load

    target.mkdir(parents=True, exist_ok=True)
    finished = [path for path in sorted(runs.glob("*/run.json")) if load(path).status is RunStatus.FINISHED]
    for path in finished:
        shutil.copyfile(path, target / f"{path.parent.name}.json")
    return len(finished)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["search"])
    parser.add_argument("--folder", type=Path, required=True, help="for the runs, and for the records of them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9, help="time after which no more is begun")
    parser.add_argument("--task", action="append", help="only this task; repeatable")
    parser.add_argument("--agent", action="append", help="only this agent; repeatable")
    options = parser.parse_args()
    return play_search(options)


if __name__ == "__main__":
    sys.exit(main())
