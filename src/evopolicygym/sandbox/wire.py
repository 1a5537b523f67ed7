"""Frames between the judge and one policy process: one SOCK_SEQPACKET message each, the kernel keeps their bounds.

Every request carries a random nonce that the answer must repeat, so that an answer cannot be sent before its question.
"""

from __future__ import annotations

import struct
from enum import IntEnum, StrEnum
from typing import Final

HEAD: Final = struct.Struct("<II")  # operation, nonce
ERROR_TEXT_BYTES: Final = 16 * 1024
STDIO_BYTES: Final = 64 * 1024


class Op(IntEnum):
    READY = 1
    RESET = 2
    STEP = 3
    ERROR = 4


class Stage(StrEnum):
    """How far a policy had come when it failed: what it can say of itself. The judge turns it into an error kind."""

    DENIED_IMPORT = "denied_import"
    IMPORT = "import_error"
    INIT = "init_error"
    RESET = "reset_error"
    ACT = "act_error"
    INVALID_ACTION = "invalid_action"
    OOM = "oom"


STAGES: Final = tuple(Stage)


def error_frame(stage: Stage, text: str) -> bytes:
    return HEAD.pack(Op.ERROR, STAGES.index(stage)) + clip(text).encode(errors="replace")[:ERROR_TEXT_BYTES]


def clip(text: str, limit: int = ERROR_TEXT_BYTES // 2) -> str:
    """Keep both ends of a long text: a traceback says where at the top and what at the bottom."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n... {len(text) - limit} characters left out ...\n{text[-limit // 2 :]}"
