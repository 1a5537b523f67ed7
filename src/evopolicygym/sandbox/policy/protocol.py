"""The protocol between the judge and one policy process: frames over two pipes, and how a policy can fail.

Pipes are the cheapest blocking exchange: a round trip is two context switches and little else. They keep no message
bounds, and need none: every frame has a length that follows from the spaces, each end sends only when it is its turn,
and every request begins with eight random bytes (the nonce) that its answer must repeat. So an answer cannot be sent
before its request, and too many or too few bytes are a protocol error.

    judge -> policy    nonce                 reset (once: a process plays one episode); the first step follows at once
                       nonce, observation    step
    policy -> judge    READY                 imported and constructed
                       nonce                 has been reset
                       nonce, action         has acted
                       ERROR + stage         has failed; the text is in the report file
"""

from __future__ import annotations

import struct
from enum import StrEnum
from typing import Final

HEAD_BYTES: Final = 8
READY: Final = b"policy\0\0"
ERROR: Final = struct.Struct("<4sI")
ERROR_MARK: Final = b"\xffERR"

# Descriptors of a policy process besides stdin, stdout and stderr.
REQUESTS_FD: Final = 3
ANSWERS_FD: Final = 4
REPORT_FD: Final = 5

STDIO_BYTES: Final = 64 * 1024
REPORT_BYTES: Final = 16 * 1024


class Stage(StrEnum):
    """The stage at which a policy failed, as the policy process reports it. The judge maps it to an ErrorKind."""

    DENIED_IMPORT = "denied_import"
    IMPORT = "import_error"
    INIT = "init_error"
    RESET = "reset_error"
    ACT = "act_error"
    INVALID_ACTION = "invalid_action"
    OOM = "oom"


STAGES: Final = tuple(Stage)


class ErrorKind(StrEnum):
    """How an episode, or the load of a policy, can fail: a closed list."""

    MISSING_POLICY = "missing_policy"
    DENIED_IMPORT = "denied_import"
    IMPORT_ERROR = "import_error"
    INIT_ERROR = "init_error"
    INIT_TIMEOUT = "init_timeout"
    RESET_ERROR = "reset_error"
    ACT_ERROR = "act_error"
    INVALID_ACTION = "invalid_action"
    TIMEOUT = "timeout"
    OOM = "oom"
    CRASH = "crash"
    SIMULATOR_ERROR = "simulator_error"


class PolicyFailure(Exception):
    """A failure of the policy, with a text for its author."""

    def __init__(self, kind: ErrorKind, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text


def error_frame(stage: Stage) -> bytes:
    return ERROR.pack(ERROR_MARK, STAGES.index(stage))


def failed_stage(frame: bytes) -> Stage | None:
    """Return the stage of an error frame; None for any other bytes."""
    if len(frame) != ERROR.size:
        return None
    mark, stage = ERROR.unpack(frame)
    return STAGES[stage] if mark == ERROR_MARK and stage < len(STAGES) else None


def clip(text: str, limit: int = REPORT_BYTES // 2) -> str:
    """Shorten a long text but keep both ends: a traceback has the origin at the top and the error at the bottom."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n... {len(text) - limit} characters left out ...\n{text[-limit // 2 :]}"
