"""The trusted side of one policy process: send a request, wait, check every byte that comes back.

The step is the hottest path of the whole system, and after each context switch it runs on cold caches. So it is a
handful of plain calls, and everything that can be done before or elsewhere is. Deadlines are enforced by the watchdog,
from another thread: it kills a process that is late, and here the pipe just ends.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import FileIO
from os import write
from typing import Any, Final

from evopolicygym.errors import Fault
from evopolicygym.limits import Limits
from evopolicygym.sandbox.policy.action_decoder import Clipped, action_decoder
from evopolicygym.sandbox.policy.codec import Schema, action_size, observation_encoder
from evopolicygym.sandbox.policy.protocol import (
    HEAD_BYTES,
    READY,
    REPORT_BYTES,
    STDIO_BYTES,
    ErrorKind,
    PolicyFailure,
    failed_stage,
)
from evopolicygym.sandbox.policy.watchdog import ProcessWatch, watchdog
from evopolicygym.sandbox.policy.zygote_client import JailedProcess, ProcessEnd, Zygote

NONCES: Final = 64
MAX_RECORD_BYTES: Final = 64 << 20  # answers of one episode that are kept, to repeat it without its policy


@dataclass(frozen=True)
class ProcessResult:
    """Result of a finished policy process. ``waited_s``: wall time in which an answer of it was due;
    ``init_cpu_s``: CPU time until it was ready."""

    ended: ProcessEnd
    stdout: str
    stderr: str
    waited_s: float = 0.0
    init_cpu_s: float = 0.0


@dataclass(frozen=True)
class PolicyArguments:
    """The arguments of ``Policy.__init__``. Both ends derive the layout of the frames from them."""

    obs_space: Schema
    action_space: Schema
    env_meta: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"obs_space": self.obs_space, "action_space": self.action_space, "env_meta": self.env_meta}


class RecordedActions:
    """The recorded actions of one episode, to repeat it without its policy. They are decoded again, because an
    environment may have altered the actions that it was given."""

    def __init__(self, arguments: PolicyArguments, answers: bytes) -> None:
        buffer = bytearray(HEAD_BYTES + action_size(arguments.action_space) + 1)
        self._encode = observation_encoder(arguments.obs_space)
        self._decode = action_decoder(arguments.action_space, Clipped(), buffer, HEAD_BYTES)
        self._buffer, self._answers, self._next = buffer, answers, 0

    def reset(self, observation: Any) -> None:
        self._encode(observation)  # an observation that cannot be sent is an error of the simulator here, too

    def first_action(self) -> Any:
        start, self._next = self._next, self._next + len(self._buffer)
        if self._next > len(self._answers):
            raise Fault("the repeated episode continued after the step at which it had raised")
        self._buffer[:] = self._answers[start : self._next]
        return self._decode()

    def act(self, observation: Any) -> Any:
        self._encode(observation)
        return self.first_action()

    def cpu_now(self) -> float:
        """Return 0: there is no process."""
        return 0.0


class PolicyProcess:
    """One fresh policy process, for one episode. Its answers are kept as they came, up to ``MAX_RECORD_BYTES``."""

    def __init__(self, zygote: Zygote, checkpoint: str, arguments: PolicyArguments, limits: Limits, key: bytes) -> None:
        self._zygote, self._limits, self._arguments = zygote, limits, arguments
        self._encode = observation_encoder(arguments.obs_space)
        self._clipped = Clipped()
        self._answer_bytes = HEAD_BYTES + action_size(arguments.action_space)
        self._buffer = bytearray(self._answer_bytes + 1)  # one more, so that too many bytes are noticed
        self._decode = action_decoder(arguments.action_space, self._clipped, self._buffer, HEAD_BYTES)
        self._nonces = _fresh_nonces()
        self._answers: bytearray | None = bytearray()
        self._record: Callable[[bytearray], None] = self._answers.extend
        self._result: ProcessResult | None = None
        self._init_cpu_s = 0.0
        self._child = zygote.spawn(checkpoint, limits, key, arguments.as_json())
        self._requests = self._child.requests
        self._readinto = FileIO(self._child.answers, closefd=False).readinto
        self._watch = ProcessWatch(self._child.pidfd, limits.episode_cpu_s)
        watchdog().watch(self._watch)

    def wait_ready(self) -> None:
        """Wait until the policy is imported and constructed."""
        self._watch.expect_within(self._limits.init_cpu_s, ErrorKind.INIT_TIMEOUT)
        self._watch.question = READY
        self._expect(READY, self._receive())
        self._init_cpu_s = self._watch.cpu_now()

    def reset(self, observation: Any) -> None:
        """Reset, and request the first action in the same message, which saves a context switch."""
        self._watch.expect_within(self._limits.act_cpu_s, ErrorKind.TIMEOUT)
        nonce = self._watch.question = self._nonces.pop()
        self._send(nonce + self._nonces[-1] + self._encode(observation))
        self._expect(nonce, self._receive())

    def first_action(self) -> Any:
        nonce = self._watch.question = self._nonces.pop()
        received = self._readinto(self._buffer)
        self._watch.question = None
        self._receive_rest(nonce, received)
        self._record(self._buffer)
        return self._decode()

    def act(self, observation: Any) -> Any:
        nonces, watch, buffer = self._nonces, self._watch, self._buffer
        nonce = watch.question = nonces.pop()
        try:
            write(self._requests, nonce + self._encode(observation))
        except BrokenPipeError:
            pass  # the process is gone; its last answer can still be received
        received = self._readinto(buffer)
        watch.question = None
        if received != self._answer_bytes or buffer[:HEAD_BYTES] != nonce:
            self._receive_rest(nonce, received)
        self._record(buffer)
        if not nonces:
            nonces += _fresh_nonces()
            self._limit_record()
        return self._decode()

    @property
    def clipped_actions(self) -> int:
        return self._clipped.count

    def cpu_now(self) -> float:
        """Return the CPU time that the process has used; 0 once it has ended."""
        return self._watch.cpu_now()

    def recorded(self) -> RecordedActions | None:
        """Return all actions of the episode, or None if they were too many to keep."""
        return None if self._answers is None else RecordedActions(self._arguments, bytes(self._answers))

    def close(self) -> ProcessResult:
        """Kill the process and collect what it printed."""
        self._end()
        assert self._result is not None
        return self._result

    def _limit_record(self) -> None:
        if self._answers is not None and len(self._answers) > MAX_RECORD_BYTES:
            self._answers, self._record = None, _discard

    def _send(self, frame: bytes) -> None:
        try:
            write(self._requests, frame)
        except BrokenPipeError:
            pass  # the process is gone; its last answer can still be received

    def _receive(self) -> int:
        """Receive an answer without an action. Bytes that follow it stay in the pipe."""
        received = self._readinto(memoryview(self._buffer)[:HEAD_BYTES])
        self._watch.question = None
        return received

    def _expect(self, expected: bytes, received: int) -> None:
        if self._buffer[:received] != expected:
            raise self._failure(received, len(expected))

    def _receive_rest(self, nonce: bytes, received: int) -> None:
        """Receive the rest of an answer that is longer than the pipe's capacity, within the same deadline. Anything
        else is a failure."""
        while HEAD_BYTES < received < self._answer_bytes and self._buffer[:HEAD_BYTES] == nonce:
            self._watch.question = nonce
            more = self._readinto(memoryview(self._buffer)[received:])
            self._watch.question = None
            if not more:
                raise self._death()
            received += more
        if received != self._answer_bytes or self._buffer[:HEAD_BYTES] != nonce:
            raise self._failure(received, self._answer_bytes)

    def _failure(self, received: int, expected: int) -> PolicyFailure:
        if received == 0:
            return self._death()
        stage = failed_stage(bytes(self._buffer[:received]))
        if stage is None:
            return PolicyFailure(
                ErrorKind.CRASH,
                f"the policy process broke the exchange: {received} bytes came where {expected} were due, or the wrong "
                "ones; only the judge's own code may use descriptors that a policy did not open",
            )
        kind, text = ErrorKind(stage.value), _text(self._child.report, REPORT_BYTES)
        return PolicyFailure(kind, f"out of memory ({self._limits.memory_mb} MiB)\n{text}" if kind == "oom" else text)

    def _death(self) -> PolicyFailure:
        """Return why the pipe ended without an answer, from the watchdog or the exit status."""
        if self._watch.verdict:
            return self._watch.verdict
        if not _exited(self._child, within_s=0.5):
            return PolicyFailure(ErrorKind.CRASH, "the policy closed its channel to the judge")
        ended = self._end()
        limit = self._limits.episode_cpu_s
        # The kernel's limit counts in ticks of its clock: on a busy machine too many, 3 s for 1.92 s that were used.
        if ended.signal == signal.SIGKILL and ended.cpu_s >= limit / 2:
            return PolicyFailure(ErrorKind.TIMEOUT, f"the policy used up its {limit:g} s of CPU time for one episode")
        if ended.signal:
            return PolicyFailure(ErrorKind.CRASH, f"the policy process died of signal {ended.signal}")
        return PolicyFailure(ErrorKind.CRASH, f"the policy process exited with code {ended.exit_code}")

    def _end(self) -> ProcessEnd:
        if self._result is None:
            watchdog().leave(self._watch)
            stdout, stderr = (_text(fd, STDIO_BYTES) for fd in (self._child.stdout, self._child.stderr))
            ended, waited_s = self._zygote.end(self._child), self._watch.waited_s
            self._result = ProcessResult(ended, stdout, stderr, waited_s, self._init_cpu_s)
        return self._result.ended


class TimedPolicy:
    """A policy whose CPU time is read after every action. That costs a system call, so only recorded episodes are
    timed. ``longest_cpu_s`` is the most that one action took; the first includes ``Policy.reset``."""

    def __init__(self, policy: PolicyProcess | RecordedActions) -> None:
        self._policy, self.longest_cpu_s = policy, 0.0
        self._cpu_then = policy.cpu_now()

    def reset(self, observation: Any) -> None:
        self._cpu_then = self._policy.cpu_now()
        self._policy.reset(observation)

    def first_action(self) -> Any:
        action = self._policy.first_action()
        self._note()
        return action

    def act(self, observation: Any) -> Any:
        action = self._policy.act(observation)
        self._note()
        return action

    def _note(self) -> None:
        now = self._policy.cpu_now()
        self.longest_cpu_s, self._cpu_then = max(self.longest_cpu_s, now - self._cpu_then), now


def _discard(answer: bytearray) -> None:
    pass


def _fresh_nonces() -> list[bytes]:
    """Return unpredictable nonces, from the kernel: a simulator or policy could share any other generator."""
    data = os.urandom(NONCES * HEAD_BYTES)
    return [data[i : i + HEAD_BYTES] for i in range(0, len(data), HEAD_BYTES)]


def _exited(child: JailedProcess, within_s: float) -> bool:
    return bool(select.select([child.pidfd], [], [], within_s)[0])


def _text(descriptor: int, size: int) -> str:
    if not os.fstat(descriptor).st_blocks:
        return ""  # nothing was written, so there is no need to strip all the zeros
    return os.pread(descriptor, size, 0).rstrip(b"\0").decode(errors="replace")
