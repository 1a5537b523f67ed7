"""Changes attributes of an environment that a path names, such as ``gravity`` or ``model.body(torso).mass``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

# A name, then perhaps a name in parentheses (what MuJoCo's models call their bodies), then perhaps an index.
PART: Final = re.compile(r"(\w+)(?:\(([^()]+)\))?(?:\[([^\[\]]+)\])?")
SPLIT: Final = re.compile(r"\.(?![^(\[]*[)\]])")

Index = tuple[int | slice, ...]


@dataclass
class Place:
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


def find_places(env: Any, path: str) -> list[Place]:
    """Return the places that a path names, starting from ``env``; an index with a colon into a list names several.

    Raises:
        ValueError: There is no such attribute.
    """
    holders, parts = [env], SPLIT.split(path)
    places: list[Place] = []
    for number, part in enumerate(parts):
        match = PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{path!r} is not a path of attributes: {part!r}")
        name, argument, index = match[1], match[2], parse_index(match[3] or "")
        try:
            if number == len(parts) - 1:
                places = [Place(holder, name, index) for holder in holders]
                for place in places:
                    place.read()
            else:
                holders = [thing for holder in holders for thing in _below(holder, name, argument, index)]
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise ValueError(f"the environment has no {path!r}: {error}") from error
    return places


def _below(holder: Any, name: str, argument: str | None, index: Index) -> Iterator[Any]:
    thing = Place(holder, name, ()).read()
    if argument is not None:
        thing = thing(argument)
    if not index:
        yield thing
    elif isinstance(index[0], slice):
        yield from thing[index[0]]
    else:
        yield thing[index[0]]
