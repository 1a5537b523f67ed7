"""Plays candidates: writes them to the workspace, submits them and reads the recorded episodes."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from ..api_client import ApiClient, RunOver
from .policies.features import Vector, controls_of, entries
from .spaces import Spaces

POLICIES: Final = Path(__file__).parent / "policies"
DELIVERY_S: Final = 20.0  # the verdict can arrive shortly before the feedback
MOST_EPISODES_READ: Final = 2  # of one submission: enough to learn from


@dataclass(frozen=True)
class Candidate:
    """One policy: the file of its family, and the parameters that it reads."""

    policy: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class RecordedEpisode:
    """Row t of ``entries`` is what the policy saw, row t of ``controls`` what it did; ``entries`` has one more row."""

    entries: Vector
    controls: Vector


@dataclass(frozen=True)
class Played:
    """Result of a candidate. ``returns`` in the order of the cases; -inf if the policy did not load."""

    returns: Vector
    episodes: list[RecordedEpisode]

    @property
    def mean(self) -> float:
        return float(self.returns.mean())


class Evaluator(Protocol):
    """Where candidates are tried. ``play`` takes fewer cases where the budget ends, and raises RunOver at its end."""

    left: int

    def play(self, candidate: Candidate, cases: list[int]) -> Played: ...


class ApiEvaluator:
    """The real one. The budget is what the run began with: on a new start the same answers come again."""

    def __init__(self, api: ApiClient, spaces: Spaces, budget: int) -> None:
        self._api, self._spaces, self.left = api, spaces, budget

    def play(self, candidate: Candidate, cases: list[int]) -> Played:
        if self.left == 0:
            raise RunOver("the budget is spent")
        affordable = cases[: self.left]
        write(candidate, self._api.system)
        reply = self._api.submit(affordable)
        self.left = reply.remaining
        print(
            f"{reply.submit_id}: {candidate.policy} {reply.status} {list(reply.returns)}, {self.left} left", flush=True
        )
        returns = np.array(reply.returns) if reply.returns else np.full(len(affordable), -np.inf)
        return Played(returns, self._episodes(reply.submit_id))

    def _episodes(self, submit_id: str) -> list[RecordedEpisode]:
        folder = self._api.feedback / submit_id
        began = time.monotonic()
        while not (folder / "summary.json").exists() and time.monotonic() - began < DELIVERY_S:
            time.sleep(0.02)
        paths = sorted((folder / "episodes").glob("ep_*"))[:MOST_EPISODES_READ]
        return [read(path, self._spaces) for path in paths]


def write(candidate: Candidate, system: Path) -> None:
    system.mkdir(exist_ok=True)
    (system / "policy.py").write_bytes((POLICIES / f"{candidate.policy}.py").read_bytes())
    (system / "features.py").write_bytes((POLICIES / "features.py").read_bytes())
    (system / "parameters.json").write_text(json.dumps(candidate.settings, indent=1) + "\n")


def read(folder: Path, spaces: Spaces) -> RecordedEpisode:
    """Large arrays of a trajectory are rows in a file beside it. There is none where the simulator's process died."""
    trajectory = folder / "trajectory.jsonl"
    lines = [json.loads(line) for line in trajectory.read_text().splitlines()] if trajectory.exists() else []
    archive = folder / "observations.npz"
    arrays = dict(np.load(archive)) if archive.exists() else {}
    seen = [entries(spaces.observation, _whole(line["obs"], arrays)) for line in lines]
    done = [controls_of(spaces.action, line["action"]) for line in lines if "action" in line]
    return RecordedEpisode(np.array(seen), np.array(done))


def _whole(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_whole(child, arrays) for child in value]
    if not isinstance(value, dict):
        return value
    if "npz" in value:
        return arrays[value["npz"]][value["row"]]
    return {key: _whole(child, arrays) for key, child in value.items()}
