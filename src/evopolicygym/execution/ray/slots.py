"""The slots of a run that is alone on its fleet: the seats that are there, as they come and go."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from evopolicygym.execution.ray.fleet import Fleet
from evopolicygym.execution.slots import Waitable

LOOK_S: Final = 2.0


class FleetSlots:
    waitable: Sequence[Waitable] = ()
    first_core = 0

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._held, self._wanted = fleet, set[int](), 0
        self._looked = time.monotonic()

    @property
    def total(self) -> int:
        return len(self._fleet.seats)

    @property
    def at_once(self) -> int:
        return self.total

    def want(self, count: int, urgent: bool) -> None:
        self._wanted = count

    def granted(self) -> list[int]:
        if time.monotonic() - self._looked > LOOK_S:
            self._fleet.poll()
            self._looked = time.monotonic()
        seats = self._fleet.seats
        free = [seat for seat in seats if seat not in self._held]
        new = free[: max(0, self._wanted - (len(seats) - len(free)))]
        self._held.update(new)
        return new

    def give_back(self, slot: int) -> None:
        self._held.discard(slot)
