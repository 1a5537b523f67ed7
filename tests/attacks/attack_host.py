"""The host around the sandbox: everything that an attack could want, at the places where the attack is told to look."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import gymnasium

from evopolicygym.sandbox.checkpoints import remove_tree
from evopolicygym.sandbox.kernel import table
from evopolicygym.sandbox.policy.syscall_filter import ALLOWED
from evopolicygym.sandbox.runtime import runtime

HERE = Path(__file__).parent
VICTIM = "this line must survive\n"
# Waits on a word of a file that policies can read too: whoever wakes it has found a way to another process.
SLEEPER = """
import ctypes, mmap, os, platform
libc, file = ctypes.CDLL(None), open(os.__file__, "rb")
libc.prctl(1, 9)  # die with the parent
libc.mmap.restype = ctypes.c_void_p
word = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0))
value = ctypes.c_uint.from_address(word).value
while True:
    libc.syscall({"x86_64": 202, "aarch64": 98}[platform.machine()], ctypes.c_void_p(word), 0, value, None, None, 0)
"""


class Host:
    """A folder with secrets and victims, listening sockets, and a process that waits to be woken."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="attacks-"))
        self.canary = f"canary-{secrets.token_hex(16)}"
        self._environment = dict(os.environ)
        os.environ["ARENA_CANARY"] = self.canary
        os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._sockets = self._listen()
        self._sleeper = subprocess.Popen([sys.executable, "-I", "-c", SLEEPER])
        for folder in ("feedback", "shared"):
            (self.folder / folder).mkdir()
        (self.folder / "secret.txt").write_text(self.canary)
        (self.folder / "secret.txt").chmod(0o600)
        with ZipFile(self.folder / "outside.zip", "w") as archive:
            archive.writestr("stolen.py", "")
        self.restore()

    def close(self) -> None:
        self._sleeper.kill()
        self._sleeper.wait()
        for listener in self._sockets:
            listener.close()
        remove_tree(self.folder)
        os.environ.clear()
        os.environ.update(self._environment)

    def facts(self) -> dict[str, Any]:
        """Return what an attack is told: all of it."""
        own = runtime()
        return {
            "canary_sha256": hashlib.sha256(self.canary.encode()).hexdigest(),
            "secret": str(self.folder / "secret.txt"),
            "victim": str(self.folder / "victim.txt"),
            "feedback": str(self.folder / "feedback"),
            "shared": str(self.folder / "shared"),
            "zip": str(self.folder / "outside.zip"),
            "tcp": self._sockets[0].getsockname()[1],
            "udp": self._sockets[1].getsockname()[1],
            "unix": self._sockets[2].getsockname(),
            "abstract": self._sockets[3].getsockname().decode(),
            "judge": os.getpid(),
            "sleeper": self._sleeper.pid,
            "python": own.python,
            "package_root": own.package_root,
            "site": own.site,
            "simulator": str(Path(gymnasium.__file__).parent),
            "library": str(next(Path(own.site).glob("Box2D/*.so"))),
            "allowed": sorted(table()[name] for name in ALLOWED if name in table()),
        }

    def damage(self) -> list[str]:
        """Return what an attack has changed on the host, whatever it reports itself."""
        victim = self.folder / "victim.txt"
        facts = victim.stat() if victim.exists() else None
        return [
            *(["the victim file was changed"] if facts != self._before or victim.read_text() != VICTIM else []),
            *(f"{path} appeared" for name in ("feedback", "shared") for path in (self.folder / name).iterdir()),
            *(f"something came to {listener}" for listener in self._sockets if _contacted(listener)),
            *(["the sleeper is dead"] if self._sleeper.poll() is not None else []),
        ]

    def restore(self) -> None:
        for name in ("feedback", "shared"):
            for path in (self.folder / name).iterdir():
                path.unlink()
        victim = self.folder / "victim.txt"
        victim.unlink(missing_ok=True)
        victim.write_text(VICTIM)
        self._before = victim.stat()

    def _listen(self) -> tuple[socket.socket, ...]:
        tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        named, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", 0))
        named.bind(str(self.folder / "judge.sock"))
        abstract.bind(f"\0attacks-{secrets.token_hex(8)}")
        for listener in (tcp, udp, named, abstract):
            listener.setblocking(False)
            if listener is not udp:
                listener.listen()
        return tcp, udp, named, abstract


def _contacted(listener: socket.socket) -> bool:
    """Return whether anything has arrived at the sockets, and read all of it."""
    came = False
    while True:
        try:
            listener.recv(64) if listener.type == socket.SOCK_DGRAM else listener.accept()[0].close()
        except BlockingIOError:
            return came
        came = True
