"""Compare stock and fast environments bit for bit, on the same seeds and actions."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from evopolicygym.fast.catalogue import upgrade

# From a generator, the observation and the step: an action. Streams are deterministic given the generator's seed.
Stream = Callable[[np.random.Generator, Any, int], Any]
UNSEEDED_INFO = {"action"}  # highway-env's reset reports an unseeded random action


def pair(env_id: str, requires: tuple[str, ...] = (), **options: Any) -> tuple[Any, Any]:
    for module in requires:
        importlib.import_module(module)
    stock, fast = (gymnasium.make(env_id, disable_env_checker=True, **options) for _ in range(2))
    assert upgrade(fast), f"{env_id} was not upgraded"
    return stock, fast


class Oracle:
    """A stream of competent actions: those of a hand-written policy of tests/oracles."""

    def __init__(self, slug: str) -> None:
        path = Path(__file__).parents[1] / "oracles" / slug / "policy.py"
        spec = importlib.util.spec_from_file_location("oracle", path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.policy = module.Policy()

    def __call__(self, rng: np.random.Generator, observation: Any, t: int) -> Any:
        if t == 0:
            self.policy.reset(0)
        return self.policy.act(observation)


def physics(env: Any) -> Any:
    """Return everything that MuJoCo's next steps depend on: positions, velocities, controls, the solver's start, and
    more."""
    import mujoco

    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(env.model, kind))
    mujoco.mj_getState(env.model, env.data, state, kind)
    return state


def same(expected: Any, actual: Any, where: str) -> None:
    """Check that two values are equal to the bit, recursively; NaN equals NaN of the same bits."""
    assert type(expected) is type(actual), f"{where}: {type(expected)} and {type(actual)}"
    if isinstance(expected, Mapping):
        assert list(expected) == list(actual), where
        for key in expected:
            same(expected[key], actual[key], f"{where}[{key!r}]")
    elif isinstance(expected, tuple | list):
        assert len(expected) == len(actual), where
        for i, (left, right) in enumerate(zip(expected, actual, strict=True)):
            same(left, right, f"{where}[{i}]")
    elif isinstance(expected, np.ndarray):
        assert expected.dtype == actual.dtype and expected.shape == actual.shape, where
        assert expected.tobytes() == actual.tobytes(), f"{where}: {expected} and {actual}"
    elif isinstance(expected, float | np.floating):
        assert float(expected).hex() == float(actual).hex() or (math.isnan(expected) and math.isnan(actual)), (
            f"{where}: {expected} {actual}"
        )
    else:
        assert expected == actual, f"{where}: {expected!r} and {actual!r}"


def certify(
    env_id: str,
    stream: Stream,
    seed: int,
    horizon: int,
    requires: tuple[str, ...] = (),
    reuse: tuple[Any, Any] | None = None,
) -> int:
    """Play and compare one episode; return its length. ``reuse``: environments that have played before, to be reset."""
    stock, fast = reuse or pair(env_id, requires)
    rng = np.random.default_rng(seed)
    (expected, expected_info), (actual, actual_info) = stock.reset(seed=seed), fast.reset(seed=seed)
    same(expected, actual, "reset observation")
    same(_recorded(expected_info), _recorded(actual_info), "reset info")
    for t in range(horizon):
        action = stream(rng, expected, t)
        expected_step, actual_step = stock.step(action), fast.step(action)
        for name, left, right in zip(
            ("observation", "reward", "terminated", "truncated"), expected_step, actual_step, strict=False
        ):
            same(left, right, f"step {t} {name}")
        same(_recorded(expected_step[4]), _recorded(actual_step[4]), f"step {t} info")
        expected = expected_step[0]
        if expected_step[2] or expected_step[3]:
            break
    state = (env.unwrapped.np_random.bit_generator.state for env in (stock, fast))
    same(*state, "random state")
    return t + 1


def _recorded(info: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in info.items() if key not in UNSEEDED_INFO}
