"""Set an agent up: from its settings to a program that can be started in its sandbox.

`set_up_agent` checks the settings, finds the client and its program, and returns an `AgentSetup`. Its `make_runner`
makes the run's own HOME for the agent (`AgentHome`), describes the sandbox, and returns the runner that plays turns
(runs/agent/process.py). Files that the agent must see to start are found by runs/agent/install_paths.py.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from evopolicygym.agents import definitions, home, prices, readiness
from evopolicygym.agents.definitions import Client, VendorAddress
from evopolicygym.agents.prices import Price
from evopolicygym.errors import UserError
from evopolicygym.files import sync_tree
from evopolicygym.gateway.patience import SharedWaits
from evopolicygym.judge.delivery import make_feedback_folder
from evopolicygym.run_paths import AGENT_HOME, AGENT_PROGRAMS, AGENT_PYTHON, AGENT_TEMPORARY, RunPaths
from evopolicygym.run_record import load
from evopolicygym.runs import workspace
from evopolicygym.runs.agent import install_paths
from evopolicygym.runs.agent.gateway import (
    NO_KEY,
    TOKEN,
    MeteredAgent,
    OpenGateway,
    check_replay,
    client_keys,
    model_access,
    model_routes,
    open_gateway,
    variable_values,
    with_recorded_address,
)
from evopolicygym.runs.agent.install_paths import InstallPaths, find_install_paths, node_interpreter
from evopolicygym.runs.agent.logins import copy_logins, end_logins
from evopolicygym.runs.agent.process import AgentCommand, AgentRunner, CliAgent, JsonLinesAgent
from evopolicygym.runs.agent.shell_variables import check_shell, shell_note
from evopolicygym.runs.settings import AgentSettings
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, AgentPython, AgentSandbox, NetworkAccess, make_python
from evopolicygym.sandbox.agent.allow_list import parse
from evopolicygym.sandbox.agent.levels import agent_isolation, best_level
from evopolicygym.sandbox.agent.visible_files import exposure
from evopolicygym.sandbox.checkpoints import STAGED, remove_tree
from evopolicygym.sandbox.runtime import runtime

SHIPPED: Final = "builtin"
SEED: Final = "EVOPOLICYGYM_SEED"
BESIDE: Final = "put what it needs into a folder of its own, or add --show PATH (show=)"
RETURNED_LOGIN: Final = (
    "it can change its copy of the login, which replaces the user's own at the end (an API key stays in the gateway)"
)
LOOPBACK: Final = ("127.0.0.1", "localhost")
NO_PRICE: Final = (
    "the limit of dollars ends the run only if the client reports its cost. Name the price in a file of prices "
    "(`evopolicygym docs agents`), or limit the tokens."
)


def set_up_agent(settings: AgentSettings) -> AgentSetup:
    """Return the agent, ready to play. Raise UserError with a remedy if it cannot play here."""
    settings = with_recorded_address(settings)
    _check(settings)
    if settings.name == definitions.COMMAND:
        settings = settings.model_copy(update={"command": install_paths.resolve_command(settings.command)})
        client = definitions.command(settings.command, settings.json_lines)
        program = client.program if os.path.isabs(client.program) else None
        _check_reachable(client, settings)
        check_replay(client, settings)
        check_shell(client, settings)
        return AgentSetup(settings, client, best_level(settings.levels), program, None)
    client = definitions.load(settings.name)
    _check_reachable(client, settings)
    check_replay(client, settings)
    check_shell(client, settings)
    _check_hosts(client.hosts)
    ready = readiness.check(client, {**os.environ, **client_keys(client, settings)}, Path.home())
    if ready.missing:
        mark = "\n  " if len(ready.missing) > 1 else " "
        raise UserError(f"{client.name} cannot play here:{mark}{mark.join(ready.missing)}")
    client.check(settings.model, settings.base_url, settings.options, client_keys(client, settings))
    return AgentSetup(settings, client, best_level(settings.levels), ready.program, ready.version)


@dataclass(frozen=True)
class AgentSetup:
    """An agent that can play on this machine. ``program`` is None for a built-in agent."""

    settings: AgentSettings
    client: Client
    level: AgentLevel
    program: str | None
    version: str | None

    @property
    def prices(self) -> dict[str, Price]:
        return prices.load_prices(self.settings.prices)

    def make_runner(self, paths: RunPaths, api_url: str, rate_limits: SharedWaits | None = None) -> AgentRunner:
        """Return what plays the agent's turns in a run whose API is at ``api_url``."""
        if not (routes := model_routes(self.client, self.settings)):
            return self._make_runner(paths, api_url, None)
        secrets = client_keys(self.client, self.settings) | _variables(self.settings)
        opened = open_gateway(routes, self.settings, paths, self.prices, rate_limits, secrets)
        try:
            return MeteredAgent(self._make_runner(paths, api_url, opened), opened)
        except BaseException:
            opened.close()
            raise

    def _make_runner(self, paths: RunPaths, api_url: str, opened: OpenGateway | None) -> AgentRunner:
        agent_home = make_agent_home(paths, self.client, has_login=opened is None)
        variables = _variables(self.settings)
        secrets = client_keys(self.client, self.settings) | variables
        if opened:  # the agent gets tokens in place of keys
            variables |= {name: token for name, token in opened.keys.items() if name in variables}
            secrets[TOKEN] = opened.gateway.token
        environment = workspace.agent_environment(paths, api_url)
        environment |= {SEED: str(self.settings.seed), "PATH": _search_path(self.program), **variables}
        installed = self._install_paths(paths)
        sandbox = AgentSandbox(
            workspace=paths.workspace,
            home=agent_home.home,
            temporary=agent_home.temporary,
            python=agent_home.python,
            feedback=make_feedback_folder(paths.workspace),
            readable=(*installed.readable, agent_home.programs),
            libraries=installed.libraries,
            environment={"PYTHONPATH": str(agent_home.programs), **environment},
            network=self.settings.network,
            hosts=tuple(self.settings.hosts) if opened else self._hosts(),
            ports=(urlsplit(api_url).port or 0, *(opened.gateway.ports if opened else self._model_ports())),
        )
        command = AgentCommand(
            self.client,
            paths.workspace,
            agent_home.home,
            self.program,
            self.settings.model,
            opened.base_url if opened else self.settings.base_url,
            self.settings.options,
            opened.keys | variables if opened else secrets,
            secrets,
            opened.vendors if opened else self._vendors(),
            agent_home.logins,
        )
        runner = JsonLinesAgent if self.client.turns == "json_lines" else CliAgent
        return runner(command, sandbox, self.level, paths.transcripts)

    def facts(self, root: Path) -> dict[str, Any]:
        """Return what the record of the run in ``root`` says of the agent and its isolation. It holds no values of
        variables, and no paths of this machine but those that were shown on purpose."""
        recorded = {"base_url", "options", "variables", "hosts", "shown"}
        settings = self.settings.model_dump(mode="json", include=recorded) | self.settings.behaviour()
        own_files = self._command_files()
        program = next((str(path) for path in (*reversed(own_files), self.program) if path), None)
        settings |= {
            "command": [os.path.basename(word) if Path(word) in own_files else word for word in self.settings.command],
            "model_access": model_access(self.client, self.settings),
            "replay_of": load(self.settings.replay).id if self.settings.replay else None,
            "version": self.version,
            "sha256": readiness.fingerprint(program) if program else None,
        }
        agent = {
            "name": self.client.name,
            "model": self.settings.model,
            "version": self.version,
            "seed": self.settings.seed,
            "settings": {name: value for name, value in settings.items() if value},
        }
        achieved = agent_isolation(self.level, self.settings.network)
        shown = tuple(f"{path} is shown to it" for path in self.settings.shown)
        residues = (*shown, *self._returned_logins(), *self._visible_simulators(RunPaths(root)), *achieved.residues)
        isolation = {"level": achieved.level, "network": achieved.network, "residues": residues}
        return {"agent": agent, "agent_isolation": isolation}

    def notices(self, paths: RunPaths) -> Iterator[str]:
        """Yield what the user of a run should know before its agent starts: a shell variable that decides where the
        model is asked, a limit of dollars without a price, and files that the agent sees without those beside them."""
        if note := shell_note(self.settings):
            yield note
        if self.settings.dollars is not None and self._has_no_price():
            yield f"the price of {self.settings.model or 'the model'} is unknown: {NO_PRICE}"
        for path in self._files_shown_alone(paths):
            yield f"the agent sees {path} but not the files beside it: {BESIDE}"

    def _has_no_price(self) -> bool:
        has_model = model_access(self.client, self.settings) is not None
        return has_model and prices.price_of(self.settings.model, self.prices) is None

    def _files_shown_alone(self, paths: RunPaths) -> list[Path]:
        """Return the files of the command that the agent sees without the other files of their folder."""
        hidden = _hidden_folders(paths)
        files = [path for path in self._command_files() if install_paths.environment_of(path) is None]
        return [path for path in files if install_paths.is_shown_alone(path, hidden)]

    def _visible_simulators(self, paths: RunPaths) -> tuple[str, ...]:
        if self.level is AgentLevel.NONE:
            return ()
        installed = self._install_paths(paths)
        return exposure(installed.readable, installed.libraries).residues()

    def _returned_logins(self) -> tuple[str, ...]:
        """Return a residue if the agent gets a login of the user."""
        names = [name for name in self.client.credentials if (Path.home() / name).is_file()]
        return () if model_routes(self.client, self.settings) or not names else (RETURNED_LOGIN,)

    def _command_files(self) -> tuple[Path, ...]:
        return install_paths.command_files(self.settings.command)

    def _install_paths(self, paths: RunPaths) -> InstallPaths:
        shown = tuple(self.settings.shown)
        if self.client.name == definitions.COMMAND:
            environments = {path: install_paths.environment_of(path) for path in self._command_files()}
            others = [path for path, environment in environments.items() if environment is None]
            readable = [*install_paths.visible_paths(others, _hidden_folders(paths)), *shown]
            seen = [environment for environment in environments.values() if environment]
            return InstallPaths(
                (*readable, *(path for environment in seen for path in environment.readable)),
                tuple(path for environment in seen for path in environment.libraries),
            )
        installed = find_install_paths(Path(self.program)) if self.program else InstallPaths()
        return replace(installed, readable=(*installed.readable, *shown))

    def _vendors(self) -> tuple[VendorAddress, ...]:
        """Return the vendor's address if it is not the usual one."""
        vendor = self.client.vendor(self.settings.model, client_keys(self.client, self.settings))
        return (VendorAddress(vendor, self.settings.base_url),) if vendor and self.settings.base_url else ()

    def _hosts(self) -> tuple[str, ...]:
        model_hosts = () if self._model_ports() else self.client.allowed_hosts(self.settings.base_url)
        return (*model_hosts, *self.settings.hosts)

    def _model_ports(self) -> tuple[int, ...]:
        """Return the port of a model server on this machine, which the agent reaches without the proxy."""
        url = urlsplit(self.settings.base_url or "")
        return (url.port,) if url.hostname in LOOPBACK and url.port else ()


