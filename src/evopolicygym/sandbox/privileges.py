"""Kernel limits and identity of a policy process."""

from __future__ import annotations

import errno
import math
import os
import resource
from contextlib import suppress
from typing import Final

from evopolicygym.limits import Limits
from evopolicygym.sandbox import kernel

MIB: Final = 1 << 20
OPEN_FILES: Final = 64
THREADS: Final = 64
FIRST_POLICY_UID: Final = 210_000
POLICY_UIDS: Final = 50_000


def bound_resources(limits: Limits) -> None:
    """Kernel limits of this process. Address space is the memory limit: it cannot fork, so it is the whole policy."""
    cpu = math.ceil(limits.episode_cpu_s)
    memory = limits.memory_mb * MIB
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_FSIZE, MIB),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        try:
            resource.setrlimit(kind, (value, value))
        except (OSError, ValueError) as error:
            hard = resource.getrlimit(kind)[1]
            raise OSError(
                f"resource limit {kind} cannot be set to {value}: this process has {hard} (ulimit)"
            ) from error


def become_nobody(uid: int) -> None:
    """Root only: a uid that owns nothing. The kernel does not count processes of uid 0, so this comes first."""
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise OSError(f"root cannot become another user here, such as uid {uid}: {error.strerror}") from error


def be_counted_apart(uid: int) -> bool:
    """Root without a private root: still root to the files it may read, but a user of its own to the kernel's count of
    processes, which is by real uid and knows no limit for uid 0. False where there is no such user: a container may not
    let root change its uid, a namespace may have no other."""
    try:
        os.setresuid(uid, 0, 0)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EINVAL):
            raise
        return False
    return True


def bound_threads(others: int = 0) -> None:
    """The kernel counts by user: where that user is not the policy's alone, the ``others`` are not held against it."""
    limit = others + THREADS
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def tasks_of(uid: int) -> int:
    """Processes and threads of a user, now."""
    total = 0
    for process in os.scandir("/proc"):
        with suppress(OSError):  # not a process, or no longer one
            if process.name.isdigit() and process.stat().st_uid == uid:
                total += len(os.listdir(f"{process.path}/task"))
    return total


def give_up_privileges() -> None:
    """The bounding set was emptied by the zygote: a user that owns nothing may not do that."""
    kernel.clear_capabilities()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
