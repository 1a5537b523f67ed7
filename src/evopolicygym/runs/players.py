"""Playing turns: an agent's program is started, watched and ended, and its transcript kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from evopolicygym.agents.turns import Turn

Watch = Callable[[], bool]


class Player(Protocol):
    """An agent at work. ``turn`` prompts it and returns when it has answered, or ``over`` says that time is up; then
    nothing of it is left running. ``session`` is None for the opening words."""

    def turn(self, number: int, session: str | None, over: Watch) -> Turn: ...

    def close(self) -> None: ...
