"""An agent beside a Ray of ours: it reaches none of Ray's ports and sockets, and has no token to use one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_testbed import AgentTestbed

from evopolicygym.execution.ray.connection import ASK_WITHOUT_TOKEN, LocalRayCluster
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess
from process_helpers import descendants

TRY_EVERYTHING = """
import json, socket, sys
host, ports, paths, token = json.loads(sys.argv[1])
def opens(family, address):
    try:
        with socket.socket(family) as connection:
            connection.settimeout(5)
            connection.connect(address)
        return True
    except OSError:
        return False
def reads(path):
    try:
        return bool(open(path).read())
    except OSError:
        return False
found = {f"{name}:{port}": opens(socket.AF_INET, (name, port)) for name in (host, "127.0.0.1") for port in ports}
found |= {path: opens(socket.AF_UNIX, path) for path in paths} | {"token": reads(token)}
print(json.dumps(found))
"""


class RayEndpoints:
    """All that the processes of one Ray listen to."""

    def __init__(self, cluster: LocalRayCluster) -> None:
        self.address = cluster.address()
        self.host, port = self.address.rsplit(":", 1)
        processes = descendants(cluster._process.pid)
        inodes = {_socket(fd) for pid in processes for fd in Path(f"/proc/{pid}/fd").iterdir()}
        lines = [line.split() for name in ("tcp", "tcp6") for line in _table(name)]
        self.ports = sorted(
            {int(line[1].rpartition(":")[2], 16) for line in lines if line[3] == "0A" and line[9] in inodes}
        )
        self.paths = sorted(str(path) for path in cluster.folder.rglob("*") if path.is_socket())
        self.token_file = str(cluster.token_file)
        assert int(port) in self.ports and len(self.ports) >= 3 and len(self.paths) >= 2

    def as_json(self) -> str:
        return json.dumps([self.host, self.ports, self.paths, self.token_file])


def _socket(fd: Path) -> str:
    try:
        reached = re.match(r"socket:\[(\d+)\]", os.readlink(fd))
    except OSError:
        return ""
    return reached[1] if reached else ""


def _table(name: str) -> list[str]:
    return Path(f"/proc/net/{name}").read_text().splitlines()[1:]


@pytest.fixture(scope="module")
def endpoints() -> Iterator[RayEndpoints]:
    with LocalRayCluster(1) as cluster:
        yield RayEndpoints(cluster)


def test_every_endpoint_is_reached_from_outside_the_sandbox(endpoints):
    text = subprocess.run([sys.executable, "-c", TRY_EVERYTHING, endpoints.as_json()], capture_output=True).stdout
    reached = json.loads(text)
    assert reached[endpoints.address] and reached["token"] and all(reached[path] for path in endpoints.paths)
    assert sum(reached.values()) > len(endpoints.ports)


@pytest.mark.parametrize("network", [NetworkAccess.ALLOWED, NetworkAccess.OPEN])
@pytest.mark.parametrize("level", [AgentLevel.A, AgentLevel.B])
def test_an_agent_reaches_no_endpoint(endpoints, level, network):
    """It does not see the sockets and the token even if the whole network is open to it."""
    with AgentTestbed() as testbed:
        code, text = testbed.run(["python", "-c", TRY_EVERYTHING, endpoints.as_json()], level, network=network)
    assert code == 0, text
    opened = [name for name, is_open in json.loads(text).items() if is_open]
    assert not opened or network is NetworkAccess.OPEN
    assert not {"token", *endpoints.paths} & set(opened)


@pytest.mark.parametrize(("token", "is_accepted"), [(True, True), (False, False)])
def test_an_endpoint_needs_the_token(endpoints, token, is_accepted):
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": endpoints.token_file}
    environment = os.environ | (own if token else {"RAY_AUTH_MODE": "disabled"})
    done = subprocess.run(
        [sys.executable, "-c", ASK_WITHOUT_TOKEN, endpoints.address], env=environment, capture_output=True, text=True
    )
    assert (done.returncode == 0) == is_accepted, done.stderr
    assert is_accepted or "nauthenticated" in done.stderr or "InvalidAuthToken" in done.stderr, done.stderr
