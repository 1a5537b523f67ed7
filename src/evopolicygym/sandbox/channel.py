"""The trusted side of one policy process: ask, wait with a deadline, check every byte that comes back."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from evopolicygym.limits import WALL_FACTOR, Limits
from evopolicygym.sandbox.actions import action_decoder
from evopolicygym.sandbox.codec import Schema, action_size, observation_encoder
from evopolicygym.sandbox.failures import ErrorKind, PolicyFailure
from evopolicygym.sandbox.launcher import Child, Ended, Zygote
from evopolicygym.sandbox.wire import ERROR_TEXT_BYTES, HEAD, STAGES, STDIO_BYTES, Op

TICK_S: Final = 0.05  # how often a waiting judge looks at the CPU clock of a silent policy
NONCES: Final = 1024


@dataclass(frozen=True)
class Leftovers:
    """What remains when a policy process is gone."""

    ended: Ended
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Contract:
    """What both ends agree on before the first frame."""

    obs_space: Schema
    action_space: Schema
    env_meta: Mapping[str, Any]

    def as_assignment(self) -> dict[str, Any]:
        return {"obs_space": self.obs_space, "action_space": self.action_space, "env_meta": self.env_meta}


class PolicyProcess:
    """One fresh policy process, for one episode."""

    def __init__(self, zygote: Zygote, checkpoint: str, contract: Contract, limits: Limits, key: bytes) -> None:
        self._zygote, self._limits = zygote, limits
        self._child = zygote.spawn(checkpoint, limits, key, contract.as_assignment())
        self._socket = self._child.channel
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, int(TICK_S * 1e6)))
        self._started = time.monotonic()
        self._clock = 0
        self._encode = observation_encoder(contract.obs_space)
        self._decode = action_decoder(contract.action_space)
        self._answer_bytes = HEAD.size + action_size(contract.action_space)
        self._buffer = bytearray(max(self._answer_bytes, HEAD.size + ERROR_TEXT_BYTES) + 1)
        self._nonces: list[int] = []
        self._left: Leftovers | None = None
        self.clipped_actions = 0

    def wait_ready(self) -> None:
        """Until the policy is imported and constructed."""
        self._expect(Op.READY, 0, HEAD.size, self._limits.init_cpu_s, ErrorKind.INIT_TIMEOUT)

    def reset(self) -> None:
        nonce = self._send(Op.RESET, b"")
        self._expect(Op.RESET, nonce, HEAD.size, self._limits.act_cpu_s, ErrorKind.TIMEOUT)

    def act(self, observation: Any) -> Any:
        nonce = self._send(Op.STEP, self._encode(observation))
        self._expect(Op.STEP, nonce, self._answer_bytes, self._limits.act_cpu_s, ErrorKind.TIMEOUT)
        action, clipped = self._decode(self._buffer, HEAD.size)
        self.clipped_actions += clipped
        return action

    def close(self) -> Leftovers:
        """Kill the process and collect what it printed."""
        self._end()
        assert self._left is not None
        return self._left

    def _send(self, op: Op, payload: Any) -> int:
        if not self._nonces:
            self._check_episode_clock()
            self._nonces = list(struct.unpack(f"<{NONCES}I", os.urandom(4 * NONCES)))
        nonce = self._nonces.pop()
        try:
            self._socket.sendmsg((HEAD.pack(op, nonce), payload))
        except (BrokenPipeError, ConnectionResetError):
            pass  # it is gone; what it said last is waiting to be received
        return nonce

    def _expect(self, op: Op, nonce: int, size: int, cpu_s: float, late: ErrorKind) -> None:
        received = self._receive(cpu_s, late)
        if received == size and HEAD.unpack_from(self._buffer) == (op, nonce):
            return
        if received == 0:
            raise self._death()
        raise self._complaint(received) or PolicyFailure(
            ErrorKind.CRASH,
            f"the policy process broke the exchange: a frame of {received} bytes came where {size} were due; only "
            "the harness may write to the descriptors it did not open",
        )

    def _receive(self, cpu_s: float, late: ErrorKind) -> int:
        try:
            return self._socket.recv_into(self._buffer)
        except BlockingIOError:
            return self._wait(cpu_s, late)
        except ConnectionResetError:
            return 0

    def _wait(self, cpu_s: float, late: ErrorKind) -> int:
        """The slow path: the first tick passed in silence, so from now on the clocks are watched."""
        began, cpu_before = time.monotonic() - TICK_S, self._cpu_s()
        while True:
            try:
                return self._socket.recv_into(self._buffer)
            except ConnectionResetError:
                return 0
            except BlockingIOError:
                self._check_clocks(cpu_s, cpu_before, began, late)

    def _check_clocks(self, cpu_s: float, cpu_before: float, began: float, late: ErrorKind) -> None:
        cpu, now = self._cpu_s(), time.monotonic()
        if cpu - cpu_before > cpu_s:
            raise PolicyFailure(late, f"no answer within {cpu_s:g} s of CPU time")
        if now - began > cpu_s * WALL_FACTOR:
            raise PolicyFailure(late, f"no answer within {cpu_s * WALL_FACTOR:g} s of wall time")
        self._check_episode_clock()

    def _check_episode_clock(self) -> None:
        """The wall-time backstop over a whole episode; the kernel itself ends the process at its CPU limit."""
        if time.monotonic() - self._started > self._limits.episode_cpu_s * WALL_FACTOR:
            limit = self._limits.episode_cpu_s * WALL_FACTOR
            raise PolicyFailure(ErrorKind.TIMEOUT, f"the episode took more than {limit:g} s of wall time")

    def _cpu_s(self) -> float:
        if not self._clock:
            self._clock = (~_pid_of(self._child.pidfd) << 3) | 2  # the kernel's name for a process's CPU clock
        try:
            return time.clock_gettime(self._clock)
        except OSError:
            return 0.0  # it has just ended; the socket says so next

    def _complaint(self, received: int) -> PolicyFailure | None:
        """What the policy process says of its own failure."""
        if received < HEAD.size or received == len(self._buffer):
            return None
        op, stage = HEAD.unpack_from(self._buffer)
        if op != Op.ERROR or stage >= len(STAGES):
            return None
        text = bytes(self._buffer[HEAD.size : received]).decode(errors="replace")
        kind = ErrorKind(STAGES[stage].value)
        return PolicyFailure(
            kind, f"out of memory ({self._limits.memory_mb} MiB)\n{text}" if kind is ErrorKind.OOM else text
        )

    def _death(self) -> PolicyFailure:
        """The socket closed without a word: the kernel knows why."""
        if not _exited(self._child, within_s=0.5):
            return PolicyFailure(ErrorKind.CRASH, "the policy closed its channel to the judge")
        ended = self._end()
        limit = self._limits.episode_cpu_s
        if ended.signal == signal.SIGKILL and ended.cpu_s >= limit - 1:
            return PolicyFailure(ErrorKind.TIMEOUT, f"the policy used up its {limit:g} s of CPU time for one episode")
        if ended.signal:
            return PolicyFailure(ErrorKind.CRASH, f"the policy process died of signal {ended.signal}")
        return PolicyFailure(ErrorKind.CRASH, f"the policy process exited with code {ended.exit_code}")

    def _end(self) -> Ended:
        if self._left is None:
            stdout, stderr = _text(self._child.stdout), _text(self._child.stderr)
            self._left = Leftovers(self._zygote.end(self._child), stdout, stderr)
        return self._left.ended


def _exited(child: Child, within_s: float) -> bool:
    return bool(select.select([child.pidfd], [], [], within_s)[0])


def _pid_of(pidfd: int) -> int:
    """The process's pid as seen from here; the zygote's own number for it is of another namespace."""
    with open(f"/proc/self/fdinfo/{pidfd}") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))


def _text(descriptor: int) -> str:
    return os.pread(descriptor, STDIO_BYTES, 0).rstrip(b"\0").decode(errors="replace")
