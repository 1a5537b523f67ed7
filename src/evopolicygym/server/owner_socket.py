"""A Unix socket over which other commands of the same user talk to the process that owns a run.

The client sends one command line; the owner sends JSON objects, one per line: progress, then the result. Only the user
can open the socket.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

NAME: Final = ".owner.sock"
GRACE_S: Final = 3.0
MAX_LINE_BYTES: Final = 1 << 20
SendMessage = Callable[[dict[str, Any]], Awaitable[None]]
CommandHandler = Callable[[str, SendMessage], Awaitable[dict[str, Any]]]


class NoOwner(Exception):
    """No process owns the run."""


@asynccontextmanager
async def answer_commands(root: Path, answer: CommandHandler) -> AsyncIterator[None]:
    """Answer commands inside the ``async with``; pending results are sent before it ends.

    The caller holds the lock of the run, so a socket that exists already belongs to a dead owner."""
    talks = set[asyncio.Task[Any]]()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def send(message: dict[str, Any]) -> None:
            with suppress(ConnectionError):  # the client may disconnect; its command continues
                writer.write(json.dumps(message).encode() + b"\n")
                await writer.drain()

        if task := asyncio.current_task():
            talks.add(task)
            task.add_done_callback(talks.discard)
        command = (await reader.readline()).decode(errors="replace").strip()
        await send(await answer(command, send))
        writer.close()

    with _address(root) as address, suppress(FileNotFoundError):
        os.unlink(address)
    with _address(root) as address:
        listener = socket.socket(socket.AF_UNIX)
        before = os.umask(0o077)
        try:
            listener.bind(address)
        finally:
            os.umask(before)
    server = await asyncio.start_unix_server(talk, sock=listener)
    try:
        yield
    finally:
        server.close()
        if talks:  # a client that sends no command is not waited for
            await asyncio.wait(talks, timeout=GRACE_S)
        with suppress(FileNotFoundError):
            os.unlink(root / NAME)


def send_command(root: Path, command: str) -> Iterator[dict[str, Any]]:
    """Send a command and yield the owner's messages, the result last. No result: the owner died. Raises NoOwner."""
    with socket.socket(socket.AF_UNIX) as connection, _address(root) as address:
        try:
            _check_ours(address)
            connection.connect(address)
        except OSError as error:
            raise NoOwner from error
        with suppress(ConnectionError):
            connection.sendall(command.encode() + b"\n")
            reader = connection.makefile("rb")
            for line in iter(lambda: reader.readline(MAX_LINE_BYTES), b""):
                yield _message(line)


def _check_ours(address: str) -> None:
    """Raise OSError for a link or a socket of another user, which a forged run folder may hold."""
    facts = os.lstat(address)
    if not stat.S_ISSOCK(facts.st_mode) or facts.st_uid != os.geteuid():
        raise OSError(f"{NAME} is not a socket of this user")


def _message(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    return message if isinstance(message, dict) else {"error": f"{NAME} returned a line that is not a JSON object"}


@contextmanager
def _address(root: Path) -> Iterator[str]:
    """Yield a short path of the socket, because a socket's path may have 107 bytes at most."""
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{NAME}"
    finally:
        os.close(folder)
