"""Toy environments for tests: real ones, made and stepped by real workers (ids `toys:NAME-v0`)."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Toy(gymnasium.Env):
    """Ten steps; the observation is the step and a number drawn from the seed; the reward is the action."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space: Any = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space: Any = spaces.Discrete(3)
    length = 10

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.luck = float(self.np_random.random())
        return self.observe(), {}

    def observe(self) -> Any:
        return np.array([self.steps, self.luck])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.observe(), self.pay(action), self.steps >= self.length, False, {}

    def pay(self, action: Any) -> float:
        return float(action) + self.luck

    def render(self) -> Any:
        frame = np.zeros((33, 47, 3), np.uint8)
        frame[: 3 * self.steps + 1] = 255
        return frame


class Endless(Toy):
    """Never ends by itself."""

    length = 10**9


class Raising(Toy):
    """Raises whenever action 2 is played."""

    def pay(self, action: Any) -> float:
        if action == 2:
            raise ArithmeticError("the toy cannot take a 2")
        return super().pay(action)


class Altering(Raising):
    """Alters the actions that it is given, and raises whenever the first number of one is above 0.5."""

    action_space: Any = spaces.Box(-1.0, 1.0, (2,), np.float64)

    def pay(self, action: Any) -> float:
        if action[0] > 0.5:
            action[:] = 0.0
            raise ArithmeticError("the toy cannot take so much")
        action[:] = 1.0
        return self.luck


class Importing(Toy):
    """Needs a package only when it is stepped, as simulators do that draw or plan on demand."""

    def pay(self, action: Any) -> float:
        import a_package_that_nobody_has  # type: ignore[import-not-found]

        return float(a_package_that_nobody_has.pay(action))


class Flaky(Toy):
    """Raises the very first time and never again; a marker file remembers."""

    def pay(self, action: Any) -> float:
        try:
            Path(os.environ["TOY_MARKER"]).touch(exist_ok=False)  # of two workers at once, one is the first
        except FileExistsError:
            return super().pay(action)
        raise ArithmeticError("only once")


class Moody(Toy):
    """While the file TOY_MOOD exists, raises every other time: repeating the actions does not repeat the error."""

    def pay(self, action: Any) -> float:
        mood = Path(os.environ["TOY_MOOD"])
        if mood.exists() and (content := mood.read_text()) != "better":
            mood.write_text("better")
            raise ArithmeticError(f"a mood {content}")
        if mood.exists() and self.steps == self.length:
            mood.write_text("bad")
        return super().pay(action)


class Aborting(Toy):
    """Aborts its process whenever action 2 is played."""

    def pay(self, action: Any) -> float:
        if action == 2:
            os.abort()
        return super().pay(action)


class NotANumber(Toy):
    def pay(self, action: Any) -> float:
        return float("nan")


class Huge(Toy):
    """Each reward is finite, and the sum of two is not."""

    def pay(self, action: Any) -> float:
        return 1.7e308


class Misshapen(Toy):
    """After the first observation, returns observations of another shape than its space has."""

    def observe(self) -> Any:
        return np.zeros(2 if self.steps == 0 else 3)


class Undrawable(Toy):
    def render(self) -> Any:
        raise RuntimeError("no picture today")


class Blank(Toy):
    """Renders nothing, as environments do that were made without a render mode."""

    def render(self) -> Any:
        return None


class Unwritten(Blank):
    """Has no render() of its own."""

    render = gymnasium.Env.render


class Deadly(Toy):
    """Aborts its process whenever it is rendered."""

    def render(self) -> Any:
        os.abort()


class Slow(Toy):
    """A step takes longer than a policy may take for all its answers."""

    def pay(self, action: Any) -> float:
        time.sleep(0.3)
        return super().pay(action)


class Gated(Toy):
    """Waits in each step until the file TOY_GATE exists."""

    def pay(self, action: Any) -> float:
        while not Path(os.environ["TOY_GATE"]).exists():
            time.sleep(0.01)
        return super().pay(action)


class Free(Toy):
    """An action space without bounds."""

    action_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def pay(self, action: Any) -> float:
        return float(np.isfinite(action).all())


class Dials(Toy):
    action_space = spaces.MultiDiscrete([3, 4])


class Levels(Toy):
    """Whole numbers within bounds."""

    action_space = spaces.Box(-5, 5, (2,), np.int32)

    def pay(self, action: Any) -> float:
        return float(action.sum())


class Steering(Toy):
    """Continuous actions; the reward is their sum as the environment gets it."""

    action_space = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 2], np.float32))

    def pay(self, action: Any) -> float:
        assert action.dtype == np.float32 and action.shape == (2,)
        return float(action.sum())


