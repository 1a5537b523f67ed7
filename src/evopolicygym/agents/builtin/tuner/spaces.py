"""The spaces of a task: what is known before the first episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .policies.features import entry_names, width


@dataclass(frozen=True)
class Spaces:
    """The two spaces, as the api describes them."""

    observation: dict[str, Any]
    action: dict[str, Any]

    @property
    def controls(self) -> int:
        return width(self.action)

    @property
    def is_choice(self) -> bool:
        return bool(self.action["type"] == "Discrete")

    @property
    def sees_images(self) -> bool:
        return any(name.endswith("block") for name, _ in self.names)

    @property
    def names(self) -> list[tuple[str, str]]:
        return entry_names(self.observation)
