"""Measure whether a policy for one key helps with another, and write the tables and pictures of docs/novel.md.

    evopolicygym task check novel --keys 100 --jobs 16 --seconds 540 --output benchmarks/novel.json
    python benchmarks/novel.py transfer --keys 10 --jobs 16 --seconds 300
    python benchmarks/novel_runs.py play --keys 3 --jobs 16 --seconds 480      # and more, see there
    python benchmarks/novel.py write

All of them continue where they were stopped: what benchmarks/novel.json has is not measured again. Keys are the hashes
of 0, 1, 2, ..., so that anybody can repeat the numbers; runs use secret ones.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
from novel_runs import RECORDS, board_table, key_spread_table, learning_figure, packed_runs
from PIL import Image

from evopolicygym.tasks.novel.generate import FAMILIES, LEVELS, NOVEL, family_version, task_parts, world_seeds
from evopolicygym.tasks.novel.key_checks import (
    KeyCheck,
    TaskKeys,
    in_parallel,
    public_key,
    read_checks,
    read_results,
    summarise,
    write_results,
)
from evopolicygym.tasks.novel.measure import (
    CASES,
    LEAST_ERRORS,
    LEAST_SPREADS,
    MOST_SEARCHED,
    SEARCH_CASES,
    Player,
    features,
    linear_player,
    returns,
    search_linear,
)
from evopolicygym.tasks.novel.world import Act, World
from evopolicygym.tasks.spaces import schema_of

REPOSITORY = Path(__file__).parents[1]
RESULTS = Path(__file__).with_suffix(".json")
DOCS = REPOSITORY / "docs" / "novel.md"
PICTURES = REPOSITORY / "docs" / "images"
TRANSFER = "transfer"
PICTURE_LEVEL, HEIGHT, GAP = 2, 256, 12
PICTURE_STEPS = {"arcade": 60}  # 12 without an entry
REPLAYED_CASES = 4
TransferJob = tuple[list[KeyCheck], int]  # the checked keys of a task, and the index of one of them


def transfer_row(job: TransferJob) -> dict[str, Any]:
    """Return normalised scores on every key of two things that were made for one of them: the linear policy that was
    searched for, and the very actions that the expert played."""
    checks, index = job
    own = checks[index]
    weights = search_linear(own.world(), list(world_seeds(_key(own), "search", SEARCH_CASES)))
    actions = _expert_actions(own)
    return {
        "task": own.task,
        "version": own.version,
        "key": own.key,
        "keys": [checked.key for checked in checks],
        "search": [_linear_score(weights, checked) for checked in checks],
        "actions": [_replayed_score(actions, checked) for checked in checks],
    }


def _key(checked: KeyCheck) -> bytes:
    return public_key(checked.task, checked.key)


def _linear_score(weights: Any, checked: KeyCheck) -> float:
    """Play a linear policy on the hidden cases of a key. Where its spaces are others, it is cut or filled with 0."""
    world = checked.world()
    env = world.make()
    observation, _ = env.reset(seed=0)
    schema = schema_of(env.action_space)
    outputs = schema["n"] if schema["type"] == "Discrete" else int(np.prod(schema["shape"]))
    fitted = np.zeros((outputs, features(observation).size + 1))
    common = tuple(slice(min(pair)) for pair in zip(fitted.shape, weights.shape, strict=True))
    fitted[common] = weights[common]
    return _score(checked, returns(world, linear_player(fitted, schema), world_seeds(_key(checked), "hidden", CASES)))


def _score(checked: KeyCheck, scores: list[float]) -> float:
    return round(checked.normalised(float(np.mean(scores))), 4)


def _expert_actions(checked: KeyCheck) -> list[list[Any]]:
    """Return the actions of the expert on each of a few hidden cases."""
    world, episodes = checked.world(), []
    for seed in world_seeds(_key(checked), "hidden", REPLAYED_CASES):
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


def _replayed_score(episodes: list[list[Any]], checked: KeyCheck) -> float:
    """Play actions on the hidden cases of a key, from the beginning again when they end. An action that its space does
    not have is cut or filled with 0 where it is a vector, and replaced by a random one where it is not."""
    world, seeds = checked.world(), world_seeds(_key(checked), "hidden", REPLAYED_CASES)
    space, scores = world.make().action_space, []
    space.seed(0)
    for actions, seed in zip(episodes, seeds, strict=True):
        fitting = itertools.cycle([_fitted(action, space) for action in actions])
        scores += returns(world, _playing(fitting), [seed])
    return _score(checked, scores)


def _fitted(action: Any, space: Any) -> Any:
    if space.contains(action):
        return action
    if np.ndim(action) == 0:
        return space.sample()
    fitted = np.zeros(space.shape, space.dtype)
    size = min(len(fitted), len(action))
    fitted[:size] = action[:size]
    return fitted


def transfer(options: argparse.Namespace) -> None:
    """Measure the rows that are missing, and add each to the file when it is measured."""
    checks = read_checks(options.output)
    rows = [row for row in read_results(options.output).get(TRANSFER, []) if _is_current(row)]
    jobs: list[TransferJob] = []
    for family in options.families or FAMILIES:
        for level in options.levels or LEVELS:
            task = f"{NOVEL}/{family}-{level}"
            found = [checks[task, key] for key in range(options.keys) if (task, key) in checks]
            found = [checked for checked in found if checked.error is None]
            keys = [checked.key for checked in found]
            rows = [row for row in rows if row["task"] != task or row["keys"] == keys]
            measured = {row["key"] for row in rows if row["task"] == task}
            jobs += [(found, index) for index, key in enumerate(keys) if key not in measured]
    print(f"{len(jobs)} rows are missing", flush=True)
    for row in in_parallel(transfer_row, jobs, options.jobs, options.seconds):
        rows = sorted([*rows, row], key=lambda entry: (entry["task"], entry["key"]))
        write_results(options.output, TRANSFER, rows)
        print(row["task"], row["key"], row["search"], row["actions"], flush=True)


def _is_current(row: dict[str, Any]) -> bool:
    return cast(int, row["version"]) == family_version(task_parts(row["task"])[0])


def check_cells(summary: TaskKeys) -> list[str]:
    refused = "; ".join(f"{objection}: {count}" for objection, count in summary.refused.items())
    return [
        summary.task.removeprefix(f"{NOVEL}/"),
        str(summary.keys),
        f"{summary.accepted:.0%}",
        f"{summary.trivial:.4g}",
        f"{summary.expert:.4g}",
        f"{summary.searched:.2f}",
        f"{summary.cpu_s:.1f} s",
        refused or "none",
    ]


def transfer_cells(task: str, rows: list[dict[str, Any]]) -> list[str]:
    """Return means over the rows of a task: on the own key, and on the others."""
    own = np.array([[key == row["key"] for key in row["keys"]] for row in rows])
    cells = [task.removeprefix(f"{NOVEL}/"), str(len(rows))]
    for name in ("search", "actions"):
        scores = np.array([row[name] for row in rows])
        others = scores[~own]
        cells += [f"{scores[own].mean():.2f}", f"{others.mean():.2f}", f"{np.percentile(others, 95):.2f}"]
    return cells


def table(head: str, rows: list[list[str]]) -> str:
    if not rows:
        return "Not measured yet."
    lines = [f"| {head} |", "|---" * (head.count("|") + 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(cells)} |" for cells in rows)])


def margin_text() -> str:
    return (
        f"- **certain**: the lead is at least {LEAST_ERRORS:g} of its standard errors, over {CASES} paired cases;\n"
        f"- **large**: it is at least {LEAST_SPREADS:g} standard deviations of what all trivial policies score, over "
        "policies and cases;\n"
        f"- **out of reach**: a search with 128 episodes gets at most {MOST_SEARCHED:.0%} of it."
    )


def write(options: argparse.Namespace) -> None:
    """Write tables and pictures."""
    checks, text = read_checks(options.output), DOCS.read_text()
    by_task: dict[str, list[dict[str, Any]]] = {}
    for row in filter(_is_current, read_results(options.output).get(TRANSFER, [])):
        by_task.setdefault(row["task"], []).append(row)
    heads = {
        "check": "task | keys | accepted | best trivial | expert | search | CPU time | draws that were refused",
        "transfer": "task | keys | search: own key | other keys | 95 % below | expert's actions: own key | other keys "
        "| 95 % below",
    }
    tables = {
        "margin": margin_text(),
        "check": table(heads["check"], [check_cells(summary) for summary in summarise(checks.values())]),
        "transfer": table(heads["transfer"], [transfer_cells(task, rows) for task, rows in by_task.items()]),
    }
    if runs := packed_runs(RECORDS):
        tables |= {"board": table(*board_table(runs)), "keys": table(*key_spread_table(runs))}
        tables["board"] += "\n\n![Learning curves of built-in agents](images/novel-learning.png)"
        learning_figure(runs, PICTURES / "novel-learning.png")
    for name, lines in tables.items():
        begin, end = f"<!-- {name}: benchmarks/novel.py -->", f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        assert found and end in rest, f"docs/novel.md has no place for {name}"
        text = f"{before}{begin}\n{lines}\n{end}{rest.partition(end)[2]}"
    DOCS.write_text(text)
    for family in FAMILIES:
        drawn = [checks.get((f"{NOVEL}/{family}-{PICTURE_LEVEL}", key)) for key in (0, 1)]
        picture([checked for checked in drawn if checked and not checked.error], PICTURES / f"novel-{family}.png")


def picture(checks: list[KeyCheck], path: Path) -> None:
    """Draw the expert after a few steps on two keys, side by side. With fewer keys, keep the picture as it is."""
    if len(checks) < 2:
        return
    frames = []
    for checked in checks:
        world = checked.world()
        env = world.make("rgb_array")
        observation, _ = env.reset(seed=0)
        act = world.expert(env)
        for _ in range(PICTURE_STEPS.get(task_parts(checked.task)[0], 12)):
            observation, *_ = env.step(act(observation))
        frame = Image.fromarray(env.render())
        factor = max(1, HEIGHT // frame.height)  # of small pictures every pixel shall be seen
        frames.append(frame.resize((factor * frame.width, factor * frame.height), Image.Resampling.NEAREST))
    size = (sum(frame.width for frame in frames) + GAP, max(frame.height for frame in frames))
    image = Image.new("RGB", size, "white")
    for frame, x in zip(frames, (0, size[0] - frames[-1].width), strict=True):
        image.paste(frame, (x, 0))
    image.quantize(64).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("transfer", "write"))
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES))
    parser.add_argument("--levels", nargs="+", type=int, choices=LEVELS)
    parser.add_argument("--keys", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="time limit; rows that are not measured by then are left")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    {"transfer": transfer, "write": write}[options.command](options)


if __name__ == "__main__":
    main()
