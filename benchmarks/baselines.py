"""Play the runs and train the curves behind docs/baselines.md, within a time limit. The same command continues.

    python benchmarks/baselines.py search --folder FOLDER --jobs 16 --seconds 1500
    python benchmarks/baselines.py search --folder FOLDER --jobs 16 --task core16/acrobot --agent ars --seeds 1
    python benchmarks/baselines.py curves --folder FOLDER --jobs 16 --seconds 1500 --steps 1000000
    python benchmarks/baselines.py curves --folder FOLDER --jobs 16 --seconds 1080 --seeds 1 \\
        --agent ppo --agent sac --agent dqn --steps ppo=300000 --steps 50000                needs the extra rl
    python benchmarks/baselines.py page --folder FOLDER

`search` plays the runs of suites/baselines.toml that are not stored yet, each task on one core, or on more if it is
costly, and copies the record of every finished run to FOLDER/records, one JSON file each. `curves` trains learning
curves on the tasks with cheap steps, each in one process with one thread, and writes them to FOLDER/curves. Both end
some seconds after --seconds.

`page` adds finished runs and complete curves in FOLDER to the stored ones of the package, replaces the same ones, and
writes docs/baselines.md and its figure from all of them. Exits with 0 if everything has a result, with 3 if the time
was over before.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tomllib
from pathlib import Path

from many_runs import COMMAND, TIME_IS_OVER, BenchmarkRun, play_runs, run_chains, suite_options

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "src/evopolicygym/reference"
SUITE = ROOT / "suites" / "baselines.toml"
STEPS = 1_000_000
ALGORITHMS = ("cma-es", "ars")  # with the extra rl also: --agent ppo --agent sac --agent dqn
CHOICES = ("four-rooms", "key-corridor", "obstructed-maze", "door-key", "acrobot")  # tasks with discrete actions
# A step costs less than 0.3 ms of one core (suites/costs.toml); the cheapest ones first.
CHEAP_TASKS = tuple(
    f"core16/{name}"
    for name in (
        "four-rooms key-corridor obstructed-maze door-key acrobot mountain-car-continuous reacher pusher half-cheetah "
        "parking bipedal-walker ant"
    ).split()
)


def play_search(options: argparse.Namespace) -> int:
    """Play the runs that are not stored until all are finished or the time is over, then copy the records."""
    from evopolicygym import estimate_suite
    from evopolicygym.reference.baselines import stored_baselines

    suite, runs = tomllib.loads(SUITE.read_text()), options.folder / "search"
    stored = {(row.task, row.agent, row.seed) for row in stored_baselines()}
    tasks = options.task or suite["tasks"]
    estimates = {task: estimate_suite(SUITE, folder=runs, overrides=[f"tasks=['{task}']"]) for task in tasks}
    chains = [
        [
            BenchmarkRun(task, agent, seed, runs, suite_options(SUITE), estimates[task].agents[0].core_hours or 0.0)
            for seed in range(options.first_seed, options.first_seed + options.seeds)
            for agent in options.agent or suite["agents"]
            if (task, agent, seed) not in stored
        ]
        for task in tasks
    ]
    complete = play_runs(chains, options.jobs, options.seconds)
    copied = copy_records(runs, options.folder / "records")
    print(f"{copied} finished runs in {options.folder / 'records'}, of {sum(map(len, chains))} that are not stored")
    return 0 if complete else TIME_IS_OVER


def copy_records(runs: Path, target: Path) -> int:
    """Copy run.json of every scored run; return how many there are."""
    from evopolicygym.run_record import RunStatus, load

    target.mkdir(parents=True, exist_ok=True)
    finished = [path for path in sorted(runs.glob("*/run.json")) if load(path).status is RunStatus.FINISHED]
    for path in finished:
        shutil.copyfile(path, target / f"{path.parent.name}.json")
    return len(finished)


def train_curves(options: argparse.Namespace) -> int:
    """Train one curve in each of ``jobs`` processes until all are complete or the time is over."""
    steps = dict(options.steps or [])
    curves = [
        (task, algorithm, seed)
        for seed in range(options.first_seed, options.first_seed + options.seeds)
        for algorithm in options.agent or ALGORITHMS
        for task in options.task or CHEAP_TASKS
        if algorithm not in ("sac", "dqn") or (algorithm == "dqn") == task.endswith(CHOICES)
    ]

    shared = ["--folder", str(options.folder / "curves"), "--jobs", "1"]
    commands = []
    for task, algorithm, seed in curves:
        length = str(steps.get(algorithm, steps.get("", STEPS)))
        chosen = ["--algo", algorithm, "--steps", length, "--first-seed", str(seed)]
        commands.append([*COMMAND, "baseline", "curve", task, *chosen, *shared])
    codes = run_chains([[command] for command in commands], options.jobs, options.seconds)
    print(f"{codes.count(0)} of {len(curves)} curves are complete in {options.folder / 'curves'}")
    return 0 if not any(codes) else TIME_IS_OVER


def write_page(options: argparse.Namespace) -> int:
    """Add the records in the folder to the stored ones, and write the page from all of them."""
    from evopolicygym.reference.baselines import baseline_run, dump_baselines, stored_baselines
    from evopolicygym.reference.curves import SUFFIX, load_curve, load_curves
    from evopolicygym.report.baseline_figure import NAME, baseline_figure, published_agents
    from evopolicygym.report.baseline_page import baseline_page
    from evopolicygym.run_record import load

    fresh = [baseline_run(load(path)) for path in sorted((options.folder / "records").glob("*.json"))]
    rows = list({(row.task, row.agent, row.seed): row for row in (*stored_baselines(), *fresh)}.values())
    (REFERENCE / "baselines.toml").write_text(dump_baselines(rows))
    for path in sorted((options.folder / "curves").glob(f"*{SUFFIX}")):
        if load_curve(path).complete:
            shutil.copyfile(path, REFERENCE / "curves" / path.name)
    curves = load_curves([REFERENCE / "curves"])
    (ROOT / "docs/baselines.md").write_text(baseline_page(rows, curves))
    if figure := baseline_figure(published_agents(), rows, curves):
        (ROOT / f"docs/images/{NAME}.svg").write_text(figure.standalone())
    return 0


def parse_steps(text: str) -> tuple[str, int]:
    """Return the algorithm, empty if it is for all, and its number of steps."""
    algorithm, _, number = text.rpartition("=")
    return algorithm, int(number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(ACTIONS))
    parser.add_argument("--folder", type=Path, required=True, help="for the runs, and for the records of them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9, help="time after which no more is begun")
    parser.add_argument("--task", action="append", help="only this task; repeatable")
    parser.add_argument("--agent", action="append", help="only this agent; repeatable")
    parser.add_argument(
        "--steps",
        type=parse_steps,
        action="append",
        metavar="[ALGORITHM=]N",
        help="steps of every curve, or of those of an algorithm; repeatable",
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of runs or curves of each task and agent")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first of them")
    options = parser.parse_args()
    return ACTIONS[options.what](options)


ACTIONS = {"search": play_search, "curves": train_curves, "page": write_page}


if __name__ == "__main__":
    sys.exit(main())
