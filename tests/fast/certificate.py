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


def same(one: Any, other: Any, where: str) -> None:
    """Check that two values are equal to the bit, recursively; NaN equals NaN of the same bits."""
    assert type(one) is type(other), f"{where}: {type(one)} and {type(other)}"
    if isinstance(one, Mapping):
        assert list(one) == list(other), where
        for key in one:
            same(one[key], other[key], f"{where}[{key!r}]")
    elif isinstance(one, tuple | list):
        assert len(one) == len(other), where
        for i, (left, right) in enumerate(zip(one, other, strict=True)):
            same(left, right, f"{where}[{i}]")
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype and one.shape == other.shape, where
        assert one.tobytes() == other.tobytes(), f"{where}: {one} and {other}"
    elif isinstance(one, float | np.floating):
        assert float(one).hex() == float(other).hex() or (math.isnan(one) and math.isnan(other)), (
            f"{where}: {one} {other}"
        )
    else:
        assert one == other, f"{where}: {one!r} and {other!r}"


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
    (one, info_one), (other, info_other) = stock.reset(seed=seed), fast.reset(seed=seed)
    same(one, other, "reset observation")
    same(_recorded(info_one), _recorded(info_other), "reset info")
    for t in range(horizon):
        action = stream(rng, one, t)
        step_one, step_other = stock.step(action), fast.step(action)
        for name, left, right in zip(
            ("observation", "reward", "terminated", "truncated"), step_one, step_other, strict=False
        ):
            same(left, right, f"step {t} {name}")
        same(_recorded(step_one[4]), _recorded(step_other[4]), f"step {t} info")
        one = step_one[0]
        if step_one[2] or step_one[3]:
            break
    state = (env.unwrapped.np_random.bit_generator.state for env in (stock, fast))
    same(*state, "random state")
    return t + 1


def _recorded(info: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in info.items() if key not in UNSEEDED_INFO}
