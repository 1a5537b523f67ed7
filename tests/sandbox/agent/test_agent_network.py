"""Where an agent can go: the API of its run, the hosts on its list, nothing else."""

from __future__ import annotations

import http.server
import os
import socket
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from agent_testbed import AgentTestbed

from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess
from evopolicygym.sandbox.agent.allow_list import AllowList, Destination, ProxyRefusal, parse
from evopolicygym.sandbox.agent.network import CONNECTIONS, ProxyServer, ProxyTraffic
from process_helpers import wait_until

CONFINED = [AgentLevel.A, AgentLevel.B]
ASK = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) as one:
    print(one.recv(100).decode())
"""
TUNNEL = """
import os, socket, sys, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
with socket.create_connection((proxy.hostname, proxy.port), 20) as one:
    one.sendall(f"CONNECT {sys.argv[1]} HTTP/1.1\\r\\nHost: {sys.argv[1]}\\r\\n\\r\\n".encode())
    answer = b""
    while data := one.recv(4096):
        answer += data
    print(answer.decode())
"""
HOARD = """
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (900, 900))
kept = []
try:
    while True:
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", int(sys.argv[1])))
        kept.append(one)
except OSError:
    pass
kept.pop().close()
open("hoarding", "w").close()
time.sleep(600)
"""
ECHO = """
import hashlib, os, socket, sys, threading
data = os.urandom(8 << 20)
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60) as one:
    threading.Thread(target=lambda: (one.sendall(data), one.shutdown(socket.SHUT_WR))).start()
    back = b"".join(iter(lambda: one.recv(1 << 16), b""))
print(back == data)
"""


@pytest.fixture(scope="module")
def testbed():
    with AgentTestbed() as opened:
        yield opened


@pytest.mark.parametrize("level", CONFINED)
class TestReach:
    @pytest.mark.parametrize("network", list(NetworkAccess))
    def test_the_api_is_reached_at_its_own_port(self, testbed, level, network):
        assert testbed.run(["python", "-c", ASK, str(testbed.api_port)], level, network=network)[1] == "the API\n"

    @pytest.mark.parametrize("network", list(NetworkAccess))
    def test_the_api_of_another_run_is_reached_only_when_the_network_is_open(self, testbed, level, network):
        _, text = testbed.run(["python", "-c", ASK, str(testbed.other_api_port)], level, network=network)
        assert (testbed.canary in text) == (network is NetworkAccess.OPEN)

    def test_the_cloud_and_the_internet_are_out_of_reach(self, testbed, level):
        source = """
import errno, socket
for address in (("169.254.169.254", 80), ("1.1.1.1", 443), ("1.1.1.1", 53)):
    with socket.socket() as one:
        one.settimeout(20)
        print(errno.errorcode[one.connect_ex(address)])
