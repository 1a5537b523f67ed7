"""The trusted side of the zygote: start one at the best level that works, and request policy processes from it."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, Final, Self

from evopolicygym.errors import TEMPORARY, Fault, IsolationUnavailable
from evopolicygym.limits import Limits
from evopolicygym.sandbox.policy import zygote
from evopolicygym.sandbox.policy.jail import Level
from evopolicygym.sandbox.policy.protocol import REPORT_BYTES, STDIO_BYTES
from evopolicygym.sandbox.policy.zygote import NUMPY
from evopolicygym.sandbox.policy.zygote_forker import DEBUG_VARIABLE
from evopolicygym.sandbox.privileges import FIRST_POLICY_UID, POLICY_UIDS
from evopolicygym.sandbox.runtime import runtime

CLEAN_ENVIRONMENT: Final = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "LD_BIND_NOW": "1",  # or every fresh process looks up the same functions
}
PASSED: Final = ("LD_LIBRARY_PATH", DEBUG_VARIABLE)  # read by the loader at the start only; debug messages
FLAGS: Final = ("-P", "-S", "-B")  # not -I: it would ignore PYTHONHASHSEED, and the environment is ours anyway
SEAL_SIZE: Final = 0x2 | 0x4  # F_SEAL_SHRINK | F_SEAL_GROW

Ender = Callable[[], None]
Starter = Callable[[socket.socket], Ender]  # starts a zygote that listens to this socket


def start_clean(script: str, connection: socket.socket, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that knows nothing but where Python and this package are, and a connection to its parent."""
    own = runtime()
    return subprocess.Popen(
        [sys.executable, *FLAGS, script, own.package_root, own.site, str(connection.fileno())],
        pass_fds=[connection.fileno()],
        env=CLEAN_ENVIRONMENT | {name: os.environ[name] for name in PASSED if name in os.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C goes to the parent only, and this process ends with it
        **options,
    )


def start_by_exec(theirs: socket.socket) -> Ender:
    """Start a zygote without a zygote forker."""
    errors = None if DEBUG_VARIABLE in os.environ else subprocess.DEVNULL
    process = start_clean(zygote.__file__, theirs, cwd="/", stderr=errors)

    def end() -> None:
        process.kill()
        process.wait()

    return end


class ZygoteForker:
    """A worker's connection to its zygote forker, the clean half of the process that it was forked from."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def start(self, theirs: socket.socket) -> Ender:
        try:
            socket.send_fds(self._connection, [b"z"], [theirs.fileno()])
            _, descriptors, _, _ = socket.recv_fds(self._connection, 1, 1)
        except OSError:
            descriptors = []
        if not descriptors:
            raise Fault("the zygote forker is gone")
        pidfd = descriptors[0]

        def end() -> None:
            with suppress(ProcessLookupError):  # it ended by itself
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            select.select([pidfd], [], [])
            os.close(pidfd)

        return end


@dataclass(frozen=True)
class ProcessEnd:
    """How a policy process ended, as the kernel reports it."""

    signal: int
    exit_code: int
    cpu_s: float
    rss_kb: int


@dataclass(frozen=True)
class JailedProcess:
    """The descriptors of a new jailed process."""

    pidfd: int
    requests: int
    answers: int
    stdout: int
    stderr: int
    report: int


class Zygote:
    """A connection to one zygote, which forks jailed children. Not shared between threads."""

    def __init__(
        self,
        level: Level,
        checkpoints: Path,
        preload: tuple[str, ...] = NUMPY,
        max_landlock_abi: int | None = None,
        start: Starter = start_by_exec,
    ) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, zygote.MESSAGE_BYTES)
        self._end_zygote = start(theirs)
        theirs.close()
        self._control = ours
        settings = {
            "level": level,
            "checkpoints": os.path.realpath(checkpoints),
            "runtime": asdict(runtime()),
            "cores": sorted(os.sched_getaffinity(0)),
            "preload": preload,
            "uid": FIRST_POLICY_UID + os.getpid() % POLICY_UIDS,
            "max_landlock_abi": max_landlock_abi,
        }
        ours.send(json.dumps(settings).encode())
        hello = self._receive()[0]
        if "level" not in hello:
            self.close()
            reasons: dict[str, str] = {level: hello.get("refused", "the zygote died while starting")}
            raise IsolationUnavailable(reasons, errno=hello.get("errno"))
        self.level = Level(hello["level"])

    @classmethod
    def best(cls, levels: tuple[Level, ...], checkpoints: Path, start: Starter = start_by_exec) -> Self:
        """Start a zygote at the first of ``levels`` that works. No other level is ever tried. If a shortage of
        resources made one of them fail, the error is marked as temporary."""
        reasons: dict[str, str] = {}
        passing: int | None = None
        for level in levels:
            try:
                return cls(level, checkpoints, start=start)
            except IsolationUnavailable as error:
                reasons |= error.reasons
                passing = passing or (error.errno if error.errno in TEMPORARY else None)
        raise IsolationUnavailable(reasons, errno=passing)

    def spawn(self, checkpoint: str, limits: Limits, key: bytes, assignment: Mapping[str, Any]) -> JailedProcess:
        """Start a confined process that loads ``checkpoint`` (a folder in ``checkpoints``). Raises Fault if the jail
        fails."""
        (their_requests, requests), (answers, their_answers) = os.pipe(), os.pipe()
        stdout, stderr, report = _memory_file(STDIO_BYTES), _memory_file(STDIO_BYTES), _memory_file(REPORT_BYTES)
        request = {"checkpoint": checkpoint, "limits": asdict(limits), "randomness_key": key.hex(), **assignment}
        data = json.dumps(request).encode()
        if len(data) > zygote.MESSAGE_BYTES // 2:
            raise Fault(f"the spaces of the task take {len(data)} bytes to describe, which is too much")
        try:
            theirs = [stdout, stderr, their_requests, their_answers, report]
            socket.send_fds(self._control, [data], theirs)
        except OSError as error:
            raise Fault(f"the zygote is gone: {error}") from error
        os.close(their_requests)
        os.close(their_answers)
        reply, descriptors = self._receive()
        if not descriptors:
            raise Fault("the zygote died while it forked a policy process")
        child = JailedProcess(descriptors[0], requests, answers, stdout, stderr, report)
        if reply["refused"]:
            self.end(child)
            raise Fault(f"a layer of the jail failed: {reply['refused']}")
        return child

    def end(self, child: JailedProcess) -> ProcessEnd:
        """Kill the process, wait for its exit status, close its descriptors."""
        with suppress(ProcessLookupError):  # it ended by itself
            signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
        message, _ = self._receive()
        if "ended" not in message:
            raise Fault("the zygote died while a policy was running")
        for descriptor in astuple(child):
            os.close(descriptor)
        status = message["status"]
        return ProcessEnd(
            os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
            message["cpu_s"],
            message["rss_kb"],
        )

    def close(self) -> None:
        self._control.close()
        self._end_zygote()

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, zygote.MESSAGE_BYTES, 1)
        except ConnectionError:
            message, descriptors = b"", []
        return (json.loads(message) if message else {}), descriptors


def _memory_file(size: int) -> int:
    """Create a file of fixed size in memory: a flood of output neither blocks the policy nor uses memory of the
    judge."""
    descriptor = os.memfd_create("stdio", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEAL_SIZE)
    return descriptor
