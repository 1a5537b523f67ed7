"""The queue between the HTTP API and the judge: requests are concurrent, the judge executes one submission at a time
and refuses others as busy.

The event loop orders the requests; episodes run in a thread of their own. A client that disconnects changes nothing.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from evopolicygym.errors import Fault
from evopolicygym.judge import scoring, submission
from evopolicygym.judge.judge import Judge
from evopolicygym.judge.protocol import Reason, Refusal, SubmitRequest
from evopolicygym.judge.state import RunState, Submission


class SubmissionQueue:
    """Accepts submissions until it is closed. ``broken`` gets the exception if the judge cannot continue."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._episodes = ThreadPoolExecutor(1, "episodes")
        self._episodes.submit(int)  # start its thread before anything is charged
        self._accepting, self._closing, self._stopped = asyncio.Lock(), False, threading.Event()
        self._work: dict[int, asyncio.Future[None]] = {}  # by submission, until its feedback is delivered
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def state(self) -> RunState:
        return self._judge.state

    def resume(self) -> None:
        """Continue the submission that a crash interrupted."""
        if interrupted := self.state.running:
            self._start(interrupted)

    async def submit(self, request: SubmitRequest) -> Submission:
        """Check, snapshot and charge; the execution continues in the background. Raises Refusal."""
        request = replace(request, key=self._judge.redact(request.key))
        async with self._accepting:
            earlier = self.state.by_key(request.key)
            if self._closing and earlier is None:
                raise Refusal(Reason.RUN_CLOSED, "the run is being closed: nothing more can be submitted")
            accepted = await asyncio.to_thread(self._accept, request)
            if earlier is None:
                self._start(accepted)
            return accepted

    def _accept(self, request: SubmitRequest) -> Submission:
        try:
            return submission.accept(self._judge, request)
        except Refusal:
            raise
        except Exception as fault:
            self._judge.shortage.begin(fault)
            raise

    def is_executing(self, number: int) -> bool:
        """Return whether a submission still runs. It ends when its feedback is delivered, not with the verdict."""
        return number in self._work

    async def ended(self, number: int) -> Submission:
        """Wait until a submission has its verdict and its feedback."""
        if work := self._work.get(number):
            await asyncio.shield(work)
        return self.state.submissions[number]

    async def refused(self, refusal: Refusal) -> None:
        await asyncio.to_thread(self._judge.refused, refusal)

    async def close(self, reason: str) -> None:
        """Accept nothing more, wait for the running submission, and close the run."""
        await self.drain()
        await asyncio.to_thread(scoring.close, self._judge, reason)
        await asyncio.to_thread(self._episodes.shutdown)

    async def drain(self) -> None:
        """Accept nothing more, and wait for the running submission."""
        self._closing = True
        async with self._accepting:
            for work in list(self._work.values()):
                await asyncio.shield(work)

    def stop(self) -> None:
        """End the thread of the episodes once it is idle, whether or not the run was closed. A pause for a shortage
        ends now."""
        self._stopped.set()
        self._episodes.shutdown(wait=False)

    def _start(self, accepted: Submission) -> None:
        work = asyncio.get_running_loop().run_in_executor(self._episodes, self._execute, accepted)
        self._work[accepted.number] = work
        work.add_done_callback(lambda work: self._after(accepted.number, work))

    def _execute(self, accepted: Submission) -> None:
        """Execute a submission. If not even its refund could be written, execute it again when it can."""
        stop = self._stopped
        self._judge.shortage.retry(lambda: submission.execute(self._judge, accepted, stop), stop)

    def _after(self, number: int, work: asyncio.Future[None]) -> None:
        del self._work[number]
        if error := work.exception():
            self._break(error)

    def _break(self, error: BaseException) -> None:
        if not isinstance(error, Fault):  # not raised on purpose: the run can continue after a restart
            error = Fault(f"{type(error).__name__}: {error}")
        if not self.broken.done():
            self.broken.set_exception(error)
            self.broken.exception()  # mark it as retrieved; ``close`` gets the error from the work itself
