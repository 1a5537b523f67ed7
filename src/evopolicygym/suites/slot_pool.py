"""Share the slots of a machine or a cluster among the runs of a suite.

`SlotPool` decides which run gets the next free slot: pure, without clock or processes. `SlotServer` exchanges messages
with the runs' processes: JSON lines over two sockets for each run. Over the first, the run asks for slots and returns
them, and the server grants slots as they become free. Over the second, every request gets one reply at once.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from evopolicygym.gateway.call_limits import CallTotals
from evopolicygym.suites.call_gate import CallGate, CallRate


@dataclass(frozen=True)
class SlotsWanted:
    """A run's request for slots. ``urgent`` for train submissions, whose agent waits."""

    count: int
    urgent: bool


@dataclass(frozen=True)
class SlotReturned:
    slot: int


@dataclass(frozen=True)
class SlotGranted:
    slot: int


@dataclass(frozen=True)
class NoneWanted:
    """Confirms that the run wants no more slots: no grant follows."""


@dataclass(frozen=True)
class RateLimited:
    """The provider asked this run to wait. The reply says how long to wait, considering all runs of the provider."""

    provider: str
    wait_s: float


@dataclass(frozen=True)
class CallBegins:
    """A call to a model is to begin. ``used``: what the run's calls have used so far. The reply says how long to wait
    before asking again, or which limit of the suite is used up; otherwise the call begins now."""

    provider: str
    used: CallTotals


@dataclass(frozen=True)
class CallEnds:
    """A call that began has ended."""

    provider: str
    used: CallTotals


@dataclass(frozen=True)
class AgentGone:
    """The agent has exited; only hidden scoring remains."""


@dataclass(frozen=True)
class WaitReply:
    wait_s: float = 0.0
    limit: str | None = None


MESSAGE_KINDS: Final[dict[str, type[Any]]] = {
    "Want": SlotsWanted,
    "GiveBack": SlotReturned,
    "Granted": SlotGranted,
    "Noted": NoneWanted,
    "Waiting": RateLimited,
    "Calling": CallBegins,
    "Called": CallEnds,
    "Gone": AgentGone,
    "Answer": WaitReply,
}
_KIND_OF_CLASS: Final = {message_class: kind for kind, message_class in MESSAGE_KINDS.items()}


def encode_message(message: object) -> bytes:
    return msgspec.json.encode([_KIND_OF_CLASS[type(message)], message]) + b"\n"


def decode_message(line: bytes) -> Any:
    kind, data = msgspec.json.decode(line)
    return msgspec.convert(data, MESSAGE_KINDS[kind])


@dataclass(eq=False)
class SlotClient:
    """One run that asks for slots. ``used_before`` are slots where its simulator is already warm."""

    name: str
    wants: int = 0
    is_urgent: bool = False
    queue_number: int = 0
    holds: set[int] = field(default_factory=set)
    used_before: set[int] = field(default_factory=set)

    @property
    def is_waiting(self) -> bool:
        return self.wants > len(self.holds)


class SlotPool:
    """Grant slots to clients.

    Train submissions go before hidden scoring, because an agent waits for them. After that a slot goes to a client that
    has used it before or has used none: a simulator takes seconds to start in another slot, and meanwhile its run does
    nothing else. After that the client that holds the fewest slots goes first, then the one that has waited longest.
    """

    def __init__(self, slots: Iterable[int]) -> None:
        self._free, self._lost = set(slots), set[int]()
        self._clients: list[SlotClient] = []
        self._last_queue_number = 0

    @property
    def has_waiting_clients(self) -> bool:
        return any(client.is_waiting for client in self._clients)

    def add_client(self, client: SlotClient) -> None:
        self._clients.append(client)

    def remove_client(self, client: SlotClient) -> None:
        for slot in list(client.holds):
            self.give_back(client, slot)
        self._clients.remove(client)

    def want(self, client: SlotClient, count: int, is_urgent: bool) -> None:
        """Set how many slots a client wants to hold."""
        if not client.is_waiting:
            self._queue(client)
        client.wants, client.is_urgent = count, is_urgent

    def give_back(self, client: SlotClient, slot: int) -> None:
        """Take a slot back. A client that wants another one queues again at the end."""
        client.holds.discard(slot)
        self._queue(client)
        if slot not in self._lost:
            self._free.add(slot)

    def add_slot(self, slot: int) -> None:
        self._lost.discard(slot)
        self._free.add(slot)

    def lose_slot(self, slot: int) -> None:
        """Stop granting a slot. If a client holds it, the slot disappears when the client gives it back."""
        self._lost.add(slot)
        self._free.discard(slot)

    def grants(self) -> list[tuple[SlotClient, int]]:
        """Grant every free slot that a client waits for; return the new grants."""
        granted = []
        while self._free and (waiting := [client for client in self._clients if client.is_waiting]):
            client, slot = min(((client, slot) for client in waiting for slot in self._free), key=_precedence)
            self._free.remove(slot)
            client.holds.add(slot)
            client.used_before.add(slot)
            granted.append((client, slot))
        return granted

    def _queue(self, client: SlotClient) -> None:
        self._last_queue_number += 1
        client.queue_number = self._last_queue_number


