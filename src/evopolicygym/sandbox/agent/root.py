"""The private root of an agent (level A): the system read-only, its own folders, and nothing else of the host.

Folders that the agent can change lie beneath it from one turn to the next, so no mount point is ever looked up through
a link: every name on the way is opened by descriptor, and what stands in the way is moved aside.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from evopolicygym.sandbox import kernel as k
from evopolicygym.sandbox.namespaces import BASE

FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CONFINED: Final = k.MOUNT_NO_SUID | k.MOUNT_NO_DEVICES
DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS: Final = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
HOLE: Final = "size=64k,mode=755,nr_inodes=64"


class PrivateRoot:
    """Built over a folder of the host in this mount namespace, where nobody else sees it; then entered."""

    def __init__(self) -> None:
        k.mount("none", "/", None, k.MS_REC | k.MS_PRIVATE)
        k.mount("tmpfs", BASE, "tmpfs", k.MS_NOSUID | k.MS_NODEV, "size=4m,mode=755,nr_inodes=8192")

    def bind(self, source: str, target: str, writable: bool = False) -> None:
        """``source`` of the host, with what is mounted beneath it, at ``target``."""
        parent, name = self._point(target, os.path.isdir(source))
        k.mount(source, f"/proc/self/fd/{parent}/{name}", None, k.MS_BIND | k.MS_REC)
        _restrict(parent, name, CONFINED if writable else CONFINED | k.MOUNT_READ_ONLY)

    def empty(self, target: str, options: str = HOLE) -> None:
        """Nothing, where ``target`` would be. Writable until ``seal``ed: mount points can be made in it."""
        parent, name = self._point(target, True)
        k.mount("tmpfs", f"/proc/self/fd/{parent}/{name}", "tmpfs", k.MS_NOSUID | k.MS_NODEV, options)
        os.close(parent)

    def hide(self, target: str) -> None:
        """An empty folder in place of a folder; a file that cannot be read in place of a file."""
        if os.path.isdir(target):
            self.empty(target)
        elif os.path.exists(target):
            self.bind("/dev/null", target)

    def seal(self, target: str) -> None:
        """Of what was hidden."""
        if not os.path.isdir(target):
            return
        parent, name = self._point(target, True)
        _restrict(parent, name, CONFINED | k.MOUNT_READ_ONLY)

    def path(self, path: str) -> str:
        return BASE + path

    def link(self, path: str, target: str) -> None:
        os.symlink(target, BASE + path)

    def write(self, path: str, text: str) -> None:
        os.makedirs(os.path.dirname(BASE + path), exist_ok=True)
        with open(BASE + path, "w") as file:
            file.write(text)
        os.chmod(BASE + path, 0o644)

    def devices(self) -> None:
        """The harmless ones, terminals of its own, shared memory of its own."""
        self.empty("/dev", "size=64k,mode=755,nr_inodes=64")
        for name in DEVICES:
            parent, point = self._point(f"/dev/{name}", False)
            k.mount(f"/dev/{name}", f"/proc/self/fd/{parent}/{point}", None, k.MS_BIND)
            os.close(parent)
        for folder in ("pts", "shm"):
            os.mkdir(f"{BASE}/dev/{folder}")
        k.mount("devpts", f"{BASE}/dev/pts", "devpts", k.MS_NOSUID, "newinstance,ptmxmode=0666,mode=620")
        k.mount("tmpfs", f"{BASE}/dev/shm", "tmpfs", k.MS_NOSUID | k.MS_NODEV, "size=25%,mode=1777")
        for name, target in DEVICE_LINKS.items():
            os.symlink(target, f"{BASE}/dev/{name}")
        k.mount("none", f"{BASE}/dev", None, k.MS_BIND | k.MS_REMOUNT | k.MS_RDONLY | k.MS_NOSUID | k.MS_NODEV)

    def processes(self) -> None:
        """Of this pid namespace. Must be mounted while the host's can still be seen: the kernel asks for that."""
        os.mkdir(f"{BASE}/proc")
        k.mount("proc", f"{BASE}/proc", "proc", k.MS_NOSUID | k.MS_NODEV | k.MS_NOEXEC)

    def enter(self) -> None:
        os.chdir(BASE)
        k.pivot_root(".", ".")
        k.detach(".")
        os.chdir("/")
        k.mount("none", "/", None, k.MS_BIND | k.MS_REMOUNT | k.MS_RDONLY | k.MS_NOSUID | k.MS_NODEV)

    def _point(self, path: str, folder: bool) -> tuple[int, str]:
        """The parent folder, open, and a name in it at which something can be mounted."""
        *ways, name = path.strip("/").split("/")
        parent = os.open(BASE, FOLDER)
        for way in ways:
            inner = _step(parent, way)
            os.close(parent)
            parent = inner
        _make_room(parent, name, folder)
        return parent, name


def identity_files(uid: int, gid: int, home: str, open_network: bool) -> Mapping[str, str]:
    """Programs ask who they are, and what localhost is."""
    files = {
        "/etc/passwd": f"root:x:0:0:root:/nonexistent:/bin/sh\nagent:x:{uid}:{gid}:agent:{home}:/bin/bash\n",
        "/etc/group": f"root:x:0:\nagent:x:{gid}:\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        "/etc/hosts": "127.0.0.1 localhost agent\n",
    }
    if open_network:
        del files["/etc/hosts"]
    return files


def _step(parent: int, name: str) -> int:
    """Into a folder of that name, made if need be."""
    _make_room(parent, name, True)
    return os.open(name, FOLDER, dir_fd=parent)


def _make_room(parent: int, name: str, folder: bool) -> None:
    right = stat.S_ISDIR if folder else stat.S_ISREG
    with suppress(FileNotFoundError):
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if right(mode) or not (stat.S_ISLNK(mode) or stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            return
        os.rename(name, f".{name}-{os.urandom(4).hex()}", src_dir_fd=parent, dst_dir_fd=parent)
    if folder:
        os.mkdir(name, 0o755, dir_fd=parent)
    else:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=parent))


def _restrict(parent: int, name: str, attributes: int) -> None:
    """Opened anew, the name means what has just been mounted there."""
    mounted = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        k.restrict_mount(mounted, attributes)
    finally:
        os.close(mounted)
        os.close(parent)
