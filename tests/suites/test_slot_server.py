"""Runs and their scheduler communicate over real sockets."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import time

import pytest

from evopolicygym.gateway.call_limits import CallAdmission, CallLimits, CallTotals
from evopolicygym.suites.call_gate import RETRY_S, CallGate, CallRate
from evopolicygym.suites.folder import STOPPED
from evopolicygym.suites.slot_pool import SlotPool, SlotServer
from evopolicygym.suites.worker import PooledSlots, SharedRateLimits


class FakeRun:
    """A run of a suite, without the run."""

    def __init__(self, server, name="run", provider="provider"):
        self.ends = [socket.socketpair(), socket.socketpair()]
        self.gone = []
        self.serving = asyncio.ensure_future(
            server.serve(name, self.ends[0][0], self.ends[1][0], lambda: self.gone.append(name))
        )
        self.slots, self.rate_limits = PooledSlots(self.ends[0][1], 2), SharedRateLimits(self.ends[1][1], provider)

    async def granted(self):
        await asyncio.to_thread(select.select, self.slots.waitable, [], [], 10)
        return self.slots.granted()

    async def leave(self):
        self.rate_limits._file.close()
        for _, theirs in self.ends:
            theirs.close()
        await self.serving


def with_server(scenario, calls=None):
    async def main():
        await scenario(SlotServer(SlotPool(range(2)), calls))

    asyncio.run(main())


def test_slots_are_granted_and_pass_on():
    async def scenario(server):
        first, second = FakeRun(server, "one"), FakeRun(server, "two")
        first.slots.want(2, urgent=False)
        granted_first = await first.granted()
        granted_first += await first.granted() if len(granted_first) < 2 else []
        assert sorted(granted_first) == [0, 1]
        second.slots.want(1, urgent=True)
        first.slots.give_back(granted_first[0])
        assert await second.granted() == [granted_first[0]]
        await first.leave()
        second.slots.want(2, urgent=True)
        assert await second.granted() == [granted_first[1]]
        await second.leave()

    with_server(scenario)


def test_a_slot_that_is_granted_too_late_is_returned():
    async def scenario(server):
        first, second = FakeRun(server, "one"), FakeRun(server, "two")
        first.slots.want(2, urgent=False)
        await asyncio.to_thread(select.select, first.slots.waitable, [], [], 10)
        await asyncio.to_thread(first.slots.want, 0, urgent=False)  # and never looks again
        second.slots.want(2, urgent=False)
        got = await second.granted()
        got += await second.granted() if len(got) < 2 else []
        assert sorted(got) == [0, 1]
        await first.leave()
        await second.leave()

    with_server(scenario)


NOW, LATER = CallAdmission(), CallAdmission(RETRY_S)


def test_calls_of_all_runs_to_a_provider_have_one_rate():
    gate, first, second = CallGate(CallRate(at_a_time=2, per_minute=3)), object(), object()
    assert [gate.begin(run, "a", 0.0) for run in (first, second)] == [NOW, NOW]
    assert gate.begin(second, "a", 1.0) == LATER and gate.begin(second, "b", 1.0) == NOW
    gate.end(first, "a")
    assert gate.begin(second, "a", 2.0) == NOW
    gate.forget(second)
    assert gate.begin(first, "a", 20.0) == CallAdmission(40.0)  # three began in this minute
    assert gate.begin(first, "a", 60.0) == NOW


def test_what_all_runs_use_together_is_limited():
    gate, first, second = CallGate(CallRate(), CallLimits(tokens=1000, requests=4)), object(), object()
    assert gate.begin(first, "a", 0.0) == gate.begin(second, "b", 0.0) == NOW
    gate.note("one", CallTotals(tokens=400, requests=1))
    gate.end(first, "a")
    assert gate.begin(first, "a", 1.0) == NOW  # 400, and as much again for the one that is under way
    assert gate.begin(first, "a", 2.0) == LATER  # two are under way
    gate.note("two", CallTotals(tokens=100, requests=1))
    gate.forget(second)
    gate.note("one", CallTotals(tokens=100, requests=1))  # an older report changes nothing
    assert gate.limit_reached is None
    gate.note("superseded one", CallTotals(tokens=500))
    assert gate.limit_reached == "tokens" and gate.begin(second, "b", 3.0) == CallAdmission(limit="tokens")
    gate.begin_again("one")
    assert gate.limit_reached is None


def test_runs_report_what_they_used_and_learn_of_the_limit():
    async def scenario(server):
        first, second = FakeRun(server, "one"), FakeRun(server, "two")
        assert await asyncio.to_thread(first.rate_limits.begin_call, CallTotals()) == NOW
        await asyncio.to_thread(first.rate_limits.end_call, CallTotals(dollars=0.5, requests=1))
        used = CallTotals(dollars=0.5, requests=2)
        assert await asyncio.to_thread(second.rate_limits.begin_call, used) == CallAdmission(limit="dollars")
        await first.leave()
        await second.leave()

    with_server(scenario, CallGate(CallRate(), CallLimits(dollars=1)))


def test_a_provider_that_asks_one_run_to_wait_slows_the_others():
    async def scenario(server):
        first, second, other = (
            FakeRun(server, "one"),
            FakeRun(server, "two"),
            FakeRun(server, "other", "another provider"),
        )
        assert await asyncio.to_thread(second.rate_limits.wait_s, 0.0) == 0.0
        assert await asyncio.to_thread(first.rate_limits.wait_s, 30.0) == pytest.approx(30.0)
        assert 29.0 < await asyncio.to_thread(second.rate_limits.wait_s, 0.0) <= 30.0
        assert await asyncio.to_thread(other.rate_limits.wait_s, 0.0) == 0.0
        for run in (first, second, other):
            await run.leave()

    with_server(scenario)


def test_the_scheduler_learns_that_an_agent_is_gone():
    async def scenario(server):
        first = FakeRun(server, "one")
        await asyncio.to_thread(first.rate_limits.agent_is_gone)
        assert first.gone == ["one"]
        await first.leave()

    with_server(scenario)


@pytest.mark.parametrize("deed", ["look", "want", "give back", "ask"])
def test_without_its_scheduler_a_run_ends_at_once(deed):
    """A moment later the kernel would end it: what goes wrong until then must not be recorded as a fault."""
    ours, theirs = socket.socketpair()
    slots, rate_limits = PooledSlots(theirs, 2), SharedRateLimits(theirs, "provider")
    child = os.fork()
    if child == 0:
        ours.close()
        time.sleep(0.1)
        deeds = {
            "look": slots.granted,
            "want": lambda: slots.want(0, True) or slots.want(1, True),
            "give back": lambda: slots.give_back(1),
            "ask": lambda: rate_limits.wait_s(1.0),
        }
        try:
            deeds[deed]()
        finally:
            os._exit(0)
    ours.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == STOPPED
