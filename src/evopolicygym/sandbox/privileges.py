"""Namespaces, private root, resource limits, user ids and privileges of confined processes: what the sandboxes of
policies and of agents share."""

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
# A folder that every Linux has and from which nothing is shown: the private root is mounted over it. Nothing is created
# on the host, so nothing is left behind however the process ends.
NEW_ROOT: Final = "/sys"


def enter_namespaces(flags: int, hostname: bytes) -> None:
    """Enter new namespaces: as root directly, otherwise in a user namespace of our own."""
    if os.geteuid() == 0:
        kernel.unshare(flags)
    else:
        _unshare_as_user(flags)
    kernel.sethostname(hostname)


def _unshare_as_user(flags: int) -> None:
    """Enter a user namespace as well, in which we keep our user and group id."""
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(flags | kernel.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def enter_root(flags: int) -> None:
    """Make NEW_ROOT the root, detach the host's root, and remount the new one with ``flags``."""
    os.chdir(NEW_ROOT)
    kernel.pivot_root(".", ".")
    kernel.detach(".")
    os.chdir("/")
    kernel.mount("none", "/", None, kernel.MS_BIND | kernel.MS_REMOUNT | flags)


def limit_resources(limits: Limits) -> None:
    """Set the kernel limits of this policy process. The limit of address space is the memory limit: a policy cannot
    fork, so this process is the whole policy."""
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


def switch_user(uid: int) -> None:
    """Root only: switch to a uid that owns nothing. Comes before the limit of threads, as the kernel does not limit
    uid 0."""
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise OSError(f"root cannot become another user here, such as uid {uid}: {error.strerror}") from error


def set_real_uid(uid: int) -> bool:
    """Root without a private root: keep root's access to files, but set a real uid of its own, by which the kernel
    counts processes (it does not limit uid 0). Returns False where that is impossible: a container may not let root
    change its uid, a user namespace may have no other uid."""
    try:
        os.setresuid(uid, 0, 0)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EINVAL):
            raise
        return False
    return True


def limit_threads(others: int = 0) -> None:
    """Limit threads. The kernel counts by user: ``others`` is how many tasks the user has besides the policy's."""
    limit = others + THREADS
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def count_tasks(uid: int) -> int:
    """Return how many processes and threads a user has now."""
    total = 0
    for process in os.scandir("/proc"):
        with suppress(OSError):  # not a process, or no longer one
            if process.name.isdigit() and process.stat().st_uid == uid:
                total += len(os.listdir(f"{process.path}/task"))
    return total


def drop_privileges() -> None:
    """Drop capabilities and the right to gain new ones. The zygote has emptied the bounding set, which takes
    privilege."""
    kernel.clear_capabilities()
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
