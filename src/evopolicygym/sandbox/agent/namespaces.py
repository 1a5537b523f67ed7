"""Level A from the inside: namespaces, listeners in the agent's own network, the private root, and an init process.

The private root shows the system read-only, the agent's own folders, and nothing else of the host. The agent can change
some of the folders beneath it from one turn to the next, so no mount point is ever looked up through a link: every name
on the way is opened by descriptor, and a wrong entry at a mount point is moved aside.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import stat
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NoReturn

from evopolicygym.sandbox import kernel as k
from evopolicygym.sandbox.agent.agent_sandbox import NetworkAccess
from evopolicygym.sandbox.agent.program import (
    LAYER,
    LaunchRequest,
    become_program,
    describe,
    exit_code,
)
from evopolicygym.sandbox.agent.visible_files import RESOLVER
from evopolicygym.sandbox.privileges import NEW_ROOT, enter_namespaces, enter_root, switch_user

SET_INTERFACE_FLAGS: Final = 0x8914
INTERFACE_UP: Final = 0x1
BACKLOG: Final = 128

FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CONFINED: Final = k.MOUNT_NO_SUID | k.MOUNT_NO_DEVICES
DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS: Final = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
HOLE: Final = "size=64k,mode=755,nr_inodes=64"


def leave_host(request: LaunchRequest) -> list[socket.socket]:
    """Enter new namespaces; the pid namespace applies to the next child. Returns listeners in the new network."""
    flags = k.CLONE_NEWNS | k.CLONE_NEWPID | k.CLONE_NEWIPC | k.CLONE_NEWUTS
    flags |= k.CLONE_NEWCGROUP | (k.CLONE_NEWNET if request.own_network else 0)
    enter_namespaces(flags, b"agent")
    if not request.own_network:
        return []
    _raise_loopback()
    return [_listen(port) for port in request.ports]


def become_init(request: LaunchRequest, report: int) -> NoReturn:
    """Be the first process of the namespace: build the root, start the program, reap the dead, end with the program."""
    k.die_with_parent(signal.SIGKILL)
    try:
        k.prefer_for_oom_kill()
        _build_root(request)
        k.prctl(k.PR_SET_DUMPABLE, 0)  # before there is a process that could look into this one
    except BaseException as error:
        os.write(report, f"{LAYER}: {describe(error)}".encode())
        os._exit(127)
    program = os.fork()
    if program == 0:
        become_program(request, report)
    os.close(report)
    _run_init(program, request.layers.uid)


def _run_init(program: int, uid: int | None) -> NoReturn:
    """Pass the supervisor's SIGTERM on to the program. An init receives only those signals from its children that it
    handles, so all others have no effect."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, _forward_to(program))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.closerange(3, 1 << 20)
    if uid is not None:
        switch_user(uid)
    k.drop_capabilities()
    k.prctl(k.PR_SET_DUMPABLE, 0)
    k.die_with_parent(signal.SIGKILL)  # again: a change of user clears it
    while True:
        pid, status = os.wait()
        if pid == program:
            os._exit(exit_code(status))


def _forward_to(program: int) -> Callable[[int, object], None]:
    def forward(number: int, _: object) -> None:
        with suppress(OSError):
            os.kill(program, number)

    return forward


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14s", b"lo", INTERFACE_UP, b"")
        fcntl.ioctl(any_socket, SET_INTERFACE_FLAGS, request)


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(BACKLOG)
    return listener


def _build_root(request: LaunchRequest) -> None:
    root = PrivateRoot()
    root.devices()
    root.processes()
    root.bind(request.temporary, "/tmp", writable=True)  # first: other folders may lie beneath /tmp
    _show_system(root, request)
    os.mkdir(root.path("/var"))
    root.link("/var/tmp", "/tmp")
    for folder in sorted(request.writable):
        root.bind(folder, folder, writable=True)
    if request.feedback:
        root.bind(request.feedback, f"{request.workspace}/feedback")
    root.enter()


def _show_system(root: PrivateRoot, request: LaunchRequest) -> None:
    visible, open_network = request.visible, request.layers.network is NetworkAccess.OPEN
    for path, target in visible.links:
        root.link(path, target)
    for path in (*visible.trees, *visible.etc, *(RESOLVER if open_network else ())):
        root.bind(os.path.realpath(path), path)
    for hole in visible.holes:
        root.hide(hole)
    for path in visible.shown:
        root.bind(path, path)
    for hole in visible.holes:
        root.seal(hole)
    uid, gid = request.layers.uid or os.getuid(), request.layers.uid or os.getgid()
    for path, text in identity_files(uid, gid, request.home, open_network).items():
        root.write(path, text)


def identity_files(uid: int, gid: int, home: str, open_network: bool) -> Mapping[str, str]:
    """Return files by which programs look up their user and localhost."""
    files = {
        "/etc/passwd": f"root:x:0:0:root:/nonexistent:/bin/sh\nagent:x:{uid}:{gid}:agent:{home}:/bin/bash\n",
        "/etc/group": f"root:x:0:\nagent:x:{gid}:\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
        "/etc/hosts": "127.0.0.1 localhost agent\n",
    }
    if open_network:
        del files["/etc/hosts"]
    return files


