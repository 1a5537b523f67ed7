"""Start real Ray clusters of several nodes on this machine, each with a token and a folder of its own."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

from process_helpers import alive, descendants, wait_until

RAY = [sys.executable, "-m", "ray.scripts.scripts"]
STORE = str(100 << 20)
# A process under any Landlock rules cannot mount: what it starts reaches level B, and no more.
WITHOUT_MOUNTS = """
import os, sys
from evopolicygym.sandbox import kernel, landlock
kernel.prctl(38, 1)
landlock.confine(landlock.FileGrant((), (), ("/",), ("/dev",), None))
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class Cluster:
    """A Ray cluster whose nodes are started and killed one by one."""

    def __init__(self, cpus: int = 1, token: bool = True) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="epg-test-"))
        self.token_file = self.folder / "token"
        self.token_file.write_text(secrets.token_hex(32))
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token" if token else "disabled",
            "RAY_AUTH_TOKEN_PATH": str(self.token_file),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_memory_monitor_refresh_ms": "0",
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_failure_threshold": "4",
            "TMPDIR": str(self.folder),
        }
        self.nodes: list[subprocess.Popen[str]] = []
        head = self.start(cpus, "--head", "--port=0", "--include-dashboard=false")
        self.address = self._address(head)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for node in reversed(self.nodes):
            kill_node(node)
        shutil.rmtree(self.folder, ignore_errors=True)

    def join(self, cpus: int = 1, wrapper: str | None = None, **environment: str) -> subprocess.Popen[str]:
        return self.start(cpus, f"--address={self.address}", wrapper=wrapper, **environment)

    def start(self, cpus: int, *options: str, wrapper: str | None = None, **environment: str) -> subprocess.Popen[str]:
        command = [*RAY, "start", "--block", f"--num-cpus={cpus}", f"--object-store-memory={STORE}", *options]
        command += [f"--temp-dir={self.folder / str(len(self.nodes))}"]
        if wrapper:
            command = [sys.executable, "-c", wrapper, *command[1:]]
        log = open(self.folder / f"{len(self.nodes)}.log", "w")
        node = subprocess.Popen(
            command, env=self.environment | environment, stdout=log, stderr=log, text=True, start_new_session=True
        )
        self.nodes.append(node)
        return node

    def _address(self, head: subprocess.Popen[str]) -> str:
        log = self.folder / "0.log"
        pattern = re.compile(r"--address='([^']+)'")
        assert wait_until(lambda: pattern.search(log.read_text()) or head.poll() is not None), "Ray does not start"
        match = pattern.search(log.read_text())
        assert match, log.read_text()
        return match[1]


def kill_node(node: subprocess.Popen[str]) -> None:
    """Kill all processes of a node at once, as a power cut would."""
    processes = [node.pid, *descendants(node.pid)]
    for pid in processes:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    node.wait()
    assert wait_until(lambda: not alive(processes), 30)
