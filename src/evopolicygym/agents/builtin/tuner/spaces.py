"""Observation and action space of a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .policies.features import entry_names, width


@dataclass(frozen=True)
class Spaces:
    """The two spaces, as the API describes them."""

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
        return any(name.endswith("block") for name, _ in self.names)

    @property
    def names(self) -> list[tuple[str, str]]:
        """Name and unit of each entry of an observation."""
        return entry_names(self.observation)
