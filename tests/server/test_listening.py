"""The address on which the server listens."""

from __future__ import annotations

import asyncio
import socket

from evopolicygym.server.http_server import bind


def test_responses_are_not_delayed(tmp_path):
    """Head and body of a reply are two packets: with Nagle's algorithm the second waits 40 ms for a delayed ACK."""

    async def accepted() -> int:
        seen = asyncio.get_running_loop().create_future()
        listener, address = bind(tmp_path)
        async with await asyncio.start_server(lambda _, writer: seen.set_result(writer), sock=listener):
            _, client = await asyncio.open_connection("127.0.0.1", address.port)
            writer = await seen
            option = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()
            client.close()
            return option

    assert asyncio.run(accepted())


def test_the_address_survives_a_restart(tmp_path):
    listener, address = bind(tmp_path)
    listener.close()
    again, same = bind(tmp_path)
    taken, other = bind(tmp_path)
    assert same == address
    assert other.port != address.port and other.token == address.token
    again.close()
    taken.close()


def test_a_port_that_another_run_takes_at_the_same_time(tmp_path, monkeypatch):
    """Two can be bound to one port until one of them listens."""
    listener, address = bind(tmp_path)
    listener.close()
    other = socket.socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    other.bind(("127.0.0.1", address.port))

    class Slower(socket.socket):
        def bind(self, address: tuple[str, int]) -> None:
            super().bind(address)
            other.listen()

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", Slower)
        listener, moved = bind(tmp_path)
    with listener, other:
        assert moved.port != address.port and moved.token == address.token
        socket.create_connection(("127.0.0.1", moved.port)).close()