class Telling(Toy):
    """Tells its seed in ``info``, in many forms, beside numbers that may be shown."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.given = seed or 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, _ = super().step(action)
        info = {"x_position": 0.5 * self.steps, "rewards": {"forward": 1.0}, "is_success": self.steps > 5}
        facts = {"place": self.given, "where": [self.given + 1, 2], "half": self.given % 2**32, "text": str(self.given)}
        return observation, reward, terminated, truncated, {**info, **facts, "seed": 3.5, "nested": {"n": self.given}}


class Everything(Toy):
    """Every kind of space that a policy can meet; the reward shows whether the action arrived as it was sent."""

    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (12, 9, 3), np.uint8),
            "word": spaces.Text(12),
            "direction": spaces.Discrete(4, start=-1),
            "switches": spaces.MultiBinary(5),
            "dials": spaces.MultiDiscrete([3, 4]),
            "pair": spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (2, 2), np.float32))),
        }
    )
    action_space = spaces.Dict(
        {
            "gear": spaces.Discrete(4, start=-1),
            "wheel": spaces.Box(-1, 1, (2,), np.float64),
            "switches": spaces.MultiBinary(3),
            "levels": spaces.Box(0, 200, (2,), np.uint8),
            "pair": spaces.Tuple((spaces.Discrete(3), spaces.MultiDiscrete([5, 6]))),
        }
    )

    def observe(self) -> Any:
        image = np.full((12, 9, 3), self.steps, np.uint8)
        pair = (self.steps % 2, np.full((2, 2), 0.5, np.float32))
        return {
            "image": image,
            "word": "step " + "é" * (self.steps % 7),
            "direction": self.steps % 4 - 1,
            "switches": np.array([1, 0, 1, 0, 1], np.int8),
            "dials": np.array([2, 3]),
            "pair": pair,
        }

    def pay(self, action: Any) -> float:
        return float(self.action_space.contains(action)) * float(action["levels"].sum())


class Nested(Toy):
    """Large arrays at every depth, under keys that are no valid file names or that collide."""

    observation_space = spaces.Dict(
        {
            "a/b": spaces.Box(0, 255, (200,), np.uint8),
            "a_b": spaces.Box(0, 255, (200,), np.uint8),
            "../../up": spaces.Box(0, 255, (200,), np.uint8),
            "deep": spaces.Dict({7: spaces.Tuple((spaces.Discrete(30), spaces.Box(0, 99, (300,), np.float32)))}),
        }
    )

    def observe(self) -> Any:
        sides = {key: np.full(200, self.steps + 20 * n, np.uint8) for n, key in enumerate(("a/b", "a_b", "../../up"))}
        return sides | {"deep": {7: (self.steps, np.full(300, self.steps + 0.5, np.float32))}}


class Unmeasured(Toy):
    """Observes NaN and infinities, for which JSON has no numbers."""

    def observe(self) -> Any:
        return np.array([np.nan, (-1) ** self.steps * np.inf])


class Canary(Toy):
    """Every seed has its own two numbers: one in the observations, one in the return. Actions change only the last
    eleven bits of the return, below the canary."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(0, 2047, (1,), np.float64)
    length = 2

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.seen, self.paid = canaries(seed or 0)
        return super().reset(seed=seed, options=options)

    def observe(self) -> Any:
        return np.array([self.steps, self.seen])

    def pay(self, action: Any) -> float:
        return float(action[0]) if self.steps == 1 else self.paid


def canaries(seed: int) -> tuple[float, float]:
    """Return the numbers of a seed, for the observation and the return: large, so that no time or size equals one by
    chance."""
    digest = hashlib.sha256(f"canary {seed}".encode()).digest()
    first, second = (int.from_bytes(digest[part : part + 8], "big") for part in (0, 8))
    return (2**52 + (first >> 12)) / 2**12, float((2**37 + (second >> 27)) << 11)


class Vast(Toy):
    """Observations and pictures that cannot be compressed: 160 MiB and more than 32 MiB."""

    observation_space = spaces.Dict({"image": spaces.Box(0, 255, (1 << 20,), np.uint8), "word": spaces.Text(9)})
    length = 160

    def observe(self) -> Any:
        return {"image": self.np_random.integers(0, 256, 1 << 20, np.uint8), "word": f"{self.steps}"}

    def render(self) -> Any:
        return self.np_random.integers(0, 256, (720, 960, 3), np.uint8)


class Generous(Toy):
    """Pays the reward that it is asked for, once."""

    action_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    length = 1

    def pay(self, action: Any) -> float:
        return float(action[0])


ENVIRONMENTS = {
    "Toy-v0": Toy,
    "Endless-v0": Endless,
    "Raising-v0": Raising,
    "Altering-v0": Altering,
    "Importing-v0": Importing,
    "Flaky-v0": Flaky,
    "Moody-v0": Moody,
    "Aborting-v0": Aborting,
    "NotANumber-v0": NotANumber,
    "Huge-v0": Huge,
    "Misshapen-v0": Misshapen,
    "Undrawable-v0": Undrawable,
    "Blank-v0": Blank,
    "Unwritten-v0": Unwritten,
    "Deadly-v0": Deadly,
    "Slow-v0": Slow,
    "Gated-v0": Gated,
    "Free-v0": Free,
    "Dials-v0": Dials,
    "Levels-v0": Levels,
    "Steering-v0": Steering,
    "Telling-v0": Telling,
    "Everything-v0": Everything,
    "Nested-v0": Nested,
    "Unmeasured-v0": Unmeasured,
    "Canary-v0": Canary,
    "Vast-v0": Vast,
    "Generous-v0": Generous,
}
for _name, _environment in ENVIRONMENTS.items():
    gymnasium.register(_name, entry_point=_environment)