@dataclass(frozen=True)
class AgentHome:
    """The folders for an agent's program that a run keeps beside its workspace. Each run has its own, so that nothing
    planted in one run affects the next."""

    home: Path
    temporary: Path
    programs: Path
    python: AgentPython
    logins: dict[str, bytes] = field(default_factory=dict, repr=False)


def make_agent_home(paths: RunPaths, client: Client, has_login: bool = True) -> AgentHome:
    """Make the agent's folders with its logins, if it needs them, its Python and the built-in programs. A resumed run
    keeps HOME and the temporary folder. Logins, Python and programs are made anew: they may come from another
    person."""
    agent_home, temporary, programs = (paths.root / name for name in (AGENT_HOME, AGENT_TEMPORARY, AGENT_PROGRAMS))
    is_new = not os.path.lexists(agent_home)
    remove_tree(programs)
    for folder in (agent_home, temporary, programs):
        home.ensure(folder)
    _copy_builtin_agents(programs / SHIPPED)
    logins = copy_logins(agent_home, client, is_new, has_login)
    python = make_python(paths.root / AGENT_PYTHON, client.packages)
    return AgentHome(agent_home, temporary, programs, python, logins)


def delete_credentials(paths: RunPaths, client: str) -> None:
    """Delete copied credentials of a finished run; the agent process may have been killed before it did."""
    with suppress(UserError):  # the user's own definition of the client may be gone
        end_logins(paths.root / AGENT_HOME, definitions.load(client))


