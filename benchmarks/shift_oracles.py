"""Oracles for shifted tasks: the hand-written policies of tests/oracles, told what a key has changed for a run.

Nothing that differs from case to case is told. Actions are turned back into what the plain oracle means by them, hidden
velocities come from differences, and some of the oracle's constants are tuned by a search on the shifted simulator.
"""

from __future__ import annotations

import importlib.util
import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from evopolicygym.tasks.shift import ShiftDraw, ShiftKind, draw_shift
from evopolicygym.tasks.shifted_env import parse_index
from evopolicygym.tasks.task import Task

ORACLES = Path(__file__).parents[1] / "tests" / "oracles"
TARGETS: dict[str, Any] = tomllib.loads((ORACLES / "targets.toml").read_text())

# Constants of each oracle that the search may change.
TUNED: dict[str, tuple[str, ...]] = {
    "mountain-car-continuous": ("PUSH",),
    "bipedal-walker": (
        "SWING_HIP", "SWING_KNEE", "CARRY_HIP", "CARRY_KNEE", "HIP_SPRING", "HIP_DAMPER", "KNEE_SPRING", "KNEE_DAMPER",
        "TILT_GAIN", "TILT_RATE_GAIN", "SPEED_GAIN", "SPEED",
    ),
    "reacher": ("STIFFNESS", "TORQUE_SCALE"),
    "half-cheetah": ("FREQUENCY", "SIZE", "PHASE", "OFFSET", "PITCH_GAIN", "PITCH_RATE_GAIN"),
    "ant": ("FREQUENCY", "SPRING", "DAMPER", "SIZE", "PHASE", "OFFSET", "HEADING_GAIN"),
    "pusher": ("WEIGHTS",),
    "fetch-push": ("GAIN", "DRIVE", "STEER", "BEHIND"),
    "fetch-pick-and-place": ("GAIN", "CENTRED", "CLOSING_STEPS"),
}  # fmt: skip
ROAD = np.array([102.0, 102.0, 102.0])
COLOUR_CODES = {"red": 0, "green": 1, "blue": 2, "purple": 3, "yellow": 4, "grey": 5}
KEY_CODE = 5