class PrivateRoot:
    """A root built over a folder of the host in this mount namespace, where no other process sees it; then entered."""

    def __init__(self) -> None:
        k.mount("none", "/", None, k.MS_REC | k.MS_PRIVATE)
        k.mount("tmpfs", NEW_ROOT, "tmpfs", k.MS_NOSUID | k.MS_NODEV, "size=4m,mode=755,nr_inodes=8192")

    def bind(self, source: str, target: str, writable: bool = False) -> None:
        """Mount ``source`` of the host, with what is mounted beneath it, at ``target``."""
        parent, name = self._mount_point(target, os.path.isdir(source))
        k.mount(source, f"/proc/self/fd/{parent}/{name}", None, k.MS_BIND | k.MS_REC)
        _restrict(parent, name, CONFINED if writable else CONFINED | k.MOUNT_READ_ONLY)

    def empty(self, target: str, options: str = HOLE) -> None:
        """Mount an empty folder at ``target``. Writable until ``seal``ed: mount points can be made in it."""
        parent, name = self._mount_point(target, True)
        k.mount("tmpfs", f"/proc/self/fd/{parent}/{name}", "tmpfs", k.MS_NOSUID | k.MS_NODEV, options)
        os.close(parent)

    def hide(self, target: str) -> None:
        """Put an empty folder in place of a folder, or a file that cannot be read in place of a file."""
        if os.path.isdir(target):
            self.empty(target)
        elif os.path.exists(target):
            self.bind("/dev/null", target)

    def seal(self, target: str) -> None:
        """Make a hidden folder read-only."""
        if not os.path.isdir(target):
            return
        parent, name = self._mount_point(target, True)
        _restrict(parent, name, CONFINED | k.MOUNT_READ_ONLY)

    def path(self, path: str) -> str:
        return NEW_ROOT + path

    def link(self, path: str, target: str) -> None:
        os.makedirs(os.path.dirname(NEW_ROOT + path), exist_ok=True)
        os.symlink(target, NEW_ROOT + path)

    def write(self, path: str, text: str) -> None:
        os.makedirs(os.path.dirname(NEW_ROOT + path), exist_ok=True)
        with open(NEW_ROOT + path, "w") as file:
            file.write(text)
        os.chmod(NEW_ROOT + path, 0o644)

    def devices(self) -> None:
        """Show harmless devices, with terminals and shared memory that are not the host's."""
        self.empty("/dev", HOLE)
        for name in DEVICES:
            parent, point = self._mount_point(f"/dev/{name}", False)
            k.mount(f"/dev/{name}", f"/proc/self/fd/{parent}/{point}", None, k.MS_BIND)
            os.close(parent)
        for folder in ("pts", "shm"):
            os.mkdir(f"{NEW_ROOT}/dev/{folder}")
        k.mount("devpts", f"{NEW_ROOT}/dev/pts", "devpts", k.MS_NOSUID, "newinstance,ptmxmode=0666,mode=620")
        k.mount("tmpfs", f"{NEW_ROOT}/dev/shm", "tmpfs", k.MS_NOSUID | k.MS_NODEV, "size=25%,mode=1777")
        for name, target in DEVICE_LINKS.items():
            os.symlink(target, f"{NEW_ROOT}/dev/{name}")
        k.mount("none", f"{NEW_ROOT}/dev", None, k.MS_BIND | k.MS_REMOUNT | k.MS_RDONLY | k.MS_NOSUID | k.MS_NODEV)

    def processes(self) -> None:
        """Mount /proc of this pid namespace. The kernel permits it only while the host's /proc is still visible."""
        os.mkdir(f"{NEW_ROOT}/proc")
        k.mount("proc", f"{NEW_ROOT}/proc", "proc", k.MS_NOSUID | k.MS_NODEV | k.MS_NOEXEC)

    def enter(self) -> None:
        enter_root(k.MS_RDONLY | k.MS_NOSUID | k.MS_NODEV)

    def _mount_point(self, path: str, folder: bool) -> tuple[int, str]:
        """Return a descriptor of the parent folder, and a name in it at which something can be mounted."""
        *ancestors, name = path.strip("/").split("/")
        parent = os.open(NEW_ROOT, FOLDER)
        for ancestor in ancestors:
            inner = _open_folder(parent, ancestor)
            os.close(parent)
            parent = inner
        _prepare_entry(parent, name, folder)
        return parent, name


def _open_folder(parent: int, name: str) -> int:
    """Open a folder, making it if need be."""
    _prepare_entry(parent, name, True)
    return os.open(name, FOLDER, dir_fd=parent)


def _prepare_entry(parent: int, name: str, folder: bool) -> None:
    """Make sure that ``name`` is a folder, or a file. An entry of the wrong kind is moved aside."""
    is_right = stat.S_ISDIR if folder else stat.S_ISREG
    with suppress(FileNotFoundError):
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if is_right(mode) or not (stat.S_ISLNK(mode) or stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            return
        os.rename(name, f".{name}-{os.urandom(4).hex()}", src_dir_fd=parent, dst_dir_fd=parent)
    if folder:
        os.mkdir(name, 0o755, dir_fd=parent)
    else:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=parent))


def _restrict(parent: int, name: str, attributes: int) -> None:
    """Open ``name`` again, which is now what has just been mounted there, and restrict that mount."""
    mounted = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        k.restrict_mount(mounted, attributes)
    finally:
        os.close(mounted)
        os.close(parent)
