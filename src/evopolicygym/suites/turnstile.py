"""Who may play next: the slots of a machine or a cluster, shared by the runs of a suite. Pure: no clock, no processes.

Train submissions go before hidden scoring, whoever asks: an agent waits for them. Among equals, who holds the fewest
slots goes first, then who has waited longest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(eq=False)
class Guest:
    """One run. ``knows`` are slots that it has played on: its simulator is warm there."""

    name: str
    wants: int = 0
    is_urgent: bool = False
    asked: int = 0
    holds: set[int] = field(default_factory=set)
    knows: set[int] = field(default_factory=set)

    @property
    def is_waiting(self) -> bool:
        return self.wants > len(self.holds)


class Turnstile:
    def __init__(self, slots: Iterable[int]) -> None:
        self._free, self._lost = set(slots), set[int]()
        self._guests: list[Guest] = []
        self._asked = 0

    @property
    def is_awaited(self) -> bool:
        """Whether anybody waits for a slot."""
        return any(guest.is_waiting for guest in self._guests)

    def enter(self, guest: Guest) -> None:
        self._guests.append(guest)

    def leave(self, guest: Guest) -> None:
        for slot in list(guest.holds):
            self.give_back(guest, slot)
        self._guests.remove(guest)

    def want(self, guest: Guest, count: int, is_urgent: bool) -> None:
        if not guest.is_waiting:
            self._asked += 1
            guest.asked = self._asked
        guest.wants, guest.is_urgent = count, is_urgent

    def give_back(self, guest: Guest, slot: int) -> None:
        """At the end of the queue again, if it wants another one."""
        guest.holds.discard(slot)
        self._asked += 1
        guest.asked = self._asked
        if slot not in self._lost:
            self._free.add(slot)

    def add(self, slot: int) -> None:
        self._lost.discard(slot)
        self._free.add(slot)

    def lose(self, slot: int) -> None:
        """It is no more. Who holds it will give it back, to nobody."""
        self._lost.add(slot)
        self._free.discard(slot)

    def grants(self) -> list[tuple[Guest, int]]:
        """Slots that change hands now."""
        granted = []
        while self._free and (waiting := [guest for guest in self._guests if guest.is_waiting]):
            guest = min(waiting, key=lambda one: (not one.is_urgent, len(one.holds), one.asked))
            slot = min(self._free, key=lambda free: (free not in guest.knows, free))
            self._free.remove(slot)
            guest.holds.add(slot)
            guest.knows.add(slot)
            granted.append((guest, slot))
        return granted
