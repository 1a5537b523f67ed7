"""The jail of policies: isolation levels, what each leaves open, the order in which the layers are applied, and the
private root of level A."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from evopolicygym.limits import Limits
from evopolicygym.sandbox import kernel, landlock, seccomp
from evopolicygym.sandbox.package_scan import is_beneath
from evopolicygym.sandbox.policy import syscall_filter
from evopolicygym.sandbox.privileges import (
    NEW_ROOT,
    drop_privileges,
    enter_namespaces,
    enter_root,
    limit_resources,
    limit_threads,
    set_real_uid,
    switch_user,
)
from evopolicygym.sandbox.runtime import Runtime


class Level(StrEnum):
    """Isolation level of a policy. Results of A and B are publishable, those of NONE are not."""

    A = "A"
    B = "B"
    NONE = "none"


MEANING: Final = {
    Level.A: "namespaces + private root + Landlock + seccomp + limits",
    Level.B: "Landlock + seccomp + limits, no namespaces (the existence of host paths can be probed with stat)",
    Level.NONE: "a separate process with limits only: not publishable",
}
RESIDUES: Final = {
    Level.A: (
        "bits can be left for a later episode in the kernel's caches of files and names, and be read by the time that "
        "a lookup or a first read takes",
        "the load of the machine, and traces in the caches of its processor, can be measured",
        "kernel exploits",
    ),
    Level.B: (
        "existence, size and times of host paths (stat)",
        "numbers that the kernel counts for the whole machine: of new threads, of inodes that a look into /proc makes",
        "times of last access of shown files, where the file system keeps them",
    ),
    Level.NONE: ("nothing is stopped but by limits: files, processes and network are the judge's",),
}
WRITABLE: Final = ("/dev/null",)


def residues(level: Level) -> tuple[str, ...]:
    """Describe what ``level`` does not stop, for the record."""
    return (*RESIDUES[Level.B], *RESIDUES[Level.A]) if level is Level.B else RESIDUES[level]


@dataclass(frozen=True)
class Jail:
    """The confinement that all children of one zygote share. ``others``: tasks of the judge's user, which count against
    the limit of threads where policies have no user of their own."""

    level: Level
    checkpoints: str
    runtime: Runtime
    uid: int
    others: int
    max_landlock_abi: int | None = None

    def policy_folder(self, checkpoint: str) -> str:
        return POLICY if self.level is Level.A else os.path.join(self.checkpoints, checkpoint)

    def check_stage_is_hidden(self) -> None:
        """Raise if the checkpoints are beneath a library root, even in one of its holes: every policy could read all
        checkpoints."""
        for root in self.runtime.roots:
            if self.level is not Level.NONE and is_beneath(self.checkpoints, root):
                raise OSError(f"checkpoints must not be kept in {self.checkpoints}: every policy may read {root}")

    def prepare(self) -> None:
        """Once, in the zygote, do what every child inherits: build the filter, empty the bounding set and, without a
        private root, give up all files but those that policies may read and their checkpoints."""
        if self.level is not Level.NONE:
            syscall_filter.build(os.getpid())
            kernel.empty_bounding_set()
        if self.level is Level.B:
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
            landlock.restrict([*self.runtime.readable(), self.checkpoints], WRITABLE, self.max_landlock_abi)

    def confine(self, checkpoint: str, limits: Limits) -> None:
        """Apply every layer of the level to this process. Raises if one fails, before any policy code has run."""
        if self.level is Level.A:
            show_checkpoint(checkpoint)
        limit_resources(limits)
        self._take_identity()
        kernel.die_with_parent(signal.SIGKILL)
        if self.level is not Level.NONE:
            drop_privileges()
            landlock.restrict(self._readable(checkpoint), WRITABLE, self.max_landlock_abi)
            seccomp.apply(syscall_filter.build(os.getpid()))

    def _take_identity(self) -> None:
        """Switch to a user of the policy's own where possible, because the kernel counts threads by user."""
        root = os.geteuid() == 0
        if self.level is Level.A:
            if root:
                switch_user(self.uid)
            limit_threads()
        elif self.level is Level.B and root and set_real_uid(self.uid):
            limit_threads()
        elif self.level is Level.B:
            limit_threads(self.others)

    def _readable(self, checkpoint: str) -> list[str]:
        """Return what this child may read. The roots are named as a whole: ``prepare`` has given up their holes
        already."""
        if self.level is Level.A:
            return ["/"]
        return [*self.runtime.roots, *self.runtime.packages, self.policy_folder(checkpoint)]


