"""Where the runs of a suite meet: slots are granted here, and a provider's call for patience reaches all."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

from evopolicygym.suites.messages import Answer, GiveBack, Gone, Granted, Noted, Waiting, Want, decode, encode
from evopolicygym.suites.turnstile import Guest, Turnstile

Handle = Callable[[Any], Answer | None]


class Hall:
    """One event loop, many runs. A run that dies leaves by the closing of its sockets."""

    def __init__(self, turnstile: Turnstile) -> None:
        self.turnstile = turnstile
        self._writers: dict[Guest, asyncio.StreamWriter] = {}
        self._patience: dict[str, float] = {}  # until when, by provider

    async def host(self, name: str, slots: socket.socket, talk: socket.socket, gone: Callable[[], None]) -> None:
        """Until the run is gone. ``gone`` is called when its agent is."""
        guest = Guest(name)
        await asyncio.gather(self._grant(guest, slots), self._answer(talk, gone))

    def announce(self) -> None:
        """After any change: who can go on, goes on."""
        for guest, slot in self.turnstile.grants():
            self._writers[guest].write(encode(Granted(slot)))

    async def _grant(self, guest: Guest, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        self._writers[guest] = writer
        self.turnstile.enter(guest)
        try:
            while line := await _line(reader):
                match decode(line):
                    case Want(count, urgent):
                        self.turnstile.want(guest, count, urgent)
                        if count == 0:
                            writer.write(encode(Noted()))
                    case GiveBack(slot):
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
                case Waiting(provider, wait_s):
                    writer.write(encode(Answer(self._wait(provider, wait_s))))
                case Gone():
                    gone()
                    writer.write(encode(Answer()))
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
