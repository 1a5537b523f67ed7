"""Attacks on the watchdog, which ends policies that sleep."""

from __future__ import annotations

import os

from evopolicygym.sandbox import kernel
from evopolicygym.sandbox.policy.protocol import ErrorKind
from evopolicygym.sandbox.policy.watchdog import ProcessWatch


def test_the_watchdog_survives_a_policy_that_exits_at_its_deadline():
    """The process is gone when the watchdog kills it; an exception would end the watchdog."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    pidfd = kernel.pidfd_open(child)
    watch = ProcessWatch(pidfd, episode_cpu_s=1.0)
    os.waitpid(child, 0)
    watch.expect_within(0.0, ErrorKind.TIMEOUT)
    watch.question = b"nonce"
    watch.check()
    watch.check()
    assert watch.verdict
    os.close(pidfd)
