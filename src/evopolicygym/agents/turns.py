"""One turn of an agent: what it was told is the driver's; how it ended and what it cost is here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True)
class Usage:
    """Tokens of one turn, never overlapping, and dollars. None is unknown, which is not zero. ``source`` says whose
    word it is: ``client`` (its stream), ``file`` (its session file), ``proxy``."""

    fresh_input: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None
    cost_usd: float | None = None
    source: str = "client"


class FailureKind(StrEnum):
    """Why a turn did not end as it should have."""

    AUTHENTICATION = "authentication"
    RATE_LIMIT = "rate_limit"
    PROVIDER = "provider"
    TURN_LIMIT = "turn_limit"
    TIMEOUT = "timeout"
    CLIENT = "client"


TRANSIENT = frozenset({FailureKind.RATE_LIMIT, FailureKind.PROVIDER})


@dataclass(frozen=True)
class Failure:
    kind: FailureKind
    text: str

    @property
    def is_transient(self) -> bool:
        return self.kind in TRANSIENT


@dataclass(frozen=True)
class Turn:
    """``session`` is what resumes the conversation; ``text`` the agent's last words; ``stop``: it wants no more."""

    exit_code: int | None
    wall_s: float
    session: str | None = None
    text: str = ""
    usage: Usage | None = None
    failure: Failure | None = None
    stop: bool = False