def _copy_builtin_agents(target: Path) -> None:
    """Copy the built-in agents: the agent must not see the package itself. The copy gets its name when it is complete,
    because we may be killed meanwhile."""
    with (
        as_file(files("evopolicygym.agents") / SHIPPED) as source,
        tempfile.TemporaryDirectory(prefix=STAGED, dir=target.parent) as staged,
    ):
        shutil.copytree(source, copy := Path(staged) / SHIPPED, ignore=shutil.ignore_patterns("__pycache__"))
        sync_tree(copy)
        copy.rename(target)


def secret_values(settings: AgentSettings) -> dict[str, str]:
    """Return the values of the variables that an agent gets, by name, as far as they are set here."""
    names = list(settings.variables)
    with suppress(UserError):  # the user's own definition of the client may be gone
        names += () if settings.name == definitions.COMMAND else definitions.load(settings.name).keys
    return {name: value for name in names if (value := os.environ.get(name))}


def _variables(settings: AgentSettings) -> dict[str, str]:
    if settings.replay:
        return {name: os.environ.get(name, NO_KEY) for name in settings.variables}
    if unset := [name for name in settings.variables if name not in os.environ]:
        raise UserError(f"the variable {unset[0]} is not set", "Set it, or leave its --agent-env out.")
    return {name: os.environ[name] for name in settings.variables}


