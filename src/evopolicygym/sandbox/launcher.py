"""The trusted side of the zygote: start one at the best level that holds, and ask it for policy processes."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, Final, Self

from evopolicygym.errors import Fault, IsolationUnavailable
from evopolicygym.limits import Limits
from evopolicygym.sandbox import zygote
from evopolicygym.sandbox.jail import Level
from evopolicygym.sandbox.privileges import FIRST_POLICY_UID, POLICY_UIDS
from evopolicygym.sandbox.runtime import runtime
from evopolicygym.sandbox.wire import REPORT_BYTES, STDIO_BYTES

CLEAN_ENVIRONMENT: Final = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
FLAGS: Final = ("-P", "-s", "-S", "-B")  # not -I: it would ignore PYTHONHASHSEED, and the environment is ours anyway
NUMPY: Final = ("numpy", "numpy.random", "scipy")
SCIPY: Final = (*NUMPY, "scipy.linalg", "scipy.optimize", "scipy.signal", "scipy.spatial", "scipy.sparse")
SEAL_SIZE: Final = 0x2 | 0x4  # F_SEAL_SHRINK | F_SEAL_GROW


@dataclass(frozen=True)
class Ended:
    """How a policy process ended, by the kernel's word."""

    signal: int
    exit_code: int
    cpu_s: float
    rss_kb: int


@dataclass(frozen=True)
class Child:
    """A jailed process, before anybody has spoken to it."""

    pidfd: int
    requests: int
    answers: int
    stdout: int
    stderr: int
    report: int


class Zygote:
    """One clean process that forks jailed children. Not shared between threads."""

    def __init__(
        self, level: Level, stage: Path, preload: tuple[str, ...] = NUMPY, max_landlock_abi: int | None = None
    ) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, zygote.MESSAGE_BYTES)
        own = runtime()
        self._process = subprocess.Popen(
            [own.python, *FLAGS, zygote.__file__, own.harness, own.site, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=CLEAN_ENVIRONMENT,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=sys.stderr if os.environ.get("EVOPOLICYGYM_DEBUG") else subprocess.DEVNULL,
        )
        theirs.close()
        self._control = ours
        settings = {
            "level": level,
            "stage": os.path.realpath(stage),
            "runtime": asdict(own),
            "preload": preload,
            "uid": FIRST_POLICY_UID + os.getpid() % POLICY_UIDS,
            "max_landlock_abi": max_landlock_abi,
        }
        ours.send(json.dumps(settings).encode())
        hello = self._receive()[0]
        if "level" not in hello:
            self.close()
            raise IsolationUnavailable({level: hello.get("refused", "the zygote died while starting")})
        self.level = Level(hello["level"])

    @classmethod
    def best(cls, levels: tuple[Level, ...], stage: Path, preload: tuple[str, ...] = NUMPY) -> Self:
        """The first of ``levels`` that holds. What was asked for is tried; nothing below it ever is."""
        reasons: dict[str, str] = {}
        for level in levels:
            try:
                return cls(level, stage, preload)
            except IsolationUnavailable as error:
                reasons |= error.reasons
        raise IsolationUnavailable(reasons)

    def spawn(self, checkpoint: str, limits: Limits, key: bytes, assignment: Mapping[str, Any]) -> Child:
        """A confined process that loads ``checkpoint`` (a folder name of the stage). Raises Fault if the jail fails."""
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
        child = Child(descriptors[0], requests, answers, stdout, stderr, report)
        if reply["refused"]:
            self.end(child)
            raise Fault(f"a layer of the jail did not take: {reply['refused']}")
        return child

    def end(self, child: Child) -> Ended:
        """Kill, wait for the kernel's word, close everything."""
        try:
            signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it ended by itself
        message, _ = self._receive()
        if "ended" not in message:
            raise Fault("the zygote died while a policy was running")
        for descriptor in astuple(child):
            os.close(descriptor)
        status = message["status"]
        return Ended(
            os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
            message["cpu_s"],
            message["rss_kb"],
        )

    def close(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, zygote.MESSAGE_BYTES, 1)
        except ConnectionError:
            message, descriptors = b"", []
        return (json.loads(message) if message else {}), descriptors


def _memory_file(size: int) -> int:
    """A file of fixed size in memory: a flood of output neither blocks the policy nor grows anything of ours."""
    descriptor = os.memfd_create("stdio", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEAL_SIZE)
    return descriptor