def self_test(jail: Jail) -> None:
    """From inside, try what each layer must refuse, and read what it must allow. Raises OSError naming the layer."""
    _must_fail("Landlock", lambda: os.close(os.open("/etc/passwd", os.O_RDONLY)))
    _must_fail("Landlock", lambda: os.listdir("/proc/1") if jail.level is Level.A else os.listdir("/etc"))
    _must_fail("seccomp (socket)", lambda: socket.socket(socket.AF_INET).close())
    _must_fail("seccomp (fork)", _fork)
    for path in (*jail.runtime.packages, *jail.runtime.roots):
        try:
            os.listdir(path) if os.path.isdir(path) and path not in _roots_with_holes(jail) else os.stat(path)
        except OSError as error:
            raise OSError(f"a policy cannot read {path} (uid {os.geteuid()}): chmod -R o+rX it: {error}") from error


def _roots_with_holes(jail: Jail) -> set[str]:
    """Return roots with holes: without a private root they are granted entry by entry, and cannot be listed."""
    return {root for root in jail.runtime.roots for hole in jail.runtime.holes if hole.startswith(root)}


def _must_fail(layer: str, attempt: object) -> None:
    assert callable(attempt)
    try:
        attempt()
    except OSError:
        return
    raise OSError(f"{layer} has no effect: a forbidden call succeeded")


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


POLICY: Final = "/policy"
CHECKPOINTS: Final = "/store"
READ_ONLY: Final = kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV

# Flags that a mount made in another user namespace has locked must be repeated, or the kernel refuses to remount.
LOCKED_FLAGS: Final = {
    os.ST_NOEXEC: kernel.MS_NOEXEC,
    os.ST_NOATIME: 1 << 10,
    os.ST_NODIRATIME: 1 << 11,
    4096: 1 << 21,
}


def leave_host(checkpoints: str, runtime: Runtime) -> None:
    """Enter mount, network, IPC, host-name, cgroup and (for children) pid namespaces, and the private root: Python,
    numpy, scipy, shared libraries and checkpoints, all read-only. Called once, by the zygote. ``checkpoints`` is the
    folder of all checkpoints."""
    flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC
    flags |= kernel.CLONE_NEWUTS | kernel.CLONE_NEWPID | kernel.CLONE_NEWCGROUP
    enter_namespaces(flags, b"policy")
    _build_root(checkpoints, runtime)
    enter_root(kernel.MS_RDONLY | kernel.MS_NOSUID)


def show_checkpoint(name: str) -> None:
    """Mount the checkpoint of this child at /policy, and unmount the folder with all others."""
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
    _bind(f"{CHECKPOINTS}/{name}", POLICY)
    kernel.detach(CHECKPOINTS)


def _bind(source: str, target: str) -> None:
    kernel.mount(source, target, None, kernel.MS_BIND)
    present = os.statvfs(target).f_flag
    locked = sum(mount_flag for flag, mount_flag in LOCKED_FLAGS.items() if present & flag)
    kernel.mount("none", target, None, READ_ONLY | locked)


def _mount_point(path: str) -> str:
    """Create an empty folder or file for ``path`` under the new root."""
    target = NEW_ROOT + path
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "a").close()
    return target


def _build_root(checkpoints: str, runtime: Runtime) -> None:
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    checkpoints_fd = os.open(checkpoints, os.O_PATH | os.O_DIRECTORY)
    kernel.mount("tmpfs", NEW_ROOT, "tmpfs", kernel.MS_NOSUID, "size=256k,mode=755,nr_inodes=2048")
    for link in ("/lib", "/lib64"):
        if os.path.islink(link):
            os.symlink(os.readlink(link), NEW_ROOT + link)
    for root in runtime.roots:
        _bind(root, _mount_point(root))
    folders = [hole for hole in runtime.holes if os.path.isdir(hole)]
    for hole in folders:
        kernel.mount(
            "tmpfs", NEW_ROOT + hole, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "size=64k,mode=755,nr_inodes=64"
        )
    for hole in (hole for hole in runtime.holes if hole not in folders):
        kernel.mount("/dev/null", NEW_ROOT + hole, None, kernel.MS_BIND)
    for package in runtime.packages:
        _bind(package, _mount_point(package))
    for hole in folders:
        kernel.mount("none", NEW_ROOT + hole, None, READ_ONLY)
    for folder in (POLICY, CHECKPOINTS):
        os.mkdir(NEW_ROOT + folder)
    _bind(f"/proc/self/fd/{checkpoints_fd}", NEW_ROOT + CHECKPOINTS)
    os.close(checkpoints_fd)
    kernel.mount("/dev/null", _mount_point("/dev/null"), None, kernel.MS_BIND)
