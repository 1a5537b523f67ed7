"""Check generated tasks on many keys, and measure whether a policy for one key helps with another.

    python benchmarks/novel.py check --keys 100 --jobs 2       # adds to benchmarks/novel.json
    python benchmarks/novel.py transfer --keys 10 --jobs 2     # adds to benchmarks/novel.json
    python benchmarks/novel.py write                           # the tables of docs/novel.md, and its pictures

Keys are the hashes of 0, 1, 2, ..., so that anybody can repeat the numbers; runs use secret ones. Families and levels
that are not named keep the numbers that they have.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from evopolicygym.tasks.novel.generate import (
    FAMILIES,
    LEVELS,
    MOST_DRAWS,
    NOVEL,
    draw_world,
    measure,
    world_key,
    world_seeds,
)
from evopolicygym.tasks.novel.measure import CASES, SEARCH_CASES, Player, linear_player, returns, search_linear
from evopolicygym.tasks.novel.world import Act, World
from evopolicygym.tasks.spaces import schema_of

REPOSITORY = Path(__file__).parents[1]
RECORDED = Path(__file__).with_suffix(".json")
DOCS = REPOSITORY / "docs" / "novel.md"
PICTURES = REPOSITORY / "docs" / "images"
PICTURE_LEVEL, HEIGHT, GAP = 2, 256, 12
PICTURE_STEPS = {"arcade": 60}  # 12 without an entry
REPLAYED_CASES = 4
Job = tuple[str, int, int]  # family, level, number of the key


def key_of(family: str, level: int, number: int) -> bytes:
    sealing_key = hashlib.sha256(f"evopolicygym benchmark key {number}".encode()).digest()
    return world_key(f"{NOVEL}/{family}-{level}", sealing_key)


def check(job: Job) -> dict[str, Any]:
    """Draw the world of a key, and keep what every draw was measured with."""
    family, level, number = job
    began, key, draws = time.process_time(), key_of(*job), []
    for draw in range(MOST_DRAWS):
        measured = measure(family, level, key, draw)
        search = float(np.mean(measured.search))
        ends = {"trivial": measured.low, "search": search, "expert": measured.high}
        draws.append({name: round(value, 4) for name, value in ends.items()} | {"objection": measured.objection()})
        if draws[-1]["objection"] is None:
            break
    return {"key": number, "cpu_s": round(time.process_time() - began, 1), "draws": draws}


Matrix = list[list[float]]


def transfer(jobs: list[Job], entries: list[dict[str, Any]]) -> dict[str, Matrix]:
    """Return normalised scores. Row i has the linear policy that was searched for on key i, or the actions that the
    expert played there; column j plays them on key j."""
    return {"search": _search_transfer(jobs, entries), "actions": _action_transfer(jobs, entries)}


def _action_transfer(jobs: list[Job], entries: list[dict[str, Any]]) -> Matrix:
    targets = list(zip(jobs, entries, strict=True))
    played = [_expert_actions(*target) for target in targets]
    return [[_replayed(actions, *target) for target in targets] for actions in played]


def _expert_actions(job: Job, entry: dict[str, Any]) -> list[list[Any]]:
    """Return the actions of the expert on each of a few hidden cases."""
    world, episodes = _world(job, entry), []
    for seed in world_seeds(key_of(*job), "hidden", REPLAYED_CASES):
        actions: list[Any] = []
        returns(world, _noting_expert(world, actions), [seed])
        episodes.append(actions)
    return episodes


def _noting(act: Act, actions: list[Any]) -> Act:
    def noted(observation: Any) -> Any:
        actions.append(act(observation))
        return actions[-1]

    return noted


def _noting_expert(world: World, actions: list[Any]) -> Player:
    return lambda env: _noting(world.expert(env), actions)


def _playing(actions: Iterator[Any]) -> Player:
    return lambda _: lambda _: next(actions)


def _replayed(episodes: list[list[Any]], job: Job, entry: dict[str, Any]) -> float:
    """Play actions on the hidden cases of a key, from the beginning again when they end."""
    world, seeds = _world(job, entry), world_seeds(key_of(*job), "hidden", REPLAYED_CASES)
    space = world.make().action_space
    scores = []
    for actions, seed in zip(episodes, seeds, strict=True):
        fitting = itertools.cycle(action if space.contains(action) else space.sample() for action in actions)
        scores += returns(world, _playing(fitting), [seed])
    return _normalised(scores, entry)


def _normalised(scores: list[float], entry: dict[str, Any]) -> float:
    ends = entry["draws"][-1]
    return float(round((np.mean(scores) - ends["trivial"]) / (ends["expert"] - ends["trivial"]), 4))


def _world(job: Job, entry: dict[str, Any]) -> World:
    family, level, _ = job
    return draw_world(family, level, key_of(*job), len(entry["draws"]) - 1)


def _search_transfer(jobs: list[Job], entries: list[dict[str, Any]]) -> Matrix:
    found = [_searched(job, entry) for job, entry in zip(jobs, entries, strict=True)]
    targets = list(zip(jobs, entries, found, strict=True))
    return [[_score(weights, job, entry, own.shape) for job, entry, own in targets] for weights in found]


def _searched(job: Job, entry: dict[str, Any]) -> Any:
    return search_linear(_world(job, entry), list(world_seeds(key_of(*job), "search", SEARCH_CASES)))


def _score(weights: Any, job: Job, entry: dict[str, Any], shape: tuple[int, int]) -> float:
    """Play a linear policy on the hidden cases of a key. Where its spaces are others, it is cut or filled with 0."""
    world = _world(job, entry)
    fitted, common = np.zeros(shape), tuple(slice(min(pair)) for pair in zip(shape, weights.shape, strict=True))
    fitted[common] = weights[common]
    player = linear_player(fitted, schema_of(world.make().action_space))
    return _normalised(returns(world, player, world_seeds(key_of(*job), "hidden", CASES)), entry)


def summary(entries: list[dict[str, Any]]) -> list[str]:
    """Return the cells of one row of the table."""
    last = [entry["draws"][-1] for entry in entries]
    drawn = sum(len(entry["draws"]) for entry in entries)
    refused = Counter(draw["objection"] for entry in entries for draw in entry["draws"] if draw["objection"])
    searched = [(end["search"] - end["trivial"]) / (end["expert"] - end["trivial"]) for end in last]
    means = (f"{np.mean([end[name] for end in last]):.4g}" for name in ("trivial", "expert"))
    causes = "; ".join(f"{cause}: {count}" for cause, count in refused.most_common()) or "none"
    cost = np.mean([entry["cpu_s"] for entry in entries])
    return [
        f"{len(entries)}",
        f"{len(entries) / drawn:.0%}",
        *means,
        f"{np.mean(searched):.2f}",
        f"{cost:.0f} s",
        causes,
    ]


def transfer_row(matrices: dict[str, Matrix]) -> list[str]:
    cells = []
    for name in ("search", "actions"):
        table = np.array(matrices[name])
        own, others = np.diag(table), table[~np.eye(len(table), dtype=bool)]
        cells += [f"{own.mean():.2f}", f"{others.mean():.2f}", f"{others.max():.2f}"]
    return [str(len(matrices["search"])), *cells]


def table(head: str, rows: dict[str, list[str]]) -> str:
    lines = [f"| task |{head}", "|---" * (head.count("|") + 1) + "|"]
    return "\n".join([*lines, *(f"| {task} | {' | '.join(cells)} |" for task, cells in rows.items())])


def write() -> None:
    """Write tables and pictures."""
    recorded, text = stored(), DOCS.read_text()
    tables = {
        "check": table(
            " keys | accepted | best trivial | expert | search | CPU time | draws that were refused |",
            {task: summary(entries) for task, entries in recorded["check"].items()},
        ),
        "transfer": table(
            " keys | search: own key | other keys | highest | expert's actions: own key | other keys | highest |",
            {task: transfer_row(matrices) for task, matrices in recorded["transfer"].items()},
        ),
    }
    for name, lines in tables.items():
        begin, end = f"<!-- {name}: benchmarks/novel.py -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{lines}\n{end}{rest.partition(end)[2]}"
    DOCS.write_text(text)
    for family in FAMILIES:
        picture(family, recorded["check"].get(f"{family}-{PICTURE_LEVEL}"))


def picture(family: str, entries: list[dict[str, Any]] | None) -> None:
    """Draw the expert after a few steps on the first two keys, side by side."""
    frames = []
    for entry in (entries or [])[:2]:
        world = draw_world(family, PICTURE_LEVEL, key_of(family, PICTURE_LEVEL, entry["key"]), len(entry["draws"]) - 1)
        env = world.make("rgb_array")
        observation, _ = env.reset(seed=0)
        act = world.expert(env)
        for _ in range(PICTURE_STEPS.get(family, 12)):
            observation, *_ = env.step(act(observation))
        frame = Image.fromarray(env.render())
        factor = max(1, HEIGHT // frame.height)  # of small pictures every pixel shall be seen
        frames.append(frame.resize((factor * frame.width, factor * frame.height), Image.Resampling.NEAREST))
    if frames:
        size = (sum(frame.width for frame in frames) + GAP, max(frame.height for frame in frames))
        image = Image.new("RGB", size, "white")
        for frame, x in zip(frames, (0, size[0] - frames[-1].width), strict=True):
            image.paste(frame, (x, 0))
        image.quantize(64).save(PICTURES / f"novel-{family}.png", optimize=True)


def stored() -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    return {"check": {}, "transfer": {}} | recorded


def store(part: str, task: str, values: Any) -> None:
    """Add numbers to the file as it is now: another process may measure other families."""
    recorded = stored()
    recorded[part] = dict(sorted((recorded[part] | {task: values}).items()))
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")


def chosen(options: argparse.Namespace) -> Iterator[tuple[str, int]]:
    for family in options.families or FAMILIES:
        for level in options.levels or LEVELS:
            yield family, level


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("check", "transfer", "write"))
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES))
    parser.add_argument("--levels", nargs="+", type=int, choices=LEVELS)
    parser.add_argument("--keys", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.command == "write":
        write()
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        for family, level in chosen(options):
            task, jobs = f"{family}-{level}", [(family, level, number) for number in range(options.keys)]
            if options.command == "check":
                entries = list(pool.map(check, jobs))
                print(task, *summary(entries), flush=True)
                store("check", task, entries)
            else:
                entries = stored()["check"][task][: options.keys]
                matrices = pool.submit(transfer, jobs[: len(entries)], entries).result()
                print(task, *transfer_row(matrices), flush=True)
                store("transfer", task, matrices)


if __name__ == "__main__":
    main()
