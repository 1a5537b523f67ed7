"""Run a command in a process in which the kernel refuses some system calls, as on a hardened host or container."""

from __future__ import annotations

import errno
import platform
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from evopolicygym.sandbox import kernel
from evopolicygym.sandbox.seccomp import ALLOW, JUMP_EQUAL, LOAD, NUMBER, RETURN, apply, op

NUMBERS = {
    "x86_64": {"unshare": 272, "landlock": 444, "seccomp": 317},
    "aarch64": {"unshare": 97, "landlock": 444, "seccomp": 277},
}[platform.machine()]
REFUSE = 0x0005_0000


def block_syscalls(calls: Sequence[str], number: int = errno.EPERM) -> Callable[[], None]:
    """Return a ``preexec_fn`` after which these calls fail with this error, in all descendants too."""
    program = [op(LOAD, NUMBER)]
    for call in calls:
        program += [op(JUMP_EQUAL, NUMBERS[call], 0, 1), op(RETURN, REFUSE | number)]
    whole = b"".join([*program, op(RETURN, ALLOW)])

    def refuse() -> None:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        apply(whole)

    return refuse


def run_with_blocked(calls: Sequence[str], command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, preexec_fn=block_syscalls(calls), capture_output=True, text=True, **options)
