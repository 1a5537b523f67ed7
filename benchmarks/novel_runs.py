"""Play the built-in agents on generated tasks under public keys, and keep the records.

    python benchmarks/novel_runs.py play --keys 3 --jobs 16 --seconds 480                             # all tasks
    python benchmarks/novel_runs.py play --first-key 3 --keys 7 --levels 2 --jobs 16 --seconds 480    # more keys

The runs are those of suites/novel-baselines.toml, below runs/novel-baselines; each task under each key is played on one
core. `--agent` and `--seeds` play some of them alone. In the end, the records of finished runs are packed into
reference/novel, one archive for each key; what is there is not played again, so the same command continues what was
stopped. `python benchmarks/novel.py write` makes tables and a figure of them. Draws that benchmarks/novel.json has are
not searched for again.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from many_runs import BenchmarkRun, play_runs, suite_options

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
AGENTS = ("starter", "shotgun", "random-search", "ars", "openes", "ga", "cma-es", "ppo", "sac", "tuner")
FAMILY_ROWS = 2  # of the figure


def play(options: argparse.Namespace) -> None:
    """Play the suite under every key, until all is done or the time is over; then pack the records."""
    os.environ[CACHE_VARIABLE] = str(RUNS / "cache")
    numbers = range(options.first_key, options.first_key + options.keys)
    for checked in read_checks(CHECKS).values():
        if checked.error is None and checked.key in numbers:
            checked.remember()
    names = [f"{family}-{level}" for level in options.levels or LEVELS for family in options.families or FAMILIES]
    chains = [
        _missing_runs(number, f"{NOVEL}/{name}", options.agent or AGENTS, range(options.seeds))
        for number in numbers
        for name in names
    ]
    complete = play_runs(chains, options.jobs, options.seconds)
    print("all runs are finished" if complete else "some runs are left: the same command continues")
    for number in numbers:
        print(f"key {number}: {pack(number)} records", flush=True)


def _missing_runs(number: int, task: str, agents: Iterable[str], seeds: Iterable[int]) -> list[BenchmarkRun]:
    """Return the runs of one task under one key that are not packed yet."""
    RUNS.mkdir(parents=True, exist_ok=True)
    key = RUNS / f"{number}.key"
    key.write_text(sealing_key(number).hex())
    key.chmod(0o600)
    options = (*suite_options(SUITE), "--seal-key", str(key))
    runs = [BenchmarkRun(task, agent, seed, _folder(number), options) for seed in seeds for agent in agents]
    packed = _packed(number)
    return [run for run in runs if _member(number, run.folder) not in packed]


def _folder(number: int) -> Path:
    return RUNS / f"key-{number}"


def _member(number: int, run: Path) -> str:
    return f"key-{number}/{run.name}/run.json"


def _archive(number: int) -> Path:
    return RECORDS / f"key-{number}.tar.xz"


def _packed(number: int) -> dict[str, bytes]:
    """Return the records in a key's archive by the names of its members."""
    if not _archive(number).exists():
        return {}
    with tarfile.open(_archive(number)) as packed:
        files = {member.name: packed.extractfile(member) for member in packed.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}


def pack(number: int) -> int:
    """Write the records of a key's finished runs into its archive, beside those that it has. Return how many it has."""
    records = _packed(number)
    for path in sorted(_folder(number).glob("*/run.json")):
        text = path.read_bytes()
        if json.loads(text)["outcome"] is not None:
            records[_member(number, path.parent)] = text
    if not records:
        return 0
    RECORDS.mkdir(parents=True, exist_ok=True)
    with tarfile.open(_archive(number), "w:xz") as packed:
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
    """Return the mean normalised scores of each agent on each task. Bold: without bounds, the interval over
    keys is above 0."""
    means = _means(runs)
    agents = [agent for agent in AGENTS if any(name == agent for _, name in means)]
    cells = []
    for family in FAMILIES:
        for level in LEVELS:
            row = {name: mean for (task, name), mean in means.items() if task == f"{NOVEL}/{family}-{level}"}
            if row:
                counts = min(mean.keys for mean in row.values()), min(mean.runs for mean in row.values())
                scores = [_score(row[agent]) if agent in row else "-" for agent in agents]
                cells.append([f"{family}-{level}", *map(str, counts), *scores])
    return f"task | keys | runs | {' | '.join(agents)}", cells


def _score(mean: KeyMean) -> str:
    score, interval = f"{mean.normalised.value:.2f}", mean.unclipped.interval
    return f"**{score}**" if interval is not None and interval.low > 0.0 else score


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
    parser.add_argument("--agent", action="append", choices=AGENTS, help="only this agent; repeatable")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES))
    parser.add_argument("--levels", nargs="+", type=int, choices=LEVELS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9, help="time limit; the same command continues")
    play(parser.parse_args())


if __name__ == "__main__":
    main()
