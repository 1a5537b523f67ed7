"""Slots: the right to play one episode at a time on one core.

An engine that is alone owns its slots; the engines of a suite share theirs, so that the number of runs at a time and
the number of episodes at a time are independent.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, Protocol

from evopolicygym.errors import UserError

MOST_PER_CORE: Final = 4  # a worker takes about 130 MiB, and gains nothing from a core that another one has


def check_jobs(jobs: int) -> None:
    """Refuse a number of jobs that would overload the machine."""
    cores = len(os.sched_getaffinity(0))
    if jobs > (most := MOST_PER_CORE * cores):
        raise UserError(
            f"{jobs} episodes at a time are too many for the {cores} cores of this machine: each needs a process",
            f"Use at most --jobs {most}; more than --jobs {cores} is rarely faster.",
        )


class Waitable(Protocol):
    def fileno(self) -> int: ...


class Slots(Protocol):
    """Source of an engine's slots. Slot k is always the same core, or the same worker of a cluster.

    ``at_once`` of the ``total`` slots are granted as soon as they are wanted, so workers can be started for them.
    ``first_core`` is the core of slot 0. ``waitable`` becomes readable when a slot was granted."""

    first_core: int
    waitable: Sequence[Waitable]

    @property
    def total(self) -> int: ...

    @property
    def at_once(self) -> int: ...

    def want(self, count: int, urgent: bool) -> None:
        """Set how many slots to hold from now on. Zero asks for no more; those that are held stay held."""

    def granted(self) -> list[int]:
        """Return the slots that were granted since the last call. Never waits."""

    def give_back(self, slot: int) -> None: ...


class OwnSlots:
    """Slots of one engine alone. Engines that run at the same time start at different cores if their pids differ."""

    waitable: Sequence[Waitable] = ()

    def __init__(self, total: int) -> None:
        check_jobs(total)
        self.total = self.at_once = total
        self.first_core = os.getpid()
        self._free, self._wanted = set(range(total)), 0

    def want(self, count: int, urgent: bool) -> None:
        self._wanted = count

    def granted(self) -> list[int]:
        held = self.total - len(self._free)
        return [self._free.pop() for _ in range(min(len(self._free), self._wanted - held))]

    def give_back(self, slot: int) -> None:
        self._free.add(slot)
