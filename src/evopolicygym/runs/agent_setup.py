"""From the settings of an agent to one at work: which client, where it is installed, what it may see and reach."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from evopolicygym.agents import definitions, home, prices, readiness
from evopolicygym.agents.definitions import Client
from evopolicygym.agents.prices import Price
from evopolicygym.errors import UserError
from evopolicygym.files import sync_tree
from evopolicygym.run_paths import RunPaths
from evopolicygym.runs import install_paths, workspace
from evopolicygym.runs.agent_process import AgentCommand, AgentRunner, CliAgent, JsonLinesAgent
from evopolicygym.runs.install_paths import InstallPaths, find_install_paths, node_interpreter
from evopolicygym.runs.settings import AgentSettings
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, AgentSandbox, NetworkAccess
from evopolicygym.sandbox.agent.allow_list import parse
from evopolicygym.sandbox.agent.exposure import exposure
from evopolicygym.sandbox.agent.levels import best_level, standing
from evopolicygym.sandbox.agent.python import AgentPython, make_python
from evopolicygym.sandbox.checkpoints import STAGED, sweep
from evopolicygym.sandbox.runtime import runtime

SHIPPED: Final = "builtin"
FOLDER: Final = "agent"


@dataclass(frozen=True)
class AgentHome:
    home: Path
    temporary: Path
    programs: Path
    python: AgentPython

    def cell(self, paths: RunPaths, network: NetworkAccess, hosts: tuple[str, ...], ports: tuple[int, ...],
             installed: InstallPaths, environment: dict[str, str]) -> AgentSandbox:  # fmt: skip
        return AgentSandbox(
            workspace=paths.workspace,
            home=self.home,
            temporary=self.temporary,
            python=self.python,
            feedback=paths.feedback,
            readable=(*installed.readable, self.programs),
            libraries=installed.libraries,
            environment={"PYTHONPATH": str(self.programs), **environment},
            network=network,
            hosts=hosts,
            ports=ports,
        )


def make_agent_home(paths: RunPaths, client: Client) -> AgentHome:
    """Also when a run is taken up again: what is there stays."""
    root = paths.root / FOLDER
    folders = {name: root / name for name in ("home", "tmp", "programs", "python")}
    for folder in folders.values():
        home.ensure(folder)
    _ship(folders["programs"] / SHIPPED)
    home.copy_credentials(client.credentials, Path.home(), folders["home"])
    return AgentHome(
        folders["home"], folders["tmp"], folders["programs"], make_python(folders["python"], client.packages)
    )


def delete_credentials(paths: RunPaths, client: str) -> None:
    """Of a run that is over: its player may have been killed before it could."""
    with suppress(UserError):  # a definition of the user's own may be gone
        for name in definitions.load(client).credentials:
            home.remove(paths.root / FOLDER / "home", name)


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


SEED: Final = "EVOPOLICYGYM_SEED"
LOOPBACK: Final = ("127.0.0.1", "localhost")


@dataclass(frozen=True)
class AgentSetup:
    """An agent that can play here. ``program`` is None for one that ships."""

    settings: AgentSettings
    client: Client
    level: AgentLevel
    program: str | None
    version: str | None

    def facts(self, root: Path) -> dict[str, Any]:
        """For the record of the run in ``root``: no values of variables, and no paths of this machine but those that
        were shown on purpose."""
        names = {"base_url", "options", "variables", "hosts", "shown"}
        settings = self.settings.model_dump(mode="json", include=names)
        program = next((str(path) for path in (self.program, *self._own()) if path), None)
        known = {"version": self.version, "sha256": readiness.fingerprint(program) if program else None}
        command = {"command": [os.path.basename(item) if Path(item) in self._own() else item for item in self.argv]}
        agent = {
            "name": self.client.name,
            "model": self.settings.model,
            "version": self.version,
            "seed": self.settings.seed,
            "settings": {name: value for name, value in (settings | command | known).items() if value},
        }
        stands = standing(self.level, self.settings.network)
        shown = tuple(f"{path} is shown to it" for path in self.settings.shown)
        seen = self._simulators_seen(RunPaths(root))
        held = {"level": stands.level, "network": stands.network, "residues": (*shown, *seen, *stands.residues)}
        return {"agent": agent, "agent_isolation": held}

    def _simulators_seen(self, paths: RunPaths) -> tuple[str, ...]:
        if self.level is AgentLevel.NONE:
            return ()
        installation = self._footprint(paths)
        return exposure(installation.readable, installation.libraries).residues()

    @property
    def argv(self) -> list[str]:
        return self.settings.command

    def _own(self) -> tuple[Path, ...]:
        return install_paths.command_files(self.argv)

    @property
    def prices(self) -> dict[str, Price]:
        return prices.table(self.settings.prices)

    def shown_alone(self, paths: RunPaths) -> list[Path]:
        """Files of the command whose neighbours the agent does not see."""
        return [path for path in self._own() if install_paths.is_shown_alone(path, _hidden(paths))]

    def make_runner(self, paths: RunPaths, api_url: str) -> AgentRunner:
        stage = make_agent_home(paths, self.client)
        passed = _variables(self.settings)
        told = workspace.agent_environment(paths, api_url) | {
            SEED: str(self.settings.seed),
            "PATH": _path(self.program),
        }
        ports = (urlsplit(api_url).port or 0, *self._model_ports())
        cell = stage.cell(paths, self.settings.network, self._hosts(), ports, self._footprint(paths), told | passed)
        seat = AgentCommand(
            self.client,
            paths.workspace,
            stage.home,
            self.program,
            self.settings.model,
            self.settings.base_url,
            self.settings.options,
            _keys(self.client) | passed,
        )
        kind = JsonLinesAgent if self.client.turns == "json_lines" else CliAgent
        return kind(seat, cell, self.level, paths.logs / "agent")

    def _model_ports(self) -> tuple[int, ...]:
        """A model server on this machine is reached at its own port."""
        url = urlsplit(self.settings.base_url or "")
        return (url.port,) if url.hostname in LOOPBACK and url.port else ()

    def _hosts(self) -> tuple[str, ...]:
        of_the_model = () if self._model_ports() else self.client.allowed_hosts(self.settings.base_url)
        return (*of_the_model, *self.settings.hosts)

    def _footprint(self, paths: RunPaths) -> InstallPaths:
        shown = tuple(self.settings.shown)
        if self.client.name == definitions.COMMAND:
            return InstallPaths((*install_paths.visible_paths(self._own(), _hidden(paths)), *shown))
        installation = find_install_paths(Path(self.program)) if self.program else InstallPaths()
        return replace(installation, readable=(*installation.readable, *shown))


def set_up_agent(settings: AgentSettings) -> AgentSetup:
    """Raises UserError when the agent cannot play here, with the remedy."""
    _check(settings)
    if settings.name == definitions.COMMAND:
        settings = settings.model_copy(update={"command": install_paths.resolve_command(settings.command)})
        client = definitions.command(settings.command, settings.json_lines)
        program = client.program if os.path.isabs(client.program) else None
        return AgentSetup(settings, client, best_level(settings.levels), program, None)
    client = definitions.load(settings.name)
    _check_hosts(client.hosts)
    ready = readiness.check(client, os.environ, Path.home())
    if ready.missing:
        raise UserError(f"{client.name} cannot play here: {ready.missing[0]}")
    client.check(settings.model, settings.base_url, settings.options, _keys(client))
    return AgentSetup(settings, client, best_level(settings.levels), ready.program, ready.version)


def _check(settings: AgentSettings) -> None:
    """Mistakes are told before anything begins."""
    prices.table(settings.prices)
    _variables(settings)
    _check_url(settings.base_url)
    _check_reachable(settings)
    _check_hosts(settings.hosts)
    for path in settings.shown:
        if not path.exists():
            raise UserError(f"{path} is not there: an agent cannot be shown it", "Create it, or leave it out.")
    if settings.command and settings.name != definitions.COMMAND:
        raise UserError(
            f"{settings.name} has a program of its own: {' '.join(settings.command)!r} would not be used",
            "Leave it out, or let it play: --agent command -- PROGRAM ARGUMENTS.",
        )
    if settings.json_lines and settings.name != definitions.COMMAND:
        raise UserError(f"{settings.name} speaks its own way", "--json-lines is for --agent command.")


def _check_hosts(hosts: Iterable[str]) -> None:
    for host in hosts:
        try:
            parse(host)
        except ValueError as error:
            raise UserError(f"{error}: an agent cannot be given it", "Write HOST, or HOST:PORT.") from None


def _check_url(url: str | None) -> None:
    try:
        parts = urlsplit(url or "https://none")
        sound = parts.scheme in ("http", "https")
        parse(parts.netloc.rpartition("@")[2])
    except ValueError:
        sound = False
    if not sound:
        raise UserError(
            f"{url!r} is no address of a model's API",
            "Write it whole, such as http://127.0.0.1:8000/v1 or https://HOST/v1.",
        )


def _check_reachable(settings: AgentSettings) -> None:
    """The proxy carries what it cannot read, and nothing else."""
    url, proxied = urlsplit(settings.base_url or ""), settings.network is NetworkAccess.ALLOWED
    if url.scheme == "http" and url.hostname not in LOOPBACK and proxied and settings.isolation != "none":
        raise UserError(
            f"{settings.base_url} is plain http elsewhere than at 127.0.0.1, and the agent's proxy carries https only",
            f"Give an https address; or bring it here with `ssh -N -L 8000:{url.hostname}:{url.port or 80} HOST` and "
            f"give http://127.0.0.1:8000{url.path}; or open the network with --agent-network open, which is recorded.",
        )


def _hidden(paths: RunPaths) -> tuple[Path, ...]:
    """A folder that holds one of these holds more than a program."""
    judges = (Path(runtime().harness), Path(runtime().site))
    return paths.root, Path.cwd(), Path.home(), Path(tempfile.gettempdir()), *judges


def _path(program: str | None) -> str:
    """Where the client and its interpreter are, before the system's folders."""
    own = [] if program is None else [str(Path(program).parent), *(str(path.parent) for path in node_interpreter())]
    return ":".join([*own, "/usr/local/bin", "/usr/bin", "/bin"])


def _keys(client: Client) -> dict[str, str]:
    return {name: value for name in client.keys if (value := os.environ.get(name))}


def secret_values(settings: AgentSettings) -> dict[str, str]:
    """Values of the variables that an agent is passed, as far as they are set here, by name."""
    names = list(settings.variables)
    with suppress(UserError):  # a definition of the user's own may be gone
        names += () if settings.name == definitions.COMMAND else definitions.load(settings.name).keys
    return {name: value for name in names if (value := os.environ.get(name))}


def _variables(settings: AgentSettings) -> dict[str, str]:
    if unset := [name for name in settings.variables if name not in os.environ]:
        raise UserError(f"the variable {unset[0]} is not set", "Set it, or leave its --agent-env out.")
    return {name: os.environ[name] for name in settings.variables}
