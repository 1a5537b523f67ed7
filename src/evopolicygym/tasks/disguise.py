"""The disguise of a task: what policy and agent see of it, drawn from a secret key, and the exact way back.

Dicts and tuples are flattened; arrays of one type are joined into one vector (``disguise_parts.Numbers``); pictures,
grids, codes and words stay apart, with other values (``disguise_codes``). It works for any space that can be played.
Nothing here needs more than numpy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from evopolicygym.tasks.disguise_codes import GRID, NUMBERS, PICTURE, Cells, Codes, Words, kind_of
from evopolicygym.tasks.disguise_parts import Draws, Leaf, Numbers, Part

Space = dict[str, Any]
DISGUISE_VERSION: Final = 3  # of what a key makes; scores under another one are not comparable
WHOLE: Final = "observation"  # the name of an observation that is one array
KeyPath = tuple[Any, ...]  # keys and indices that lead to a leaf


class Disguise:
    """The disguise of one task under one key. ``undo_observation`` and ``undo_action`` are the inverses: a policy for
    the plain task plays the disguised one with ``undo_action(policy.act(undo_observation(observation)))``."""

    def __init__(self, key: bytes, observation: Space, action: Space, kinds: Mapping[str, str] | None = None) -> None:
        """``kinds`` says of observed arrays, by their keys joined with dots, what they are: see ``kind_of``. Raises
        ValueError if it does not fit the observation."""
        self._observation = DisguisedSpace(Draws(key, "observation"), observation, kinds or {}, for_action=False)
        self._action = DisguisedSpace(Draws(key, "action"), action, {}, for_action=True)
        self.obs_space, self.action_space = self._observation.space, self._action.space

    def observation(self, native: Any) -> Any:
        return self._observation.show(native)

    def action(self, visible: Any) -> Any:
        return self._action.read(visible)

    def undo_observation(self, visible: Any) -> Any:
        return self._observation.read(visible)

    def undo_action(self, native: Any) -> Any:
        return self._action.show(native)


class DisguisedSpace:
    """One space in disguise. A single array or code is shown as it is; several are a Dict with keys ``x0``, ``x1``."""

    def __init__(self, draws: Draws, own: Space, kinds: Mapping[str, str], for_action: bool) -> None:
        self._own = own
        leaves = dict(_leaves(own))
        self._paths = list(leaves)
        if unknown := set(kinds) - set(map(_name, leaves)):
            raise ValueError(f"an observation has no part {sorted(unknown)[0]!r}; it has {sorted(map(_name, leaves))}")
        groups = _groups(leaves, kinds)
        self._parts = [(_part(draws, group, kinds, for_action), [path for path, _ in group]) for group in groups]
        spaces = [space for part, _ in self._parts for space in part.spaces]
        order = draws.shuffled(range(len(spaces)))
        self._names = [f"x{order.index(number)}" for number in range(len(spaces))]
        self._is_single = len(spaces) == 1
        named = {f"x{position}": spaces[number] for position, number in enumerate(order)}
        self._order = list(named)
        self.space = spaces[0] if self._is_single else {"type": "Dict", "spaces": named}

    def show(self, own: Any) -> Any:
        values = [value for part, paths in self._parts for value in part.show([_get(own, path) for path in paths])]
        if self._is_single:
            return values[0]
        named = dict(zip(self._names, values, strict=True))
        return {name: named[name] for name in self._order}

    def read(self, shown: Any) -> Any:
        values = [shown] if self._is_single else [shown[name] for name in self._names]
        own: dict[KeyPath, Any] = {}
        for part, paths in self._parts:
            count = len(part.spaces)
            own |= zip(paths, part.read(values[:count]), strict=True)
            values = values[count:]
        return own[()] if self._paths == [()] else _build(self._own, own)


def _leaves(space: Space, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Leaf]]:
    if space["type"] not in ("Dict", "Tuple"):
        yield path, space
        return
    spaces = space["spaces"]
    for key, child in spaces.items() if isinstance(spaces, Mapping) else enumerate(spaces):
        yield from _leaves(child, (*path, key))


def _groups(leaves: dict[KeyPath, Leaf], kinds: Mapping[str, str]) -> list[list[tuple[KeyPath, Leaf]]]:
    """Return the leaves by the parts that show them: vectors of one type together, all others alone."""
    groups: dict[Any, list[tuple[KeyPath, Leaf]]] = {}
    for path, leaf in leaves.items():
        is_vector = leaf["type"] in ("Box", "MultiBinary") and _kind((path, leaf), kinds) == NUMBERS
        groups.setdefault(f"{leaf['type']} {leaf['dtype']}" if is_vector else path, []).append((path, leaf))
    return list(groups.values())


def _name(path: KeyPath) -> str:
    return ".".join(map(str, path)) or WHOLE


def _kind(item: tuple[KeyPath, Leaf], kinds: Mapping[str, str]) -> str:
    path, leaf = item
    kind = kinds.get(_name(path), kind_of(leaf))
    if kind != NUMBERS and len(leaf.get("shape", ())) not in (2, 3):
        raise ValueError(f"{_name(path)} is no {kind}: it has not two or three dimensions")
    return kind


def _part(draws: Draws, group: list[tuple[KeyPath, Leaf]], kinds: Mapping[str, str], for_action: bool) -> Part:
    leaf, kind = group[0][1], _kind(group[0], kinds)
    if leaf["type"] == "Text":
        return Words(draws, leaf)
    if leaf["type"] in ("Discrete", "MultiDiscrete"):
        return Codes(draws, leaf)
    if kind in (GRID, PICTURE) and not for_action:
        return Cells(draws, leaf, kind)
    return Numbers(draws, [leaf for _, leaf in group], for_action)


def _get(value: Any, path: KeyPath) -> Any:
    for key in path:
        value = value[key]
    return value


def _build(space: Space, values: dict[KeyPath, Any], path: KeyPath = ()) -> Any:
    if space["type"] == "Dict":
        return {key: _build(child, values, (*path, key)) for key, child in space["spaces"].items()}
    if space["type"] == "Tuple":
        return tuple(_build(child, values, (*path, number)) for number, child in enumerate(space["spaces"]))
    return values[path]
