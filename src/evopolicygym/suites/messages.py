"""What a run and the foreman of its suite say to each other: JSON lines over two sockets that only they hold.

Over the first the run asks for slots and gives them back; they come as they are free. Over the second it asks, and is
answered at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

KIND: Final = "kind"
T = TypeVar("T")


@dataclass(frozen=True)
class SlotsWanted:
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
    """The run wants no more slots, and the foreman knows."""


@dataclass(frozen=True)
class RateLimited:
    """``provider`` has asked us to wait. Answered with how long to wait, all runs considered."""

    provider: str
    wait_s: float


@dataclass(frozen=True)
class AgentGone:
    """The agent is, and what is left is hidden scoring."""


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
