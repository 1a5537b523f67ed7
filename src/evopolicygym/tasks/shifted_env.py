"""An environment with shifted rules: attributes change around a reset, actions and observations in each step."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import gymnasium
import numpy as np

from evopolicygym.errors import UserError
from evopolicygym.tasks.shift import ShiftDraw, ShiftKind, ShiftParameter, draw_shift
from evopolicygym.tasks.task import Task

Change = Callable[[Any], Any]
Index = tuple[int | slice, ...]

# A name, then perhaps a name in parentheses (what MuJoCo's models call their bodies), then perhaps an index.
PART: Final = re.compile(r"(\w+)(?:\(([^()]+)\))?(?:\[([^\[\]]+)\])?")
SPLIT: Final = re.compile(r"\.(?![^(\[]*[)\]])")
OF_MINIGRID = (ShiftKind.KEY_COLOURS, ShiftKind.DOOR_TOGGLES, ShiftKind.LAYOUT)


def apply_shift(env: Any, task: Task) -> Any:
    """Return the environment with the shifted rules of the task's view.

    Raises:
        UserError: The task's shift does not fit the environment.
    """
    try:
        return ShiftedEnv(env, task)
    except (ValueError, TypeError, IndexError, ImportError) as error:
        raise UserError(f"the shift of {task.id} does not fit its environment: {error}") from error


class ShiftedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Wraps a new environment. Every reset draws the values of its case; the spaces stay as they are."""

    def __init__(self, env: Any, task: Task) -> None:
        super().__init__(env)
        self._shift, self._key = task.shift, task.view.key
        self._originals = [
            (parameter.name, number, target, target.copy())
            for parameter in task.shift
            if parameter.kind is ShiftKind.ATTRIBUTE and not parameter.after_reset
            for number, path in enumerate(parameter.paths)
            for target in find_values(env.unwrapped, path)
        ]
        self._actions: list[Change] = []
        self._observations: list[Change] = []
        self._pending: deque[Any] = deque()
        self._prepare(None)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        draws = self._prepare(seed)
        self._change_before_reset(draws)
        observation, info = self.env.reset(seed=seed, options=options)
        for draw in draws.values():
            if draw.parameter.kind is ShiftKind.ATTRIBUTE and draw.parameter.after_reset:
                for number, path in enumerate(draw.parameter.paths):
                    for target in find_values(self.env.unwrapped, path):
                        _change(target, target.copy(), draw, number)
        if any(parameter.kind in OF_MINIGRID for parameter in self._shift):
            observation = self._change_minigrid(draws)
        return self._observe(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        for change in self._actions:
            action = change(action)
        if self._pending:
            self._pending.append(action)
            action = self._pending.popleft()
        observation, reward, terminated, truncated, info = self.env.step(action)
        info.pop("action", None)  # highway-env reports what it was given, which would tell what actions mean
        return self._observe(observation), reward, terminated, truncated, info

    def _observe(self, observation: Any) -> Any:
        for change in self._observations:
            observation = change(observation)
        return observation

    def _prepare(self, seed: int | None) -> dict[str, ShiftDraw]:
        """Draw the values of a case, and make what changes its actions and observations."""
        draws = {draw.parameter.name: draw for draw in draw_shift(self._shift, self._key, seed)}
        self._actions = [change for draw in draws.values() if (change := _action_change(draw, self.action_space))]
        self._observations = [
            change for draw in draws.values() if (change := _observation_change(draw, self.observation_space))
        ]
        self._pending = deque(
            _neutral(self.action_space, draw.parameter)
            for draw in draws.values()
            if draw.parameter.kind is ShiftKind.ACTION_DELAY
            for _ in range(int(draw.number()))
        )
        return draws

    def _change_before_reset(self, draws: dict[str, ShiftDraw]) -> None:
        for _, _, target, original in self._originals:
            target.write(original, lambda value, _entry: value)
        for name, number, target, _ in self._originals:
            _change(target, target.copy(), draws[name], number)
        model = getattr(self.unwrapped, "model", None)
        if self._originals and type(model).__name__ == "MjModel":
            import mujoco

            mujoco.mj_setConst(model, mujoco.MjData(model))  # what MuJoCo derives from masses and positions

    def _change_minigrid(self, draws: dict[str, ShiftDraw]) -> Any:
        from evopolicygym.tasks.shift_minigrid import COLOURS, change_rules

        by_kind = {draw.parameter.kind: draw for draw in draws.values()}
        keys = by_kind.get(ShiftKind.KEY_COLOURS)
        toggles, layout = by_kind.get(ShiftKind.DOOR_TOGGLES), by_kind.get(ShiftKind.LAYOUT)
        return change_rules(
            self.unwrapped,
            keys.order(len(COLOURS)) if keys else None,
            int(toggles.number()) if toggles else 1,
            int(layout.number()) if layout else 0,
        )


def _change(target: EnvValue, original: Any, draw: ShiftDraw, number: int) -> None:
    """Change a value that the path with this number names."""
    by = draw.parameter.by

    def changed(value: Any, entry: int) -> Any:
        drawn = draw.number(entry, number)
        return value * drawn if by == "factor" else value + drawn if by == "added" else drawn

    target.write(original, changed)


def _action_change(draw: ShiftDraw, space: Any) -> Change | None:
    parameter = draw.parameter
    if parameter.kind is ShiftKind.ACTION_ORDER:
        return _reordered(draw, space)
    if parameter.kind not in (ShiftKind.ACTION_SIGN, ShiftKind.ACTION_GAIN, ShiftKind.ACTION_OFFSET):
        return None
    if not isinstance(space, gymnasium.spaces.Box):
        raise ValueError(f"shift {parameter.name}: the kind {parameter.kind} needs a Box action space")
    factor, offset = np.ones(space.shape, space.dtype), np.zeros(space.shape, space.dtype)
    index = parse_index(parameter.entries)
    size = factor[index].size
    if parameter.kind is ShiftKind.ACTION_SIGN:
        factor[index] = np.reshape(draw.signs(size), factor[index].shape)
    else:
        numbers = np.reshape([draw.number(entry) for entry in range(size)], factor[index].shape)
        (factor if parameter.kind is ShiftKind.ACTION_GAIN else offset)[index] = numbers
    low, high = space.low, space.high
    return lambda action: np.clip(action * factor + offset, low, high)


def _reordered(draw: ShiftDraw, space: Any) -> Change:
    index = parse_index(draw.parameter.entries)
    if isinstance(space, gymnasium.spaces.Discrete):
        values = np.arange(int(space.n))
        values[index] = values[index][draw.order(len(values[index]))]
        meanings, start = values.tolist(), int(space.start)
        return lambda action: start + meanings[int(action) - start]
    if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
        values = np.arange(space.shape[0])
        values[index] = values[index][draw.order(len(values[index]))]
        return lambda action: np.asarray(action)[values]
    raise ValueError(f"shift {draw.parameter.name}: the kind action_order needs a Discrete or a flat Box action space")


def _neutral(space: Any, parameter: ShiftParameter) -> Any:
    """Return what is carried out before the first delayed action: zero, or the action that the task names."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(space.start) + parameter.neutral
    if isinstance(space, gymnasium.spaces.Box):
        return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
    raise ValueError(f"shift {parameter.name}: the kind {parameter.kind} needs a Discrete or a Box action space")


def _observation_change(draw: ShiftDraw, space: Any) -> Change | None:
    parameter = draw.parameter
    if parameter.kind not in (ShiftKind.OBSERVATION_NOISE, ShiftKind.OBSERVATION_MASK):
        return None
    if not parameter.keys:
        return _array_change(draw, space)
    children = space.spaces if isinstance(space, gymnasium.spaces.Dict) else {}
    if not set(parameter.keys) <= set(children):
        raise ValueError(f"shift {parameter.name}: the observation has no entries {', '.join(parameter.keys)}")
    changes = {key: _array_change(draw, children[key]) for key in parameter.keys}
    return lambda observation: {
        name: changes[name](value) if name in changes else value for name, value in observation.items()
    }


def _array_change(draw: ShiftDraw, space: Any) -> Change:
    index = parse_index(draw.parameter.entries)
    if isinstance(space, gymnasium.spaces.Discrete) and draw.parameter.kind is ShiftKind.OBSERVATION_MASK:
        return lambda value: type(value)(space.start)
    if not isinstance(space, gymnasium.spaces.Box):
        raise ValueError(f"shift {draw.parameter.name}: keys must name arrays, or numbers to mask")
    np.zeros(space.shape)[index]  # raises if there are no such entries
    if draw.parameter.kind is ShiftKind.OBSERVATION_MASK:
        return _mask(index)
    return _noise(index, draw.number(), np.random.Generator(np.random.PCG64(draw.noise_seed())), space)


def _mask(index: Any) -> Change:
    def masked(value: Any) -> Any:
        hidden = value.copy()
        hidden[index] = 0
        return hidden

    return masked


def _noise(index: Any, spread: float, random: np.random.Generator, space: Any) -> Change:
    """Return a change that stays within the space: policies may rely on its bounds."""

    def noisy(value: Any) -> Any:
        changed = np.array(value, dtype=float)
        noise = spread * random.standard_normal(changed[index].shape)
        changed[index] = np.clip(changed[index] + noise, space.low[index], space.high[index])
        return changed.astype(value.dtype)

    return noisy


@dataclass
class EnvValue:
    """A value in an environment that can be read and replaced."""

    holder: Any
    name: str
    index: Index

    def read(self) -> Any:
        return self.holder[self.name] if isinstance(self.holder, dict) else getattr(self.holder, self.name)

    def copy(self) -> Any:
        """Return the value, independent of later changes."""
        value = self.read()
        return value.copy() if isinstance(value, np.ndarray) else value

    def write(self, original: Any, change: Callable[[Any, int], Any]) -> None:
        """Replace the value by the original with ``change`` applied to the entries in question."""
        if not isinstance(original, np.ndarray) and not hasattr(original, "__len__"):
            self._set(change(original, 0))
            return
        numbers = np.array(original, dtype=float)
        chosen = numbers[self.index]
        flat = [change(number, entry) for entry, number in enumerate(np.ravel(chosen).tolist())]
        numbers[self.index] = np.reshape(flat, np.shape(chosen))
        if isinstance(original, np.ndarray):
            if self.read() is getattr(type(self.holder), self.name, None):  # of the class, and so of every environment
                self._set(original.copy())
            self.read()[...] = numbers
        else:
            self._set(type(original)(numbers.tolist()) if isinstance(original, list | tuple) else numbers.tolist())

    def _set(self, value: Any) -> None:
        if isinstance(self.holder, dict):
            self.holder[self.name] = value
        else:
            setattr(self.holder, self.name, value)


def parse_index(text: str) -> Index:
    """Return the index that numpy writes so: ``3``, ``4:6``, ``:, 0``; an empty text means all."""
    if not text.strip():
        return ()
    return tuple(_one_index(part.strip()) for part in text.split(","))


def _one_index(text: str) -> int | slice:
    if ":" not in text:
        return int(text)
    return slice(*(int(end) if end.strip() else None for end in text.split(":")))


def find_values(env: Any, path: str) -> list[EnvValue]:
    """Return the values that a path names, starting from ``env``; an index with a colon into a list names several.

    Raises:
        ValueError: There is no such attribute.
    """
    holders, parts = [env], SPLIT.split(path)
    values: list[EnvValue] = []
    for number, part in enumerate(parts):
        match = PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{path!r} is not a path of attributes: {part!r}")
        name, argument, index = match[1], match[2], parse_index(match[3] or "")
        try:
            if number == len(parts) - 1:
                values = [EnvValue(holder, name, index) for holder in holders]
                for target in values:
                    target.read()
            else:
                holders = [child for holder in holders for child in _below(holder, name, argument, index)]
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise ValueError(f"the environment has no {path!r}: {error}") from error
    return values


def _below(holder: Any, name: str, argument: str | None, index: Index) -> Iterator[Any]:
    child = EnvValue(holder, name, ()).read()
    if argument is not None:
        child = child(argument)
    if not index:
        yield child
    elif isinstance(index[0], slice):
        yield from child[index[0]]
    else:
        yield child[index[0]]
