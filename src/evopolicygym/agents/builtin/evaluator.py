"""Shared parts of the agents without a model: the spaces and the scale of their entries, which cases to play, and
evaluation (write a policy to the workspace, submit it, read the recorded episodes)."""

from __future__ import annotations

import json
import math
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from .api_client import ApiClient, RunOver
from .policies.features import (
    COARSE,
    Resolution,
    Vector,
    blocks,
    controls_of,
    entries,
    entry_kinds,
    has_goals,
    width,
)

POLICIES: Final = Path(__file__).parent / "policies"
FEEDBACK_WAIT_S: Final = 20.0  # the result of a submission can arrive shortly before its feedback
LONGEST_NAME: Final = 100  # of an array in episode.npz
TRAIN_CASES: Final = 1024
FRESH_CASES: Final = 4  # the first case that nothing before the search depended on
WIDEST: Final = 1e3  # half the width of a Box; wider bounds tell nothing about typical values
MAX_EPISODES_READ: Final = 2  # of one submission: enough to learn the dynamics


@dataclass(frozen=True)
class Spaces:
    """Observation and action space of a task, as the API describes them."""

    observation: dict[str, Any]
    action: dict[str, Any]

    @property
    def controls(self) -> int:
        """Number of controls: numbers of an action, or discrete choices."""
        return width(self.action)

    @property
    def is_choice(self) -> bool:
        """Whether an action is one of several choices."""
        return bool(self.action["type"] == "Discrete")

    @property
    def sees_images(self) -> bool:
        """Whether observations have images, which are reduced to blocks."""
        return "block" in self.kinds

    @property
    def kinds(self) -> list[str]:
        """Kind of each entry of an observation."""
        return entry_kinds(self.observation)


@dataclass(frozen=True)
class TunerPolicy:
    """A policy to try: the name of its file in ``policies/``, and the parameters that it reads."""

    file: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class RecordedEpisode:
    """Arrays of one episode. Row t of ``entries`` is the observation before step t, row t of ``controls`` the action,
    ``rewards[t]`` its reward. ``entries`` has one more row: the last observation."""

    entries: Vector
    controls: Vector
    rewards: Vector


@dataclass(frozen=True)
class Played:
    """Result of a policy. ``returns`` are in the order of the cases; -inf if the policy did not load."""

    returns: Vector
    episodes: list[RecordedEpisode]

    @property
    def mean(self) -> float:
        return float(self.returns.mean())


class Evaluator(Protocol):
    """Plays policies. ``remaining`` is the budget in episodes; ``play`` uses fewer cases if it does not suffice, and
    raises RunOver when it is spent."""

    remaining: int

    def play(self, policy: TunerPolicy, cases: list[int]) -> Played: ...


class ApiEvaluator:
    """Evaluates over the API of a run. ``budget`` is the budget at the start of the run, also after a restart: the
    repeated submissions return the same results."""

    def __init__(self, api: ApiClient, spaces: Spaces, budget: int) -> None:
        self._api, self._spaces, self.remaining = api, spaces, budget

    def play(self, policy: TunerPolicy, cases: list[int]) -> Played:
        if self.remaining == 0:
            raise RunOver("the budget is spent")
        affordable = cases[: self.remaining]
        write_policy(policy, self._api.system)
        reply = self._api.submit(affordable)
        self.remaining = reply.remaining
        print(
            f"{reply.submit_id}: {policy.file} {reply.status} {list(reply.returns)}, {self.remaining} left", flush=True
        )
        returns = np.array(reply.returns) if reply.returns else np.full(len(affordable), -np.inf)
        return Played(returns, self._episodes(reply.submit_id))

    def _episodes(self, submit_id: str) -> list[RecordedEpisode]:
        folder = self._api.feedback / submit_id
        began = time.monotonic()
        while not (folder / "summary.json").exists() and time.monotonic() - began < FEEDBACK_WAIT_S:
            time.sleep(0.02)
        paths = sorted((folder / "episodes").glob("ep_*"))[:MAX_EPISODES_READ]
        return [read_episode(path, self._spaces) for path in paths]


def write_policy(policy: TunerPolicy, system: Path) -> None:
    """Write the policy's code and parameters to ``system``."""
    system.mkdir(exist_ok=True)
    (system / "policy.py").write_bytes((POLICIES / f"{policy.file}.py").read_bytes())
    (system / "features.py").write_bytes((POLICIES / "features.py").read_bytes())
    (system / "parameters.json").write_text(json.dumps(policy.settings, indent=1) + "\n")


