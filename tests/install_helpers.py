"""Install real programs for tests once, from a registry into a cache in the user's home."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("EVOPOLICYGYM_TEST_CLIENTS") or Path.home() / ".cache" / "evopolicygym-test-clients")
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "ECONNRESET", "NewConnectionError")


def install_once(package: str, install: Callable[[Path], None]) -> Path:
    """Return the folder that ``install`` filled; call it unless an earlier test has."""
    folder = CACHE / package.strip("@").replace("/", "-")
    with _locked(folder):
        if not (folder / ".ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            install(folder)
            (folder / ".ready").touch()
    return folder


def run(command: list[str], package: str, folder: Path | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, cwd=folder)
    if done.returncode and any(word in done.stderr for word in UNREACHABLE):
        pytest.skip(f"the registry cannot be reached, so that {package} cannot be installed")
    assert done.returncode == 0, done.stderr


def tool(name: str) -> str:
    path = shutil.which(name)
    return path or pytest.skip(f"{name} is not installed, so that this program cannot be")


def python(version: str) -> str:
    """Return a Python of a version such as "3.12". The one on the path may be a pyenv shim of a version that is not
    selected, and then does not run."""
    found = shutil.which(f"python{version}")
    selected = [found] if found else []
    others = sorted(str(path) for path in (Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for path in (*selected, *others):
        if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    return pytest.skip(f"Python {version} is not installed, so that this program cannot be")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
