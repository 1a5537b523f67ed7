"""Tries a policy without an environment: the part of submit.py behind --check. It needs numpy to make observations.

The policy answers the observations of a recorded episode. Before there is one, it answers the first observation of
train case 0; if that is not told either, zeros. It runs in a process of its own with one thread, as in a submission."""

from __future__ import annotations

import glob
import importlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from typing import Any

MAX_ANSWERS = 1000
MAX_SECONDS = 10.0
MAX_SUBMISSIONS = 20  # the newest ones, among which a long episode is looked for
PRINTED_LINES = 20
PRINTED_BYTES = 1 << 16
LONGEST_NAME = 100  # of an array in episode.npz
LONGEST_ACTION = 200  # of an action as text
KEPT = ("env", "task", "env_version", "max_episode_steps")
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
FOREIGN = (
    "the observations were recorded with an earlier submission, and actions do not change them: a policy with memory "
    "sees an episode that is not its own"
)


class WrongAction(Exception):
    """The action is not in the action space."""


def check_policy(folder: str, info: dict[str, Any]) -> str:
    """Try the policy in ``folder``/system in a child process. Print the result and the end of what the policy printed.
    Return what is wrong, or an empty text."""
    request = json.dumps([folder, info["env_meta"], info["resource_limits"]]).encode()
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as result:
        command = [sys.executable, "-B", os.path.abspath(__file__), str(result.fileno())]
        done = subprocess.run(
            command,
            input=request,
            stdout=printed,
            stderr=printed,
            env={**os.environ, **ONE_THREAD},
            pass_fds=[result.fileno()],
            check=False,
        )
        show_printed(printed)
        result.seek(0)
        text = result.read().decode(errors="replace")
    if done.returncode == -signal.SIGXCPU:
        return f"loading or one act() took longer than {cpu_limit(info['resource_limits'])} s of CPU time"
    if not text:
        return f"the policy ended its process (exit code {done.returncode})"
    report: dict[str, Any] = json.loads(text)
    for line in report["lines"]:
        print(line)
    if report["traceback"]:
        print(report["traceback"], file=sys.stderr, end="")
    return str(report["problem"])


