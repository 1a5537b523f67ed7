"""Other runs beside this one: what a driver asks of them, and lets them know."""

from __future__ import annotations

from typing import Protocol


class Company(Protocol):
    def wait_s(self, own: float) -> float:
        """How long to wait before the next prompt, given that the provider asked us to wait this long: others may know
        that it is longer, and learn of ours."""

    def agent_is_gone(self) -> None:
        """All that is left is hidden scoring."""


class Alone:
    def wait_s(self, own: float) -> float:
        return own

    def agent_is_gone(self) -> None:
        pass