def _hidden_folders(paths: RunPaths) -> tuple[Path, ...]:
    """Return folders that the agent must not see, even if a program of its command is in one of them."""
    package_folders = (Path(runtime().package_root), Path(runtime().site))
    return paths.root, Path.cwd(), Path.home(), Path(tempfile.gettempdir()), *package_folders


def _search_path(program: str | None) -> str:
    """Return PATH: the folders of the client and its interpreter, then those of the system."""
    own = [] if program is None else [str(Path(program).parent), *(str(path.parent) for path in node_interpreter())]
    return ":".join([*own, "/usr/local/bin", "/usr/bin", "/bin"])


def _check(settings: AgentSettings) -> None:
    """Raise UserError for a mistake in the settings, before anything is started."""
    prices.load_prices(settings.prices)
    _variables(settings)
    variable_values(settings.headers)
    check_url(settings.base_url)
    _check_hosts(settings.hosts)
    for path in settings.shown:
        if not path.exists():
            raise UserError(f"{path} does not exist and cannot be shown to the agent", "Create it, or leave it out.")
    if settings.command and settings.name != definitions.COMMAND:
        raise UserError(
            f"{settings.name} has its own program: {' '.join(settings.command)!r} would not be used",
            "Leave it out, or let that command play: --agent command -- PROGRAM ARGUMENTS.",
        )
    if settings.json_lines and settings.name != definitions.COMMAND:
        raise UserError(
            f"--json-lines (json_lines=) needs --agent command (got: {settings.name})",
            "Leave it out, or play a program of your own: --agent command --json-lines -- PROGRAM.",
        )
    if settings.replay_speed is not None and settings.replay is None:
        raise UserError(
            f"--replay-speed {settings.replay_speed:g} needs --replay-model: no recorded calls would be used",
            "Leave it out, or name the run whose calls are replayed: --replay-model RUN (replay_model=).",
        )


def _check_hosts(hosts: Iterable[str]) -> None:
    for host in hosts:
        try:
            parse(host)
        except ValueError as error:
            raise UserError(f"{error}: the agent cannot be given it", "Write HOST, or HOST:PORT.") from None


def check_url(url: str | None) -> None:
    try:
        parts = urlsplit(url or "https://none")
        is_valid = parts.scheme in ("http", "https")
        parse(parts.netloc.rpartition("@")[2])
    except ValueError:
        is_valid = False
    if not is_valid:
        raise UserError(
            f"{url!r} is not an address of a model's API",
            "Write the whole URL, such as http://127.0.0.1:8000/v1 or https://HOST/v1.",
        )


def _check_reachable(client: Client, settings: AgentSettings) -> None:
    """Raise UserError for a model that the agent cannot reach: without the gateway its calls go through its proxy,
    which carries https only."""
    if model_routes(client, settings):
        return
    url, is_proxied = urlsplit(settings.base_url or ""), settings.network is NetworkAccess.ALLOWED
    if url.scheme == "http" and url.hostname not in LOOPBACK and is_proxied and settings.isolation != "none":
        raise UserError(
            f"{settings.base_url} is plain http on another machine, and the agent's proxy carries https only",
            f"Give an https address; or forward it with `ssh -N -L 8000:{url.hostname}:{url.port or 80} HOST` and "
            f"give http://127.0.0.1:8000{url.path}; or open the network with --agent-network open, which is recorded.",
        )
