"""Simulators that are installed on the machine are hidden from agents. If an agent must see one, or can reach more than
the API of its run, the record says so."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

import planted_simulators
import pytest
from agent_testbed import AgentTestbed

from evopolicygym.runs.agent.install_paths import environment_of, find_install_paths
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, NetworkAccess
from evopolicygym.sandbox.agent.levels import residues
from evopolicygym.sandbox.agent.visible_files import exposure
from evopolicygym.sandbox.package_scan import scan_packages, simulators_beneath

HERE = Path(__file__).parent
AS_USER = HERE.parents[1] / "attacks" / "as_user.py"
CONFINED = [AgentLevel.A, AgentLevel.B]
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to plant simulators in a mount namespace")
USERS = ["root", "user"]


@cache
def seen_by(user: str) -> dict[str, dict]:
    """Level to what an agent at that level sees of what was planted."""
    become = [sys.executable, str(AS_USER)] if user == "user" else []
    probe = [sys.executable, str(HERE / "simulator_access.py"), "none", "A", "B"]
    command = [sys.executable, str(HERE / "planted_simulators.py"), *become, *probe]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    if "planted: overlay" in done.stderr:
        pytest.skip("no overlay can be mounted here, so nothing can be planted under /usr")
    assert done.returncode == 0, done.stderr
    return {row["level"]: row for row in map(json.loads, done.stdout.splitlines())}


@NEEDS_ROOT
@pytest.mark.parametrize("user", USERS)
class TestPlantedInTheUsualPlaces:
    def test_every_simulator_is_found_where_nothing_is_hidden(self, user):
        assert set(seen_by(user)["none"]["found"]) >= {*planted_simulators.PLACES, planted_simulators.LIBRARY}

    @pytest.mark.parametrize("level", CONFINED)
    def test_no_simulator_is_found_in_the_sandbox(self, user, level):
        visible = seen_by(user)[level]
        assert visible["found"] == [] and visible["works"]

    @pytest.mark.parametrize("level", CONFINED)
    def test_a_client_sees_its_own_packages_and_others_do_not(self, user, level):
        visible = seen_by(user)[level]
        assert visible["client"] and not visible["others"]

    def test_the_judge_knows_what_it_hides(self, user):
        facts = seen_by(user)["all"]
        assert facts["seen"] == []
        closed = "/opt", "/home"  # of which agents see nothing anyway
        by_name = {f"{folder}/{name}" for folder, name in planted_simulators.PACKAGES.items() if name != "pendulums"}
        expected = {path for path in by_name if not path.startswith(closed)} | {
            *planted_simulators.ARCHIVES,
            planted_simulators.LIBRARY,
        }
        assert set(facts["hidden"]) >= expected

    def test_policies_are_played_without_them(self, user):
        facts = seen_by(user)["all"]
        assert facts["policies"] == []  # no level fails
        assert set(facts["holes"]) >= set(planted_simulators.AMONG_SYSTEM_LIBRARIES)


def plant(folder: Path, module: str = "gymnasium") -> Path:
    (folder / module).mkdir(parents=True)
    (folder / module / "__init__.py").write_text(planted_simulators.CANARY)
    return folder / module


@pytest.fixture
def installation(tmp_path):
    """Make an installation of Python that has simulators in it."""
    root = tmp_path.resolve() / "python"
    (root / "lib" / "python3.12").mkdir(parents=True)
    (root / "lib" / "python3.12" / "os.py").write_text("ours = True\n")
    plant(root / "lib/python3.12/site-packages")
    plant(root / "lib/some/where")
    (root / "lib" / "libmujoco.so").write_text(planted_simulators.CANARY)
    return root


@pytest.mark.parametrize("level", CONFINED)
def test_other_pythons_are_shown_without_packages_and_simulators(installation, level):
    """Needs no mount namespace: so as an ordinary user too."""
    library = installation / "lib"
    script = f"""
        cat {library}/python3.12/os.py
        cat {library}/python3.12/site-packages/gymnasium/__init__.py {library}/some/where/gymnasium/__init__.py \
            {library}/libmujoco.so
    """
    with AgentTestbed() as testbed:
        text = testbed.shell(script, level, libraries=(library,))[1]
        assert text.startswith("ours = True\n") and "CANARY" not in text
        whole = testbed.shell(script, level, readable=(library,))[1]
        assert whole.count("CANARY") == 3  # shown on purpose, it is shown


@pytest.mark.parametrize("level", CONFINED)
def test_an_environment_whose_python_is_a_link_to_a_link_starts(tmp_path, level):
    """As of pyenv: bin/python of the environment, python of the version, python3.12."""
    root = tmp_path.resolve()
    version, environment = root / "version" / "bin", root / "environment"
    for folder in (version, environment / "bin", environment / "lib"):
        folder.mkdir(parents=True)
    shutil.copy("/bin/sh", version / "python3.12")
    (version / "python").symlink_to("python3.12")
    (environment / "bin" / "python").symlink_to(version / "python")
    (environment / "pyvenv.cfg").touch()
    (program := environment / "bin" / "client").write_text(f"#!{environment}/bin/python\necho it runs\n")
    program.chmod(0o755)
    for paths in (find_install_paths(program), environment_of(program)):
        with AgentTestbed() as testbed:
            assert testbed.shell(str(program), level, readable=paths.readable)[1] == "it runs\n"


def test_simulators_are_found_by_name(tmp_path):
    root = tmp_path.resolve()
    hidden = {plant(root / "a", "gymnasium"), plant(root / "b", "Box2D"), plant(root / "c", "highway_env")}
    for name in (
        "gymnasium-1.0.0.tar.gz",
        "mujoco-3.3.0-cp311-cp311-linux_x86_64.whl",
        "libmujoco.so.3",
        "pybullet.so",
    ):
        (root / name).touch()
        hidden.add(root / name)
    (root / "include" / "mujoco").mkdir(parents=True)  # headers simulate nothing
    (root / "gymnastics.py").touch()
    os.mkfifo(root / "fifo.pth")
    (root / "loop").symlink_to(root)
    assert set(scan_packages(str(root)).simulators) == set(map(str, hidden))
    plant(root / "venv/lib/python3.11/site-packages", "minigrid")
    os.mkfifo(root / "venv/lib/python3.11/site-packages/fifo.pth")
    scan_packages.cache_clear()
    assert scan_packages(str(root)).packages == (str(root / "venv/lib/python3.11/site-packages"),)
    assert str(root / "venv/lib/python3.11/site-packages/minigrid") in simulators_beneath(str(root))


def test_a_simulator_in_the_environment_of_a_client_is_recorded(tmp_path):
    """Its packages must be seen, or it does not run."""
    environment = tmp_path.resolve() / "tool"
    program = environment / "bin" / "client"
    program.parent.mkdir(parents=True)
    program.write_text("#!/usr/bin/env python\n")
    (environment / "pyvenv.cfg").touch()
    (environment / "lib/python3.11/site-packages").mkdir(parents=True)
    clean = find_install_paths(program)
    assert environment in clean.readable
    assert exposure(clean.readable).residues() == ()
    simulator = plant(environment / "lib/python3.11/site-packages")
    scan_packages.cache_clear()
    simulators_beneath.cache_clear()
    visible = exposure(clean.readable)
    assert visible.seen == (str(simulator),)
    (residue,) = visible.residues()
    assert "off-budget" in residue and "gymnasium" in residue and str(tmp_path) not in residue


def serve_canary(address: tuple[str, int]) -> socket.socket:
    listener = socket.create_server(address)

    def answer() -> None:
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            connection.sendall(b"CANARY")
            connection.close()

    threading.Thread(target=answer, daemon=True).start()
    return listener


@pytest.mark.parametrize("level", CONFINED)
@pytest.mark.parametrize("network", [NetworkAccess.ALLOWED, NetworkAccess.NONE])
def test_the_record_says_whether_the_port_is_reached_at_other_addresses(level, network):
    """The record must neither hide it nor claim it where it is not so."""
    with AgentTestbed() as testbed:
        listener = serve_canary(("127.0.0.2", testbed.api_port))
        source = f"import socket; print(socket.create_connection(('127.0.0.2', {testbed.api_port}), 5).recv(9))"
        text = testbed.run(["python", "-c", source], level, network=network)[1]
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    is_recorded = any("at any address" in residue for residue in residues(level, network, abi=7, own_user=True))
    assert ("CANARY" in text) is is_recorded is (level is AgentLevel.B)
    assert not any("at any address" in residue for residue in residues(level, NetworkAccess.OPEN, abi=7, own_user=True))
