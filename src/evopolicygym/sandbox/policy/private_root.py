"""The private root of policies (level A): Python, numpy, scipy, shared libraries and one checkpoint; all read-only."""

from __future__ import annotations

import os
from typing import Final

from evopolicygym.sandbox import kernel as k
from evopolicygym.sandbox.namespaces import BASE, enter_root, unshare
from evopolicygym.sandbox.runtime import Runtime

POLICY: Final = "/policy"
STAGE: Final = "/stage"
READ_ONLY: Final = k.MS_BIND | k.MS_REMOUNT | k.MS_RDONLY | k.MS_NOSUID | k.MS_NODEV

# Flags that a mount made in another user namespace has locked must be repeated, or the kernel refuses to remount.
LOCKED_FLAGS: Final = {os.ST_NOEXEC: k.MS_NOEXEC, os.ST_NOATIME: 1 << 10, os.ST_NODIRATIME: 1 << 11, 4096: 1 << 21}


def leave_host(stage: str, runtime: Runtime) -> None:
    """Once per zygote: enter mount, network, IPC, host-name, cgroup and (for its children) pid namespaces, and the
    private root. ``stage`` is the folder of all checkpoints."""
    flags = k.CLONE_NEWNS | k.CLONE_NEWNET | k.CLONE_NEWIPC | k.CLONE_NEWUTS | k.CLONE_NEWPID | k.CLONE_NEWCGROUP
    unshare(flags, b"policy")
    _build_root(stage, runtime)
    enter_root(k.MS_RDONLY | k.MS_NOSUID)


def show_checkpoint(name: str) -> None:
    """In each child: mount its own checkpoint at /policy, and unmount the stage with all others."""
    k.unshare(k.CLONE_NEWNS | k.CLONE_NEWIPC)
    _bind(f"{STAGE}/{name}", POLICY)
    k.detach(STAGE)


def _bind(source: str, target: str) -> None:
    k.mount(source, target, None, k.MS_BIND)
    present = os.statvfs(target).f_flag
    locked = sum(mount_flag for flag, mount_flag in LOCKED_FLAGS.items() if present & flag)
    k.mount("none", target, None, READ_ONLY | locked)


def _mount_point(path: str) -> str:
    """Create an empty folder or file for ``path`` under the new root."""
    target = BASE + path
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "a").close()
    return target


def _build_root(stage: str, runtime: Runtime) -> None:
    k.mount("none", "/", None, k.MS_REC | k.MS_PRIVATE)
    stage_fd = os.open(stage, os.O_PATH | os.O_DIRECTORY)
    k.mount("tmpfs", BASE, "tmpfs", k.MS_NOSUID, "size=256k,mode=755,nr_inodes=2048")
    for link in ("/lib", "/lib64"):
        if os.path.islink(link):
            os.symlink(os.readlink(link), BASE + link)
    for root in runtime.roots:
        _bind(root, _mount_point(root))
    folders = [hole for hole in runtime.holes if os.path.isdir(hole)]
    for hole in folders:
        k.mount("tmpfs", BASE + hole, "tmpfs", k.MS_NOSUID | k.MS_NODEV, "size=64k,mode=755,nr_inodes=64")
    for hole in (hole for hole in runtime.holes if hole not in folders):
        k.mount("/dev/null", BASE + hole, None, k.MS_BIND)
    for package in runtime.packages:
        _bind(package, _mount_point(package))
    for hole in folders:
        k.mount("none", BASE + hole, None, READ_ONLY)
    for folder in (POLICY, STAGE):
        os.mkdir(BASE + folder)
    _bind(f"/proc/self/fd/{stage_fd}", BASE + STAGE)
    os.close(stage_fd)
    k.mount("/dev/null", _mount_point("/dev/null"), None, k.MS_BIND)
