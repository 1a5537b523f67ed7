"""How many connections there may be, and which of them has to go when another comes.

An agent can open connections without end. They must not use up the descriptors with which the judge stores snapshots
and writes feedback: that would be a fault, and three of them void a run. And they must not shut anybody out: who comes
last finds a place, at the cost of the connection that has asked nothing for longest.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import sys
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

AT_ONCE: Final = 32  # are accepted, before any of them can be turned away
MOST: Final = 256
FEWEST: Final = 48  # more than the submissions that may be under way at a time
USUAL: Final = 1024  # what machines allow a process; somebody may have asked for less
# Beyond what is open when the door opens: twice as many as are accepted at once, for some are just accepted, some just
# closed; two for each of the 64 connections that the gateway of an agent carries; and the judge's own, where a snapshot
# has one open for each of 16 levels of folders, a delivery half a dozen.
RESERVE: Final = 2 * AT_ONCE + 2 * 64 + 64
_turns = itertools.count()


def protocol() -> type[H11Protocol]:
    """Of a door that opens now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _number(soft) < USUAL:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(USUAL, _number(hard)), hard))
    return type("Connection", (_Connection,), {"taken": len(os.listdir("/proc/self/fd"))})


def places(taken: int) -> int:
    """Asked anew for each connection: the limit can be changed while we run."""
    limit = _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return max(FEWEST, min(MOST, limit - taken - RESERVE))


def _number(limit: int) -> int:
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


class _Connection(H11Protocol):
    taken = 0
    _since = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = next(_turns)
        for _ in range(len(self.connections) - places(self.taken)):
            self._longest_idle()._leave()

    def on_response_complete(self) -> None:
        self._since = next(_turns)
        super().on_response_complete()

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.LocalProtocolError:  # in whatever state the client has left it
            self.transport.abort()

    def _longest_idle(self) -> _Connection:
        """Of those to whom we owe no answer; if there are none, we ourselves."""
        everybody: Any = self.connections
        return min((one for one in everybody if not one._is_owed), key=lambda one: one._since, default=self)

    @property
    def _is_owed(self) -> bool:
        """A whole request is here, and nothing of its answer has been sent."""
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_started

    def _leave(self) -> None:
        self.connections.discard(self)
        self.transport.abort()
