"""Wait out a provider's rate limits and outages, so that a client with little patience of its own does not meet them.

What was waited is counted in one place for all calls (`Patience.waited_s`), because it is not the agent's time. A call
that can never succeed must not stop the agent's clock: at most the patience for one call counts in all, and no wait
during which another call succeeds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

from evopolicygym.gateway import apis
from evopolicygym.gateway.call_limits import CallAdmission, CallTotals, SuiteLimitReached
from evopolicygym.gateway.exchange import GatewayRequest, Upstream, UpstreamAnswer
from evopolicygym.gateway.metering import ModelMeter
from evopolicygym.gateway.upstream import NoAnswer, UntrustedServer, whole

PASSING: Final = frozenset({408, 429, 500, 502, 503, 504, 529})
WAITS_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
LEAST_S: Final = 1.0  # whatever a server's `Retry-After` says
DEFAULT_S: Final = 600.0


class SharedWaits(Protocol):
    """Runs that share a provider's rate limits. ``is_shared`` is False for a run alone; ``limits_calls``: whether each
    call must be announced."""

    @property
    def is_shared(self) -> bool: ...

    @property
    def limits_calls(self) -> bool: ...

    def begin_call(self, used: CallTotals) -> CallAdmission:
        """Ask whether a call may begin. ``used``: what the calls of this run have used so far."""

    def end_call(self, used: CallTotals) -> None: ...

    def wait_s(self, seconds: float) -> float:
        """Return the seconds to wait, at least ``seconds``: another run may have to wait longer. Makes this run's wait
        known to the others."""


@dataclass(frozen=True)
class PatientAnswer:
    """An answer, and what it took to get it. ``resent``: beside the attempts, as of an ``UpstreamAnswer``."""

    answer: UpstreamAnswer
    attempts: int
    waited_s: float
    resent: int


class Outage(OSError):
    """The provider did not answer after this many attempts."""

    def __init__(self, cause: OSError, attempts: int, waited_s: float) -> None:
        super().__init__(str(cause))
        self.attempts, self.waited_s = attempts, waited_s


class Patience:
    """Sends calls, again if need be, for at most ``seconds`` each. All calls wait while one has to."""

    def __init__(self, seconds: float = DEFAULT_S, group: SharedWaits | None = None) -> None:
        self._seconds, self._group = seconds, group if group and group.is_shared else None
        self._until = 0.0
        self._waiting = 0
        self._waited_s, self._since = 0.0, 0.0
        self._trouble = ""

    @property
    def waits_for(self) -> tuple[str, float | None]:
        """The error that calls wait out now, and when the next one is sent (by time.monotonic); empty if none waits.
        From any thread."""
        return (self._trouble or "the provider's rate limit", self._until) if self._waiting else ("", None)

    @property
    def waited_s(self) -> float:
        """Seconds that are not the agent's: at least one call waited, and no other one succeeded; at most the patience
        for one call in all. From any thread."""
        since = self._since
        return min(self._seconds, self._waited_s + (time.monotonic() - since if since else 0.0))

    @asynccontextmanager
    async def admitted(self, meter: ModelMeter) -> AsyncIterator[float]:
        """Wait until the suite admits a call, within its rate and its limits, and yield the seconds that this took.
        Raise SuiteLimitReached if a limit is used up."""
        if self._group is None or not self._group.limits_calls:
            yield 0.0
            return
        began = time.monotonic()
        with self._counted():
            while (wait_s := await self._begin_call(self._group, meter)) > 0:
                await asyncio.sleep(wait_s)
        try:
            yield time.monotonic() - began
        finally:  # without waiting: the call may have been cancelled
            asyncio.get_running_loop().run_in_executor(None, self._group.end_call, meter.used)

    async def _begin_call(self, group: SharedWaits, meter: ModelMeter) -> float:
        """Announce a call and return 0, or return the seconds after which to ask again. If it is cancelled meanwhile,
        end it."""
        asked = asyncio.get_running_loop().run_in_executor(None, lambda: group.begin_call(meter.used))
        try:
            admission = await asyncio.shield(asked)
        except asyncio.CancelledError:
            if await asked == CallAdmission():
                await asyncio.to_thread(group.end_call, meter.used)
            raise
        if admission.limit:
            raise SuiteLimitReached(admission.limit)
        return admission.wait_s

    async def send(self, upstream: Upstream, request: GatewayRequest) -> PatientAnswer:
        """Return the first answer that is no passing error, or the last error. Raise Outage if there is none."""
        began, attempts, waited_s, resent = time.monotonic(), 0, 0.0, 0
        while True:
            waited_s += await self._wait_for_others(began)
            attempts += 1
            outage: OSError | None = None
            answer: UpstreamAnswer | None = None
            wait_s = WAITS_S[min(attempts, len(WAITS_S)) - 1]
            try:
                answer = await upstream.send(request)
            except UntrustedServer as error:
                raise Outage(error, attempts + resent, waited_s) from error
            except OSError as error:
                outage = error
                resent += error.resent if isinstance(error, NoAnswer) else 0
                self._trouble = f"the provider cannot be reached: {error}"
            if answer is not None:
                resent += answer.resent
                if answer.status not in PASSING:
                    if answer.status < 400 and self._waiting:
                        self._since = time.monotonic()  # the agent was not kept from its work
                    return PatientAnswer(answer, attempts, waited_s, resent)
                self._trouble = f"the provider answered with HTTP {answer.status}"
                answer, body = await _held(answer)
                wait_s = retry_after(answer.headers.get("retry-after"), wait_s)
                if apis.is_final(request.api, answer.status, answer.headers, body):
                    return PatientAnswer(answer, attempts, waited_s, resent)
            if time.monotonic() + wait_s > began + self._seconds:
                if answer is None:
                    assert outage is not None
                    raise Outage(outage, attempts + resent, waited_s) from outage
                return PatientAnswer(answer, attempts, waited_s, resent)
            self._until = max(self._until, time.monotonic() + await self._shared(wait_s))

    async def _wait_for_others(self, began: float) -> float:
        """Wait until no call has to wait any more, as far as patience goes; return the seconds."""
        if self._group is not None:
            self._until = max(self._until, time.monotonic() + await self._shared(0.0))
        now = time.monotonic()
        seconds = min(self._until, began + self._seconds) - now
        if seconds <= 0:
            return 0.0
        with self._counted():
            await asyncio.sleep(seconds)
        return time.monotonic() - now

    async def _shared(self, seconds: float) -> float:
        return await asyncio.to_thread(self._group.wait_s, seconds) if self._group else seconds

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._waited_s, self._since = self._waited_s + time.monotonic() - self._since, 0.0


def retry_after(header: str | None, default: float) -> float:
    """Return the seconds that a server asks to wait: a number or a date."""
    text = (header or "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return default
    return max(LEAST_S, seconds) if seconds == seconds else default


async def _held(answer: UpstreamAnswer) -> tuple[UpstreamAnswer, bytes]:
    """Return an error with its body, which the upstream has bounded."""
    body = b"".join([data async for data in answer.body])
    return replace(answer, body=whole(body)), body