"""
        refusals = testbed.run(["python", "-c", source], level)[1].split()
        assert set(refusals) <= {"ENETUNREACH", "EACCES"}

    def test_the_proxy_lets_listed_hosts_through_and_counts(self, testbed, level):
        listed = f"127.0.0.1:{testbed.everywhere}"
        with testbed.start(["python", "-c", TUNNEL, listed], level, hosts=(listed,), ports=()) as process:
            assert process.wait(60) == 0, testbed.output()
            assert "200 Connected" in testbed.output() and testbed.canary in testbed.output()
            assert process.traffic() == (
                ProxyTraffic("127.0.0.1", testbed.everywhere, True, 1, 0, len(testbed.canary)),
            )

    def test_the_proxy_refuses_all_others_in_words_and_remembers(self, testbed, level):
        with testbed.start(["python", "-c", TUNNEL, "pypi.org:443"], level, hosts=("api.example.org",)) as process:
            assert process.wait(60) == 0, testbed.output()
            assert "403 Forbidden" in testbed.output()
            assert "pypi.org:443 is not on this run's list of hosts: api.example.org:443" in testbed.output()
            assert process.traffic() == (ProxyTraffic("pypi.org", 443, False, 1, 0, 0),)

    def test_many_connections_use_up_little_of_the_judge(self, testbed, level):
        """At level A they all pass through the judge, which must not run out of descriptors."""
        (testbed.workspace / "hoarding").unlink(missing_ok=True)
        with socket.create_server(("127.0.0.1", 0), backlog=512) as silent:
            port, before = silent.getsockname()[1], len(os.listdir("/proc/self/fd"))
            with testbed.start(["python", "-c", HOARD, str(port)], level, ports=(port,)) as process:
                assert wait_until((testbed.workspace / "hoarding").exists)
                time.sleep(0.5)
                assert len(os.listdir("/proc/self/fd")) < before + 200
                process.kill()
            assert len(os.listdir("/proc/self/fd")) <= before

    def test_large_transfers_pass_unchanged(self, testbed, level):
        with socket.create_server(("127.0.0.1", 0)) as echo:
            threading.Thread(target=_echo, args=(echo,), daemon=True).start()
            port = echo.getsockname()[1]
            assert testbed.run(["python", "-c", ECHO, str(port)], level, ports=(port,))[1] == "True\n"


@pytest.mark.parametrize("level", [AgentLevel.A, pytest.param(AgentLevel.B, marks=pytest.mark.slow), AgentLevel.NONE])
def test_a_simulator_cannot_be_downloaded(testbed, level, tmp_path):
    """The index is on this machine, so that the download works without a jail."""
    wheel = tmp_path / "simple" / "gymnasium" / "gymnasium-9.9-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    _write_wheel(wheel)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as index:
        threading.Thread(target=index.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{index.server_port}/simple"
        command = f"python -m pip download --no-deps --retries 0 --timeout 5 --index-url {url} -d got gymnasium"
        pip = Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "pip"
        (testbed.workspace / "lib").mkdir(exist_ok=True)
        link = testbed.workspace / "lib" / "pip"
        link.is_symlink() or link.symlink_to(pip)
        environment = {"PYTHONPATH": str(testbed.workspace / "lib")}
        code, text = testbed.shell(command, level, readable=(pip,), environment=environment)
        index.shutdown()
    assert (code == 0) == (level is AgentLevel.NONE), text
    assert (testbed.workspace / "got" / wheel.name).exists() == (level is AgentLevel.NONE)


class TestAllowList:
    def test_hosts_are_read(self):
        assert parse("API.example.org") == Destination("api.example.org", 443)
        assert parse("10.0.0.7:8080") == Destination("10.0.0.7", 8080)
        assert parse("[::1]:80") == Destination("::1", 80)
        assert parse("api.example.org.") == Destination("api.example.org", 443)  # as it is when it is asked for

    @pytest.mark.parametrize(
        "line",
        [
            b"CONNECT api.example.org:80 HTTP/1.1",
            b"CONNECT xapi.example.org:443 HTTP/1.1",
            b"CONNECT api.example.org.evil.net:443 HTTP/1.1",
            b"CONNECT 127.0.0.1:22 HTTP/1.1",
            b"GET http://api.example.org/ HTTP/1.1",
            b"CONNECT api.example.org:443\x00.evil HTTP/1.1",
            b"CONNECT user@api.example.org:443 HTTP/1.1",
            b"\x16\x03\x01",
        ],
    )
    def test_everything_else_is_refused(self, line):
        with pytest.raises(ProxyRefusal):
            AllowList(["api.example.org"], [9999]).requested(line + b"\r\n\r\n")

    def test_what_is_listed_passes_whatever_the_spelling(self):
        allowed = AllowList(["api.example.org", "other.example.org:8443"], [9999])
        for wanted in (b"API.Example.ORG:443", b"api.example.org.:443", b"other.example.org:8443", b"localhost:9999"):
            allowed.requested(b"CONNECT " + wanted + b" HTTP/1.1\r\n\r\n")

    @pytest.mark.parametrize(
        "address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.0.1", "::1", "fe80::1", "0.0.0.0"]
    )
    def test_a_listed_name_at_a_private_address_is_refused_unless_that_is_listed(self, address):
        wanted = Destination("api.example.org", 443)
        with pytest.raises(ProxyRefusal, match="not public"):
            AllowList(["api.example.org"], []).permitted(wanted, [address])
        listed = f"[{address}]" if ":" in address else address
        assert AllowList(["api.example.org", listed], []).permitted(wanted, [address]) == [address]


def _echo(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def _write_wheel(path: Path) -> None:
    from zipfile import ZipFile

    info = "gymnasium-9.9.dist-info"
    with ZipFile(path, "w") as wheel:
        wheel.writestr("gymnasium/__init__.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: gymnasium\nVersion: 9.9\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def test_an_agent_that_keeps_its_side_open_keeps_no_place():
    """The server has closed: more connections than places are served, though none is closed by the agent."""
    count = CONNECTIONS + 20
    with socket.create_server(("127.0.0.1", 0), backlog=256) as far:

        def answer():
            for _ in range(count):
                connection, _ = far.accept()
                with connection:
                    connection.sendall(b"x")

        threading.Thread(target=answer, daemon=True).start()
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        near = listener.getsockname()
        relay = ProxyServer({far.getsockname()[1]: listener}, None, AllowList([], []))
        talks = [socket.create_connection(near, 30) for _ in range(count)]
        assert [talk.recv(1) for talk in talks] == [b"x"] * len(talks)
        for talk in talks:
            talk.close()
        relay.close()
