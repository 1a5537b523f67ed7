"""Namespaces and the private root: the layer in which the host is not refused but absent (level A). The parts that the
jails of policies and of agents share."""

from __future__ import annotations

import os
from typing import Final

from evopolicygym.sandbox import kernel as k

# A folder that every Linux has and from which nothing is shown: the private root is mounted over it. Nothing is created
# on the host, so nothing is left behind however the process ends.
BASE: Final = "/sys"


def unshare(flags: int, hostname: bytes) -> None:
    """Enter new namespaces: as root directly, otherwise in a user namespace of our own."""
    if os.geteuid() == 0:
        k.unshare(flags)
    else:
        _unshare_as_user(flags)
    k.sethostname(hostname)


def _unshare_as_user(flags: int) -> None:
    """Enter a user namespace as well, in which we keep our user and group id."""
    uid, gid = os.getuid(), os.getgid()
    k.unshare(flags | k.CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def enter_root(flags: int) -> None:
    """Make BASE the root, let go of the host's root, and remount the new one with ``flags``."""
    os.chdir(BASE)
    k.pivot_root(".", ".")
    k.detach(".")
    os.chdir("/")
    k.mount("none", "/", None, k.MS_BIND | k.MS_REMOUNT | flags)
