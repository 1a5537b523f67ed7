"""What the gateway's waits do to an agent's time: a call that never succeeds does not stop the clock."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from gateway_helpers import RawServer, ask, call, calls, gateway

from process_helpers import wait_until

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("retry_after", ["0", "-5"])
def test_waits_of_hopeless_calls_are_bounded_in_all_and_do_not_spin(retry_after):
    limited = f"HTTP/1.1 429 No\r\nRetry-After: {retry_after}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    with (
        RawServer(lambda talk: talk.sendall(limited.encode())) as server,
        gateway(server.url, patience_s=1.5) as opened,
    ):
        assert [call(opened, "openai-chat")[0] for _ in range(2)] == [429, 429]
        assert sum(row.waited_s for row in calls(opened, 2)) > 1.9
        assert opened.patience.waited_s == 1.5
    assert len(server.requests) == 4  # a second passes between two attempts


def test_a_wait_beside_a_call_that_succeeds_is_the_agents_time():
    release = threading.Event()

    def answer(talk):
        if b"/responses" in server.requests[-1]:
            release.wait(30)
        elif len(server.requests) == 2:
            talk.sendall(b"HTTP/1.1 429 No\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            return
        talk.sendall(b"HTTP/1.0 200 OK\r\n\r\n{}")

    with (
        RawServer(answer) as server,
        gateway(server.url, patience_s=60) as opened,
        ThreadPoolExecutor(2) as pool,
    ):
        slow = pool.submit(call, opened, "openai-responses")
        wait_until(lambda: len(server.requests) == 1)
        waiting = pool.submit(ask, opened, "POST", "/v1/messages", "{}")
        wait_until(lambda: opened.patience.waited_s > 0.5)
        release.set()
        assert slow.result()[0] == 200 and waiting.result().status == 200
        waited_s = max(row.waited_s for row in calls(opened, 2))
        assert waited_s > 1.9 and opened.patience.waited_s < waited_s - 0.5
