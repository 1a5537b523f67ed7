"""Play the built-in agents on generated tasks under public keys, and keep the records.

    python benchmarks/novel_runs.py play --keys 3 --jobs 16 --seconds 480                             # all tasks
    python benchmarks/novel_runs.py play --first-key 3 --keys 7 --levels 2 --jobs 16 --seconds 480    # more keys

Suites of all keys are played at once, below runs/novel-baselines. The same command continues what was stopped. In the
end, the records of finished runs are packed into reference/novel, one archive for each key; `python benchmarks/novel.py
write` makes tables and a figure of them. Draws that benchmarks/novel.json has are not searched for again.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from evopolicygym.analysis.entrants import name_alone
from evopolicygym.analysis.leaderboard.keys import KeyMean, key_tables
from evopolicygym.analysis.loading import collect_runs
from evopolicygym.analysis.scales import scale_of
from evopolicygym.run_record import RunRecord
from evopolicygym.tasks.novel.generate import CACHE_VARIABLE, FAMILIES, LEVELS, NOVEL
from evopolicygym.tasks.novel.key_checks import read_checks, sealing_key

REPOSITORY = Path(__file__).parents[1]
SUITE = REPOSITORY / "suites" / "novel-baselines.toml"
RUNS = REPOSITORY / "runs" / "novel-baselines"
RECORDS = REPOSITORY / "reference" / "novel"
CHECKS = REPOSITORY / "benchmarks" / "novel.json"
AGENTS = ("starter", "shotgun", "tuner")
FAMILY_ROWS = 2  # of the figure
STOP_S = 20.0  # that a suite is given to stop


def play(options: argparse.Namespace) -> None:
    """Play the suite under every key at once, until all is done or the time is over; then pack the records."""
    end = time.monotonic() + options.seconds
    os.environ[CACHE_VARIABLE] = str(RUNS / "cache")
    numbers = range(options.first_key, options.first_key + options.keys)
    for checked in read_checks(CHECKS).values():
        if checked.error is None and checked.key in numbers:
            checked.remember()
    tasks = [
        f"{NOVEL}/{family}-{level}" for family in options.families or FAMILIES for level in options.levels or LEVELS
    ]
    suites = [_start(number, tasks, max(1, options.jobs // options.keys)) for number in numbers]
    for suite in suites:
        try:
            suite.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            break
    _stop([suite for suite in suites if suite.poll() is None])
    for number in numbers:
        print(f"key {number}: {pack(number)} records", flush=True)


def _start(number: int, tasks: list[str], jobs: int) -> subprocess.Popen[bytes]:
    RUNS.mkdir(parents=True, exist_ok=True)
    key = RUNS / f"{number}.key"
    key.write_text(sealing_key(number).hex())
    key.chmod(0o600)
    settings = [f"splits.seal_key={json.dumps(str(key))}", f"tasks={json.dumps(tasks)}"]
    command = [
        sys.executable,
        "-m",
        "evopolicygym",
        "suite",
        "run",
        str(SUITE),
        "--folder",
        str(RUNS / f"key-{number}"),
    ]
    for setting in settings:
        command += ["--set", setting]
    command += ["--jobs", str(jobs), "--parallel-runs", str(2 * jobs)]
    with open(RUNS / f"{number}.log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def _stop(suites: list[subprocess.Popen[bytes]]) -> None:
    """Ask suites to stop; they can be continued. What does not stop is killed."""
    for suite in suites:
        suite.send_signal(signal.SIGINT)
    deadline = time.monotonic() + STOP_S
    for suite in suites:
        try:
            suite.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            suite.kill()
            suite.wait()


def pack(number: int) -> int:
    """Write the records of a key's finished runs into its archive, beside those that it has. Return how many it has."""
    archive, records = RECORDS / f"key-{number}.tar.xz", {}
    if archive.exists():
        with tarfile.open(archive) as packed:
            for member in packed.getmembers():
                file = packed.extractfile(member)
                assert file is not None
                records[member.name] = file.read()
    for path in sorted((RUNS / f"key-{number}" / "runs").glob("*/run.json")):
        text = path.read_bytes()
        if json.loads(text)["outcome"] is not None:
            records[f"key-{number}/{path.parent.name}/run.json"] = text
    if not records:
        return 0
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz") as packed:
        for name, text in sorted(records.items()):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            packed.addfile(member, io.BytesIO(text))
    return len(records)


