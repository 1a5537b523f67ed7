"""What a run keeps for its agent's program, beside the workspace: its HOME, its temporary folder, its Python, and the
programs that ship. All of it is the run's own, so that nothing planted in one run is there in the next."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from evopolicygym.agents import definitions, home
from evopolicygym.agents.client import Client
from evopolicygym.errors import UserError
from evopolicygym.files import sync_tree
from evopolicygym.run_paths import RunPaths
from evopolicygym.runs.install_paths import Footprint
from evopolicygym.sandbox.agent.cell import Cell, Network
from evopolicygym.sandbox.agent.python import Python, make_python
from evopolicygym.sandbox.checkpoints import STAGED, sweep

SHIPPED: Final = "builtin"
FOLDER: Final = "agent"


@dataclass(frozen=True)
class Backstage:
    home: Path
    temporary: Path
    programs: Path
    python: Python

    def cell(self, place: RunPaths, network: Network, hosts: tuple[str, ...], ports: tuple[int, ...],
             installed: Footprint, environment: dict[str, str]) -> Cell:  # fmt: skip
        return Cell(
            workspace=place.workspace,
            home=self.home,
            temporary=self.temporary,
            python=self.python,
            feedback=place.feedback,
            readable=(*installed.readable, self.programs),
            libraries=installed.libraries,
            environment={"PYTHONPATH": str(self.programs), **environment},
            network=network,
            hosts=hosts,
            ports=ports,
        )


def set_up(place: RunPaths, client: Client) -> Backstage:
    """Also when a run is taken up again: what is there stays."""
    root = place.root / FOLDER
    folders = {name: root / name for name in ("home", "tmp", "programs", "python")}
    for folder in folders.values():
        home.ensure(folder)
    _ship(folders["programs"] / SHIPPED)
    home.copy_credentials(client.credentials, Path.home(), folders["home"])
    return Backstage(
        folders["home"], folders["tmp"], folders["programs"], make_python(folders["python"], client.packages)
    )


def forget_logins(place: RunPaths, client: str) -> None:
    """Of a run that is over: its player may have been killed before it could."""
    with suppress(UserError):  # a definition of the user's own may be gone
        for name in definitions.load(client).credentials:
            home.remove(place.root / FOLDER / "home", name)


def _ship(target: Path) -> None:
    """A copy: the package itself is not the agent's to see. Complete before it has its name, for we may be killed
    meanwhile, and what is there is not made again."""
    sweep(target.parent)
    if target.exists():
        return
    with (
        as_file(files("evopolicygym.agents") / SHIPPED) as source,
        tempfile.TemporaryDirectory(prefix=STAGED, dir=target.parent) as staged,
    ):
        shutil.copytree(source, copy := Path(staged) / SHIPPED, ignore=shutil.ignore_patterns("__pycache__"))
        sync_tree(copy)
        copy.rename(target)
