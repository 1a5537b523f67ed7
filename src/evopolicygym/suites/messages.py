"""Messages between a run's process and the scheduler of its suite: JSON lines over two sockets that only they hold.

Over the first socket the run asks for slots and returns them; the scheduler grants slots as they become free. Over the
second socket every request gets one reply at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec


@dataclass(frozen=True)
class SlotsWanted:
    """How many slots the run wants to hold. ``urgent`` for train submissions, whose agent waits."""

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
class AgentGone:
    """The agent has exited; only hidden scoring remains."""


@dataclass(frozen=True)
class WaitReply:
    wait_s: float = 0.0


KINDS: Final[dict[str, type[Any]]] = {
    "Want": SlotsWanted,
    "GiveBack": SlotReturned,
    "Granted": SlotGranted,
    "Noted": NoneWanted,
    "Waiting": RateLimited,
    "Gone": AgentGone,
    "Answer": WaitReply,
}
_KIND_OF_CLASS: Final = {message_class: kind for kind, message_class in KINDS.items()}


def encode(message: object) -> bytes:
    return msgspec.json.encode([_KIND_OF_CLASS[type(message)], message]) + b"\n"


def decode(line: bytes) -> Any:
    kind, data = msgspec.json.decode(line)
    return msgspec.convert(data, KINDS[kind])