def show_printed(file: Any) -> None:
    """Print the last lines of what the policy printed."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - PRINTED_BYTES))
    lines = file.read().decode(errors="replace").splitlines()
    cut = len(lines) > PRINTED_LINES or size > PRINTED_BYTES
    if lines:
        print(f"the policy printed {size} bytes; the last {PRINTED_LINES} lines:" if cut else "the policy printed:")
    for line in lines[-PRINTED_LINES:]:
        print(f"  {line}")


def try_policy(folder: str, meta: dict[str, Any], limits: dict[str, float]) -> dict[str, Any]:
    """Load the policy and let it act. Returns lines to print, a traceback, and what is wrong: all may be empty."""
    result: dict[str, Any] = {"lines": [], "traceback": "", "problem": ""}
    spaces = [parse_infinities(meta[name]) for name in ("obs_space", "action_space")]
    sys.path[:] = [os.path.join(folder, "system"), *(path for path in sys.path if path != folder)]
    began = time.process_time()
    try:
        policy = importlib.import_module("policy").Policy(*spaces, {name: meta[name] for name in KEPT})
        if not callable(getattr(policy, "act", None)):
            raise TypeError("class Policy has no method act(obs)")
        policy.reset(0)
    except (Exception, SystemExit):
        return {**result, "traceback": traceback.format_exc(), "problem": "the policy does not load"}
    load_s = time.process_time() - began
    try:
        kind, observations = find_observations(folder, spaces[0])
    except ImportError:
        line = "system/policy.py imports, constructs and resets; act() was not tried without numpy"
        return {**result, "lines": [f"{line}; nothing was submitted"]}
    try:
        first, seconds = answer(policy, observations, spaces[1])
    except WrongAction as error:
        return {**result, "problem": f"the policy loads, but answers {kind} with a wrong action: {error}"}
    except (Exception, SystemExit):
        problem = f"the policy loads, but fails on {kind}"
        return {**result, "traceback": traceback.format_exc(), "problem": problem}
    mean, most = sum(seconds) / len(seconds), max(seconds)
    result["lines"] = [
        f"system/policy.py imports, constructs, resets, and answers {kind} with {shorten(first)} first",
        *([FOREIGN] if len(observations) > 1 else []),
        f"{len(seconds)} act() took {duration(mean)} of CPU time each, at most {duration(most)}; nothing was submitted",
    ]
    for what, taken, limit in (("loading", load_s, "init_cpu_s"), ("act()", most, "act_cpu_s")):
        if taken > limits[limit]:
            result["problem"] = f"{what} took {duration(taken)} of CPU time; {limit} allows {limits[limit]:g} s"
    longest = load_s + mean * meta["max_episode_steps"]
    if longest > limits["episode_cpu_s"]:
        result["lines"].append(
            f"warning: an episode of {meta['max_episode_steps']} steps would take {duration(longest)} of CPU time; "
            f"episode_cpu_s allows {limits['episode_cpu_s']:g} s"
        )
    return result


def answer(policy: Any, observations: list[Any], space: Any) -> tuple[Any, list[float]]:
    """Let the policy act, and check its actions. Returns the first one, and the CPU time of each."""
    first, seconds, began = None, [], time.perf_counter()
    for number, observation in enumerate(observations):
        start = time.process_time()
        action = policy.act(observation)
        seconds.append(time.process_time() - start)
        check_action(action, space)
        first = action if number == 0 else first
        if time.perf_counter() - began > MAX_SECONDS:
            break
    return first, seconds


def check_action(action: Any, space: Any, name: str = "the action") -> None:
    """Raise WrongAction if the judge would refuse the action. Numbers outside the bounds of a Box are clipped there."""
    import numpy

    if space["type"] in ("Dict", "Tuple"):
        inner = space["spaces"]
        for key, part in inner.items() if isinstance(inner, dict) else enumerate(inner):
            try:
                value = action[key]
            except (KeyError, IndexError, TypeError) as error:
                raise WrongAction(f"{name} must be a {space['type']} with {key!r}: {error!r}") from error
            check_action(value, part, f"{name}[{key!r}]")
        return
    try:
        array = numpy.asarray(action)
    except ValueError as error:
        raise WrongAction(f"{name} must be numbers: {error}") from error
    got = f"got {type(action).__name__} {shorten(action)}"
    if space["type"] == "Discrete":
        first, last = space["start"], space["start"] + space["n"] - 1
        if array.size != 1 or array.dtype.kind not in "biu" or not first <= int(array.item()) <= last:
            raise WrongAction(f"{name} must be one integer from {first} to {last}, {got}")
        return
    shape, is_whole = tuple(space["shape"]), numpy.dtype(space["dtype"]).kind != "f"
    if array.dtype.kind not in "biuf" or array.shape != shape:
        raise WrongAction(f"{name} must be numbers of shape {shape}, {got}")
    if not numpy.isfinite(array.astype(space["dtype"]) if not is_whole else array).all():
        raise WrongAction(f"{name} must be finite numbers, {got}")
    if is_whole and not (array == numpy.rint(array)).all():
        raise WrongAction(f"{name} must be whole numbers, {got}")
    if space["type"] != "Box":
        low = numpy.asarray(space.get("start", 0))
        high = low + numpy.asarray(space["nvec"]) - 1 if space["type"] == "MultiDiscrete" else 1
        if (array < low).any() or (array > high).any():
            raise WrongAction(f"{name} must be from {shorten(low)} to {shorten(high)}, {got}")


def find_observations(folder: str, space: Any) -> tuple[str, list[Any]]:
    """Return what kind of observations there are, in words, and the observations: those of a long first episode of a
    new submission."""
    recorded = find_recorded(folder)
    for path in (*recorded, os.path.join(folder, "first_observation.npz")):
        columns = read_columns(path, "obs")
        try:
            rows = len(columns[next(iter(columns))]) - has_ended(path)
            observations = [rebuild(space, columns, row) for row in range(min(rows, MAX_ANSWERS))]
        except (ValueError, KeyError, IndexError, StopIteration):
            continue
        if path in recorded:
            name = "/".join(path.split(os.sep)[-4:-1])
            return f"the recorded observations of {name}", observations
        return "the first observation of train case 0", observations
    return "a made-up observation (all zeros)", [zeros(space)]


def has_ended(path: str) -> bool:
    """Return whether the last observation of a file ended the episode, so that no policy is asked about it. The last
    one of a failed episode is the one that the policy failed on."""
    ends = {**read_columns(path, "terminated"), **read_columns(path, "truncated")}
    return any(bool(value) for value in ends.values())


def find_recorded(folder: str) -> list[str]:
    """Return the first recorded episode of each submission: newest first, but those that are less than half as long as
    the longest come last."""
    pattern = os.path.join(glob.escape(folder), "feedback", "submit_*", "episodes", "ep_*", "episode.npz")
    first_of: dict[str, str] = {}
    for path in sorted(glob.glob(pattern)):
        first_of.setdefault(path.split(os.sep)[-4], path)
    newest = sorted(first_of.values(), key=lambda path: path.split(os.sep)[-4], reverse=True)[:MAX_SUBMISSIONS]
    steps = {path: len(read_columns(path, "reward").get("reward", ())) for path in newest}
    return sorted(newest, key=lambda path: 2 * steps[path] < max(steps.values()))


def read_columns(path: str, prefix: str) -> dict[str, Any]:
    """Return the arrays of a file whose names have a prefix; none if it cannot be read."""
    import numpy

    try:
        with numpy.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files if name.startswith(prefix)}
    except (OSError, ValueError, KeyError):
        return {}


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
    unique = clean
    while unique in taken:
        unique, number = f"{clean}_{number}", number + 1
    taken.add(unique)
    return unique


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


def duration(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def shorten(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_ACTION else text[:LONGEST_ACTION] + " ..."


def cpu_limit(limits: dict[str, float]) -> int:
    """Return after how many seconds of CPU time the whole trial is ended: enough for all that is allowed."""
    return int(limits["init_cpu_s"] + MAX_SECONDS + limits["act_cpu_s"]) + 1


def main() -> None:
    """Read a request from standard input, and write the result to the descriptor that is named."""
    descriptor = int(sys.argv[1])
    folder, meta, limits = json.loads(sys.stdin.buffer.read())
    seconds = cpu_limit(limits)
    with suppress(OSError, ValueError):  # where a lower limit holds already
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    result = try_policy(folder, meta, limits)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
