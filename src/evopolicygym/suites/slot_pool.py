"""Who may play next: the slots of a machine or a cluster, shared by the runs of a suite. Pure: no clock, no processes.

Train submissions go before hidden scoring, whoever asks: an agent waits for them. Among equals, who holds the fewest
slots goes first, then who has waited longest.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from evopolicygym.suites.messages import (
    AgentGone,
    NoneWanted,
    RateLimited,
    SlotGranted,
    SlotReturned,
    SlotsWanted,
    WaitReply,
    decode,
    encode,
)


@dataclass(eq=False)
class SlotClient:
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


class SlotPool:
    def __init__(self, slots: Iterable[int]) -> None:
        self._free, self._lost = set(slots), set[int]()
        self._guests: list[SlotClient] = []
        self._asked = 0

    @property
    def is_awaited(self) -> bool:
        """Whether anybody waits for a slot."""
        return any(guest.is_waiting for guest in self._guests)

    def enter(self, guest: SlotClient) -> None:
        self._guests.append(guest)

    def leave(self, guest: SlotClient) -> None:
        for slot in list(guest.holds):
            self.give_back(guest, slot)
        self._guests.remove(guest)

    def want(self, guest: SlotClient, count: int, is_urgent: bool) -> None:
        if not guest.is_waiting:
            self._asked += 1
            guest.asked = self._asked
        guest.wants, guest.is_urgent = count, is_urgent

    def give_back(self, guest: SlotClient, slot: int) -> None:
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

    def grants(self) -> list[tuple[SlotClient, int]]:
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


Handle = Callable[[Any], WaitReply | None]


class SlotServer:
    """One event loop, many runs. A run that dies leaves by the closing of its sockets."""

    def __init__(self, turnstile: SlotPool) -> None:
        self.turnstile = turnstile
        self._writers: dict[SlotClient, asyncio.StreamWriter] = {}
        self._patience: dict[str, float] = {}  # until when, by provider

    async def host(self, name: str, slots: socket.socket, talk: socket.socket, gone: Callable[[], None]) -> None:
        """Until the run is gone. ``gone`` is called when its agent is."""
        guest = SlotClient(name)
        await asyncio.gather(self._grant(guest, slots), self._answer(talk, gone))

    def announce(self) -> None:
        """After any change: who can go on, goes on."""
        for guest, slot in self.turnstile.grants():
            self._writers[guest].write(encode(SlotGranted(slot)))

    async def _grant(self, guest: SlotClient, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        self._writers[guest] = writer
        self.turnstile.enter(guest)
        try:
            while line := await _line(reader):
                match decode(line):
                    case SlotsWanted(count, urgent):
                        self.turnstile.want(guest, count, urgent)
                        if count == 0:
                            writer.write(encode(NoneWanted()))
                    case SlotReturned(slot):
                        self.turnstile.give_back(guest, slot)
                self.announce()
        finally:
            self.turnstile.leave(guest)
            del self._writers[guest]
            writer.close()
            self.announce()

    async def _answer(self, connection: socket.socket, gone: Callable[[], None]) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        while line := await _line(reader):
            match decode(line):
                case RateLimited(provider, wait_s):
                    writer.write(encode(WaitReply(self._wait(provider, wait_s))))
                case AgentGone():
                    gone()
                    writer.write(encode(WaitReply()))
        writer.close()

    def _wait(self, provider: str, wait_s: float) -> float:
        now = time.monotonic()
        self._patience[provider] = max(self._patience.get(provider, 0.0), now + wait_s)
        return max(0.0, self._patience[provider] - now)


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Empty when the other end is gone, however it went."""
    try:
        return await reader.readline()
    except ConnectionError:
        return b""