def load_oracle(slug: str) -> ModuleType:
    """Return a new copy of an oracle's module, so that its constants can be changed."""
    path = ORACLES / TARGETS[slug]["folder"] / "policy.py"
    spec = importlib.util.spec_from_file_location(f"oracle_{slug.replace('-', '_')}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class AdaptedOracle:
    """A plain oracle behind the inverse of what a key changes for a whole run."""

    def __init__(self, task: Task, policy: Any, action_space: Any) -> None:
        self.policy, self.space = policy, action_space
        self.slug = task.id.partition("/")[2]
        run_draws = [draw for draw in draw_shift(task.shift, task.view.key, None) if draw.parameter.per == "run"]
        self.draws = {draw.parameter.name: draw for draw in run_draws}
        self.inverses = [inverse for draw in reversed(run_draws) if (inverse := _inverse(draw, action_space))]
        self.see: Callable[[Any], Any] = getattr(self, f"_see_{self.slug.replace('-', '_')}", self._see)
        if TARGETS[self.slug]["folder"] == "minigrid":
            self.see = self._see_minigrid
            self.key_codes = self._key_codes()
        self.before: Any = None
        self.direction = 0

    def reset(self, episode_index: int) -> None:
        self.policy.reset(episode_index)
        self.before, self.direction = None, 0

    def act(self, obs: Any) -> Any:
        action = self.policy.act(self.see(obs))
        if TARGETS[self.slug]["folder"] == "minigrid":
            self.direction = (self.direction + {0: -1, 1: 1}.get(action, 0)) % 4
        for inverse in self.inverses:
            action = inverse(action)
        return action

    def _see(self, obs: Any) -> Any:
        return obs

    def _see_acrobot(self, obs: Any) -> Any:
        angles = np.array([math.atan2(obs[1], obs[0]), math.atan2(obs[3], obs[2])])
        return np.concatenate([obs[:4], self._rates(angles) / 0.2])

    def _see_reacher(self, obs: Any) -> Any:
        angles = np.array([math.atan2(obs[2], obs[0]), math.atan2(obs[3], obs[1])])
        return np.concatenate([obs[:6], self._rates(angles) / 0.02, obs[8:]])

    def _rates(self, angles: Any) -> Any:
        turned = np.zeros(2) if self.before is None else np.remainder(angles - self.before + np.pi, 2 * np.pi) - np.pi
        self.before = angles
        return turned

    def _see_mountain_car_continuous(self, obs: Any) -> Any:
        """The mean velocity of the last steps: one difference is mostly noise where the car turns."""
        self.before = [*(self.before or [])[-4:], float(obs[0])]
        return np.array([obs[0], (self.before[-1] - self.before[0]) / max(1, len(self.before) - 1)])

    def _see_roundabout(self, obs: Any) -> Any:
        scales = self.draws["scale of positions"]
        return np.asarray(obs) * np.array([1.0, scales.number(path=0), scales.number(path=1), 1.0, 1.0])

    def _see_car_racing(self, obs: Any) -> Any:
        """Paint pixels of about the shifted road's colour in the plain one."""
        red, blue = (self.draws[name].number() for name in ("road red", "road blue"))
        near = np.abs(obs[:84].astype(float) - ROAD * [red, 1.0, blue]).max(axis=2) < 20.0
        seen = obs.copy()
        seen[:84][near] = ROAD
        return seen

    def _key_codes(self) -> list[int]:
        """Return, by the code of a key's colour, the code of the colour of its door."""
        from evopolicygym.tasks.shift_minigrid import COLOURS

        codes = list(range(len(COLOURS)))
        if "key colours" in self.draws:
            for door, key in enumerate(self.draws["key colours"].order(len(COLOURS))):
                codes[COLOUR_CODES[COLOURS[key]]] = COLOUR_CODES[COLOURS[door]]
        return codes

    def _see_minigrid(self, obs: Any) -> Any:
        image = obs["image"].copy()
        keys = image[:, :, 0] == KEY_CODE
        image[keys, 1] = np.array(self.key_codes, dtype=image.dtype)[image[keys, 1]]
        return {**obs, "image": image, "direction": self.direction}


def _inverse(draw: ShiftDraw, space: Any) -> Callable[[Any], Any] | None:
    """Return what turns an action of the plain task into the one that now does the same."""
    index = parse_index(draw.parameter.entries)
    kind = draw.parameter.kind
    if kind is ShiftKind.ACTION_ORDER:
        places = np.arange(int(space.n) if hasattr(space, "n") else space.shape[0])
        places[index] = places[index][draw.order(len(places[index]))]
        back = np.argsort(places)
        return (lambda action: int(back[action])) if hasattr(space, "n") else (lambda action: np.asarray(action)[back])
    if kind not in (ShiftKind.ACTION_SIGN, ShiftKind.ACTION_GAIN):
        return None
    factor = np.ones(space.shape, space.dtype)
    size = factor[index].size
    numbers = draw.signs(size) if kind is ShiftKind.ACTION_SIGN else [draw.number(entry) for entry in range(size)]
    factor[index] = np.reshape(numbers, factor[index].shape)
    return lambda action: np.clip(np.asarray(action) / factor, space.low, space.high).astype(space.dtype)


def told_constants(task: Task, module: Any) -> None:
    """Set the oracle's constants that a key changes for a whole run and that it could measure."""
    slug = task.id.partition("/")[2]
    draws = {draw.parameter.name: draw for draw in draw_shift(task.shift, task.view.key, None)}
    if slug == "parking":
        module.FULL_THROTTLE *= draws["acceleration"].number()
        module.FULL_STEERING *= draws["steering angle"].number()
    elif slug == "reacher":
        module.UPPER *= draws["arm lengths"].number(path=0)
        module.FORE *= draws["arm lengths"].number(path=1)
        module.TORQUE_SCALE *= 0.5 * (draws["motor gain"].number(0) + draws["motor gain"].number(1))


def tune(slug: str, module: ModuleType, score: Callable[[], float], candidates: int, seed: int) -> float:
    """Improve the oracle's constants by a (1+1) evolution strategy. Returns the score on the cases tuned on."""
    random, spread, best = np.random.default_rng(seed), 0.15, score()
    names = TUNED.get(slug, ())
    for _ in range(candidates if names else 0):
        kept = {name: getattr(module, name) for name in names}
        for name in names:
            setattr(module, name, _varied(kept[name], spread, random))
        new = score()
        if new > best:
            best, spread = new, min(0.5, spread * 1.5)
        else:
            spread = max(0.02, spread * 0.93)
            for name, value in kept.items():
                setattr(module, name, value)
    return best


def _varied(value: Any, spread: float, random: np.random.Generator) -> Any:
    """Return a constant changed by a random factor; entries of arrays also by a little of their common size."""
    if isinstance(value, int | float):
        return (
            type(value)(max(1, round(value * math.exp(spread * random.normal()))))
            if isinstance(value, int)
            else value * math.exp(spread * random.normal())
        )
    array = np.asarray(value, dtype=float)
    size = float(np.sqrt(np.mean(array**2))) or 1.0
    entries = array * np.exp(0.5 * spread * random.normal()) + 0.5 * spread * size * random.normal(size=array.shape)
    return entries if isinstance(value, np.ndarray) else tuple(entries.tolist())