def read_episode(folder: Path, spaces: Spaces) -> RecordedEpisode:
    """Read a recorded episode; an empty one if it has no recording (the simulator's process died)."""
    archive = folder / "episode.npz"
    if not archive.exists():
        return RecordedEpisode(np.array([]), np.array([]), np.array([]))
    with np.load(archive) as file:
        arrays = dict(file)
    observations = rows_of(spaces.observation, "obs", arrays)
    actions = rows_of(spaces.action, "action", arrays)
    return RecordedEpisode(
        np.array([entries(spaces.observation, value) for value in observations]),
        np.array([controls_of(spaces.action, value) for value in actions]),
        np.asarray(arrays["reward"], dtype=float),
    )


def rows_of(space: dict[str, Any], prefix: str, arrays: dict[str, Any]) -> list[Any]:
    """Return observations or actions as a policy gets or gives them, from the columns of an episode."""
    taken: set[str] = set()

    def column(name: str) -> Any:
        clean, number = re.sub(r"[^\w-]", "_", name)[:LONGEST_NAME], 2
        unique = clean
        while unique in taken:
            unique, number = f"{clean}_{number}", number + 1
        taken.add(unique)
        return arrays[unique]

    def values(space: dict[str, Any], name: str) -> list[Any]:
        if "spaces" not in space:
            return list(column(name))
        if isinstance(space["spaces"], dict):
            parts = {key: values(child, f"{name}_{key}") for key, child in space["spaces"].items()}
            return [dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True)]
        return list(zip(*(values(part, f"{name}_{i}") for i, part in enumerate(space["spaces"])), strict=True))

    return values(space, prefix)


def next_cases(generation: int, count: int) -> list[int]:
    """Return other cases for every generation, so that policies that are good only on a few cases do not survive."""
    first = FRESH_CASES + generation * count
    return [(first + number) % TRAIN_CASES for number in range(count)]


def cases_needed(returns: Vector) -> int:
    """Return 1, 2 or 4 cases for each policy: more, the less policies differ compared with the noise between cases."""
    centred = returns - returns.mean(axis=0)
    noise = float((centred - centred.mean(axis=1, keepdims=True)).var(axis=1, ddof=1).mean())
    signal = float(centred.mean(axis=1).var(ddof=1)) - noise / returns.shape[1]
    return 1 if noise < 0.3 * signal else 2 if noise < 2.0 * signal else 4


def normalisation(space: dict[str, Any], resolution: Resolution = COARSE) -> tuple[Vector, Vector]:
    """Return centre and scale of each entry of an observation.

    Narrow ranges are stretched to -1 to 1, so that no entry is too small to matter; wide ones keep their scale. The
    centre is 0 and the scale 1 where the space has no useful bounds.
    """
    match space["type"]:
        case "Dict":
            parts = [normalisation(child, resolution) for child in space["spaces"].values()]
            if has_goals(space):
                parts.append(_unit(math.prod(space["spaces"]["desired_goal"]["shape"])))
            return _joined(parts)
        case "Tuple":
            return _joined([normalisation(child, resolution) for child in space["spaces"]])
        case "Discrete":
            return _unit(space["n"] if space["n"] <= resolution.largest else 1)
        case "Text":
            return _unit(0)
    size = math.prod(space["shape"])
    if size > resolution.largest:
        return _unit(blocks(np.zeros(space["shape"]), resolution.blocks).size)
    return _bounds(space, size) if space["type"] == "Box" else _unit(size)


def _bounds(space: dict[str, Any], size: int) -> tuple[Vector, Vector]:
    low, high = (np.broadcast_to(np.asarray(space[name], dtype=float), space["shape"]) for name in ("low", "high"))
    is_bounded = np.isfinite(low) & np.isfinite(high) & (high - low <= 2 * WIDEST) & (high > low)
    low, high = np.where(is_bounded, low, -1.0), np.where(is_bounded, high, 1.0)
    return ((low + high) / 2.0).reshape(size), np.minimum((high - low) / 2.0, 1.0).reshape(size)


def _unit(size: int) -> tuple[Vector, Vector]:
    return np.zeros(size), np.ones(size)


def _joined(parts: list[tuple[Vector, Vector]]) -> tuple[Vector, Vector]:
    return np.concatenate([mean for mean, _ in parts]), np.concatenate([scale for _, scale in parts])