def _precedence(grant: tuple[SlotClient, int]) -> tuple[bool, bool, int, int, bool, int]:
    client, slot = grant
    starts_simulator = slot not in client.used_before
    starts_another = starts_simulator and bool(client.used_before)
    return (not client.is_urgent, starts_another, len(client.holds), client.queue_number, starts_simulator, slot)


class SlotServer:
    """Serve the pool's slots and the shared rate limits to all runs, in one event loop. When a run dies, its sockets
    close, and its slots return to the pool."""

    def __init__(self, pool: SlotPool, calls: CallGate | None = None) -> None:
        self.pool, self.calls = pool, calls or CallGate(CallRate())
        self._writers: dict[SlotClient, asyncio.StreamWriter] = {}
        self._wait_until: dict[str, float] = {}  # by provider

    async def serve(
        self, name: str, slots: socket.socket, requests: socket.socket, on_agent_gone: Callable[[], None]
    ) -> None:
        """Serve one run until it closes its sockets."""
        client = SlotClient(name)
        await asyncio.gather(self._serve_slots(client, slots), self._serve_requests(name, requests, on_agent_gone))

    def send_grants(self) -> None:
        """Send new grants to their runs. Call it after every change of the pool."""
        for client, slot in self.pool.grants():
            self._writers[client].write(encode_message(SlotGranted(slot)))

    async def _serve_slots(self, client: SlotClient, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        self._writers[client] = writer
        self.pool.add_client(client)
        try:
            while line := await _read_line(reader):
                match decode_message(line):
                    case SlotsWanted(count, urgent):
                        self.pool.want(client, count, urgent)
                        if count == 0:
                            writer.write(encode_message(NoneWanted()))
                    case SlotReturned(slot):
                        self.pool.give_back(client, slot)
                self.send_grants()
        finally:
            self.pool.remove_client(client)
            del self._writers[client]
            writer.close()
            self.send_grants()

    async def _serve_requests(self, run: str, connection: socket.socket, on_agent_gone: Callable[[], None]) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        while line := await _read_line(reader):
            reply = WaitReply()
            match decode_message(line):
                case RateLimited(provider, wait_s):
                    reply = WaitReply(self._shared_wait_s(provider, wait_s))
                case CallBegins(provider, used):
                    self.calls.note(run, used)
                    admission = self.calls.begin(writer, provider, time.monotonic())
                    reply = WaitReply(admission.wait_s, admission.limit)
                case CallEnds(provider, used):
                    self.calls.note(run, used)
                    self.calls.end(writer, provider)
                case AgentGone():
                    on_agent_gone()
            writer.write(encode_message(reply))
        self.calls.forget(writer)
        writer.close()

    def _shared_wait_s(self, provider: str, wait_s: float) -> float:
        """Return the longest wait that any run of the provider was asked for, counted from now."""
        now = time.monotonic()
        self._wait_until[provider] = max(self._wait_until.get(provider, 0.0), now + wait_s)
        return max(0.0, self._wait_until[provider] - now)


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Return the next line, or nothing when the other end is closed or was reset."""
    try:
        return await reader.readline()
    except ConnectionError:
        return b""