def packed_runs(folder: Path) -> list[RunRecord]:
    """Read the records of all archives."""
    archives = sorted(folder.glob("key-*.tar.xz"))
    if not archives:
        return []
    with tempfile.TemporaryDirectory() as place:
        for archive in archives:
            with tarfile.open(archive) as packed:
                packed.extractall(place, filter="data")
        return list(collect_runs(Path(place)).runs)


def board_table(runs: list[RunRecord]) -> tuple[str, list[list[str]]]:
    """Return the mean normalised scores of tasks that were played under the same keys by all agents."""
    means = _means(runs)
    cells = []
    for family in FAMILIES:
        for level in LEVELS:
            row = {name: mean for (task, name), mean in means.items() if task == f"{NOVEL}/{family}-{level}"}
            if len(row) == len(AGENTS):
                counts = f"{row['tuner'].keys} | {row['tuner'].runs}"
                cells.append([f"{family}-{level}", counts, *(_with_interval(row[name]) for name in AGENTS)])
    return f"task | keys | runs | {' | '.join(AGENTS)}", cells


def _with_interval(mean: KeyMean) -> str:
    number = mean.normalised
    if number.interval is None:
        return f"{number.value:.2f}"
    return f"{number.value:.2f} ({number.interval.low:.2f} to {number.interval.high:.2f})"


def key_spread_table(runs: list[RunRecord]) -> tuple[str, list[list[str]]]:
    """Return the spread between keys and between runs, of the tasks with most keys."""
    means = _means(runs)
    most = max(mean.keys for mean in means.values())
    head = "task | agent | keys | runs | mean | spread between keys | between runs under one key"
    rows = []
    for (task, name), mean in means.items():
        if mean.keys == most:
            spreads = (_number(mean.between_keys), _number(mean.between_runs))
            counts = (str(mean.keys), str(mean.runs), _number(mean.normalised.value))
            rows.append([task.removeprefix(f"{NOVEL}/"), name, *counts, *spreads])
    return head, rows


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _means(runs: Iterable[RunRecord]) -> dict[tuple[str, str], KeyMean]:
    """Return means over keys by task and agent."""
    (table,) = key_tables(runs)
    return {(row.task.partition(" ")[0], row.entrant): row for row in table.rows if row.task.startswith(NOVEL)}


def learning_figure(runs: list[RunRecord], path: Path) -> None:
    """Draw the best validation mean so far over the episodes that were charged, normalised: a panel for each family, a
    line for each agent, which is the mean over levels, keys and seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 6.0), layout="constrained")
    panels = figure.subplots(FAMILY_ROWS, len(FAMILIES) // FAMILY_ROWS, sharex=True, sharey=True)
    episodes = np.arange(1, 1 + max(run.budget.total for run in runs))
    for panel, family in zip(panels.flat, FAMILIES, strict=True):
        for agent in AGENTS:
            curves = [curve(run, episodes) for run in runs if run.task.family == family and name_alone(run) == agent]
            if curves:
                panel.plot(episodes, np.mean(curves, axis=0), label=agent)
        panel.set_title(family)
        panel.axhline(0.0, color="0.7", linewidth=0.8)
    figure.supxlabel("train episodes")
    figure.supylabel("best validation score so far (0 best trivial, 1 expert)")
    figure.legend(*panels.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(AGENTS))
    figure.savefig(path, dpi=90)


def curve(run: RunRecord, episodes: np.ndarray) -> np.ndarray:
    """Return the best normalised validation mean after each number of episodes; before the first one, its own."""
    scale = scale_of(run)
    assert scale is not None
    results = {checkpoint.hash: checkpoint.validation for checkpoint in run.checkpoints}
    spent, points = 0, []
    for submission in run.submissions:
        spent += submission.charged
        if (result := results.get(submission.checkpoint)) is not None:
            points.append((spent, (result.mean - scale.low) / scale.unit))
    if not points:
        return np.full(len(episodes), (run.task.failure_return - scale.low) / scale.unit)
    best = np.maximum.accumulate([score for _, score in points])
    places = np.searchsorted([spent for spent, _ in points], episodes, side="right") - 1
    return np.asarray(best[np.maximum(places, 0)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("play",))
    parser.add_argument("--keys", type=int, default=3)
    parser.add_argument("--first-key", type=int, default=0)
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES))
    parser.add_argument("--levels", nargs="+", type=int, choices=LEVELS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9, help="time limit; the same command continues")
    play(parser.parse_args())


if __name__ == "__main__":
    main()
