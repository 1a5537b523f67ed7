"""What attacks share: what they were told of the host, raw system calls, and how to know a secret when they see one."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import platform
import re
import struct
import sys
from collections.abc import Callable
from typing import Any

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "facts.json")) as _file:
    FACTS: dict[str, Any] = json.load(_file)

CHANNEL = 3  # the descriptor of the socket to the judge
HEAD = struct.Struct("<II")  # of a frame: operation, nonce
READY, RESET, STEP, ERROR = 1, 2, 3, 4
MASK = 0x5A5A_5A5A_5A5A_5A5A
REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)

observation: Any = None  # the latest, set by policy.py
step = 0

# name: x86_64, aarch64
NUMBERS = {
@TABLE@
}
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(name: str, *arguments: Any) -> int:
    """By name; the result, or minus the error number."""
    return numbered(NUMBERS[name][platform.machine() == "aarch64"], *arguments)


def numbered(number: int, *arguments: Any) -> int:
    words = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(libc.syscall(ctypes.c_long(number), *words))
    return result if result >= 0 else -ctypes.get_errno()


def reached(name: str, *arguments: Any) -> bool:
    """Whether the call got as far as the kernel's own code: any answer but a refusal, be it "invalid argument"."""
    answer = syscall(name, *arguments)
    if -answer in REFUSED:
        return False
    print(f"{name} was reached: {answer}", file=sys.stderr)
    return True


def any_works(*attempts: Callable[[], Any]) -> bool:
    """Make every attempt; whether one went through, which is to return anything but False."""
    won = False
    for number, attempt in enumerate(attempts):
        try:
            answer = attempt()
        except Exception as error:
            answer = False
            print(f"attempt {number}: {error!r}", file=sys.stderr)
        if answer is not False:
            won = True
            print(f"attempt {number} worked: {answer!r}", file=sys.stderr)
    return won


def is_secret(data: bytes | str) -> bool:
    """Whether the canary is in there. Attacks know only its hash, or they would find their own knowledge of it."""
    text = data if isinstance(data, bytes) else data.encode(errors="replace")
    found = re.finditer(rb"canary-[0-9a-f]{32}", text)
    return any(hashlib.sha256(match[0]).hexdigest() == FACTS["canary_sha256"] for match in found)


def reads_secret(path: str) -> bool:
    with open(path, "rb") as file:
        return is_secret(file.read())


def disguised_seed() -> int:
    """The seed of the case, masked: compare ``candidate ^ MASK`` with it, and the seed itself is never written down."""
    return int.from_bytes(bytes(observation[:8]), "little")


def nonce() -> int:
    """Of the question that is being answered, from the frames of the harness."""
    frame = sys._getframe()
    while "nonce" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    return int(frame.f_locals["nonce"])


def answer(discrete: int, first: float = 0.0, second: float = 0.0) -> bytes:
    """An action as the harness would encode it."""
    return struct.pack("<qff", discrete, first, second)
