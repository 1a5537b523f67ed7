"""Tries a policy without an environment: the part of submit.py behind --check. It needs numpy to make observations.

The policy answers the observations of the newest recorded episode. Before there is one, it answers the first
observation of train case 0; if that is not told either, zeros."""

from __future__ import annotations

import glob
import importlib
import os
import re
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

MAX_ANSWERS = 1000
MAX_SECONDS = 10.0
LONGEST_NAME = 100  # of an array in episode.npz
KEPT = ("env", "task", "env_version", "max_episode_steps")


def check_policy(folder: str, meta: dict[str, Any]) -> str:
    """Load the policy in ``folder``/system and let it act; print how that went. Returns what is wrong, else nothing."""
    spaces = [parse_infinities(meta[name]) for name in ("obs_space", "action_space")]
    sys.path.insert(0, os.path.join(folder, "system"))
    sys.dont_write_bytecode = True
    try:
        policy = importlib.import_module("policy").Policy(*spaces, {name: meta[name] for name in KEPT})
        if not callable(getattr(policy, "act", None)):
            raise TypeError("class Policy has no method act(obs)")
        policy.reset(0)
    except (Exception, SystemExit):
        traceback.print_exc()
        return "the policy does not load"
    try:
        kind, observations = find_observations(folder, spaces[0])
    except ImportError:
        print(
            "system/policy.py imports, constructs and resets; act() was not tried without numpy; nothing was submitted"
        )
        return ""
    try:
        first, milliseconds = answer(policy, observations)
    except (Exception, SystemExit):
        traceback.print_exc()
        return f"the policy loads, but fails on {kind}"
    print(f"system/policy.py imports, constructs, resets, and answers {kind} with {first!r}")
    mean, most = sum(milliseconds) / len(milliseconds), max(milliseconds)
    print(f"{len(milliseconds)} act() took {mean:.3g} ms each, at most {most:.3g} ms; nothing was submitted")
    return ""


def answer(policy: Any, observations: Iterator[Any]) -> tuple[Any, list[float]]:
    """Let the policy act. Returns its first action, and the time of each."""
    first, milliseconds, began = None, [], time.perf_counter()
    for number, observation in enumerate(observations):
        start = time.perf_counter()
        action = policy.act(observation)
        milliseconds.append(1000 * (time.perf_counter() - start))
        first = action if number == 0 else first
        if number + 1 == MAX_ANSWERS or time.perf_counter() - began > MAX_SECONDS:
            break
    return first, milliseconds


def find_observations(folder: str, space: Any) -> tuple[str, Iterator[Any]]:
    """Return what kind of observations there are, in words, and the observations."""
    import numpy

    recorded = glob.glob(os.path.join(glob.escape(folder), "feedback", "submit_*", "episodes", "ep_*", "episode.npz"))
    newest = sorted(recorded, key=lambda path: path.split(os.sep)[-4], reverse=True)
    for path in (*newest, os.path.join(folder, "first_observation.npz")):
        try:
            with numpy.load(path, allow_pickle=False) as file:
                columns = {name: file[name] for name in file.files if name.startswith("obs")}
            rows = len(columns[next(iter(columns))])
            observations = [rebuild(space, columns, row) for row in range(min(rows, MAX_ANSWERS))]
        except (OSError, ValueError, KeyError, IndexError, StopIteration):
            continue
        if path in newest:
            name = "/".join(path.split(os.sep)[-4:-1])
            return f"the recorded observations of {name}", iter(observations)
        return "the first observation of train case 0", iter(observations)
    return "a made-up observation (all zeros)", iter([zeros(space)])


def rebuild(space: Any, columns: dict[str, Any], row: int) -> Any:
    """Return one row of the columns as the observation that the policy was given."""
    import numpy

    taken: set[str] = set()

    def part(space: Any, name: str) -> Any:
        if space["type"] == "Dict":
            return {key: part(inner, f"{name}_{key}") for key, inner in space["spaces"].items()}
        if space["type"] == "Tuple":
            return tuple(part(inner, f"{name}_{index}") for index, inner in enumerate(space["spaces"]))
        value = columns[unique(name, taken)][row]
        if "shape" in space:
            return numpy.asarray(value, space["dtype"])
        return int(value) if space["type"] == "Discrete" else str(value)

    return part(space, "obs")


def unique(name: str, taken: set[str]) -> str:
    """Return the name of an array: safe as a file name, and numbered if it is taken."""
    clean, number = re.sub(r"[^\w-]", "_", name)[:LONGEST_NAME], 2
    found = clean
    while found in taken:
        found, number = f"{clean}_{number}", number + 1
    taken.add(found)
    return found


def zeros(space: Any) -> Any:
    """Return an observation of zeros within the bounds."""
    import numpy

    if space["type"] == "Dict":
        return {name: zeros(part) for name, part in space["spaces"].items()}
    if space["type"] == "Tuple":
        return tuple(map(zeros, space["spaces"]))
    if space["type"] == "Discrete":
        return space.get("start", 0)
    if "shape" not in space:
        return ""
    values = numpy.clip(numpy.zeros(space["shape"]), space.get("low", 0), space.get("high", 0))
    return numpy.asarray(values, space["dtype"])


def parse_infinities(space: Any) -> Any:
    """Convert infinities back to numbers; JSON has them as text."""
    if isinstance(space, dict):
        return {name: parse_infinities(value) for name, value in space.items()}
    if isinstance(space, list):
        return [parse_infinities(value) for value in space]
    return float(space) if space in ("inf", "-inf") else space
