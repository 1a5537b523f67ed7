"""Agents by name, and the check whether one can run on this machine."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evopolicygym.agents.definitions import Client
    from evopolicygym.agents.failures import TurnFailure
    from evopolicygym.agents.readiness import Readiness
    from evopolicygym.agents.turn import Turn
    from evopolicygym.gateway.abilities import ServerAbilities
    from evopolicygym.runs.agent.limits import TurnProgress
    from evopolicygym.runs.settings import AgentSettings

LIVE_PROMPT: Final = "This is a test of the connection. Do not use any tool. Reply with the single word: ready"
NO_API: Final = "http://127.0.0.1:9/"  # a live check has no run to submit to
LIVE_TIMEOUT_S: Final = 180.0


def list_agents() -> list[str]:
    """Return the names of the built-in agents and the supported clients. Any program or function can be an agent, too.

    >>> import evopolicygym
    >>> "tuner" in evopolicygym.list_agents()
    True
    """
    from evopolicygym.agents import definitions

    return definitions.names()


@dataclass(frozen=True)
class AgentSummary:
    """Describe an agent by its definition, as a row of `evopolicygym agent list` does. ``program`` is None for an agent
    that ships; ``keys`` are variables that may hold the key of its model."""

    name: str
    title: str
    program: str | None
    proven_version: str | None
    install: str | None
    node: str | None
    keys: tuple[str, ...]
    hosts: tuple[str, ...]
    context_file: str | None
    resumes: bool
    options: tuple[str, ...]


def summarise_agents() -> list[AgentSummary]:
    """Return a summary of each agent of ``list_agents``, in the same order. Nothing is started or looked for.

    >>> import evopolicygym
    >>> [agent.install for agent in evopolicygym.summarise_agents() if agent.name == "tuner"]
    ['built in']
    """
    from evopolicygym.agents import definitions

    return [_summary(definitions.load(name)) for name in definitions.names()]


def _summary(client: Client) -> AgentSummary:
    install = client.install
    return AgentSummary(
        name=client.name,
        title=client.title,
        program=None if client.ships else client.program,
        proven_version=install.version if install else None,
        install=install.command if install else "built in" if client.ships else None,
        node=install.node if install else None,
        keys=tuple(client.keys),
        hosts=tuple(client.hosts),
        context_file=client.context_file,
        resumes=client.can_resume,
        options=tuple(sorted(client.options)),
    )


def check_agent(agent: str | os.PathLike[str], *, model_url: str | None = None) -> Readiness:
    """Check whether an agent can run on this machine: its program, its version, Node, and a key. No model is asked.

    Args:
        agent: A name of ``list_agents``, or a client file (docs/agents.md).
        model_url: As for ``run``: a server of your own may do without keys.

    Returns:
        A ``Readiness``: ``ready``, and what is ``missing``, with remedies.

    Raises:
        UserError: There is no such agent, or the file is not a client file.

    >>> import evopolicygym
    >>> readiness = evopolicygym.check_agent("tuner")
    >>> readiness.ready, readiness.missing
    (True, [])
    """
    from evopolicygym.agents import definitions, readiness
    from evopolicygym.runs.agent.gateway import client_keys
    from evopolicygym.runs.settings import AgentSettings

    client = definitions.load(os.fspath(agent))
    keys = client_keys(client, AgentSettings(name=client.name, base_url=model_url))
    result = readiness.check(client, {**os.environ, **keys}, Path.home())
    result.remarks.extend(_simulators(result.program))
    is_keyless = result.key in keys and not os.environ.get(result.key or "")
    return replace(result, key=None) if is_keyless else result


def try_agent(
    agent: str | os.PathLike[str],
    *,
    model: str | None = None,
    model_url: str | None = None,
    model_ca: str | os.PathLike[str] | None = None,
    model_headers: Mapping[str, str] | None = None,
) -> Turn:
    """Play one tiny turn of an agent in its sandbox, as `evopolicygym agent check NAME --live` does. It asks the model
    for one word.

    Args:
        agent: A name of ``list_agents``, or a client file.
        model, model_url, model_ca, model_headers: As for ``run``.

    Returns:
        The ``Turn``: its ``text``, ``usage`` and, if it failed, the ``failure``.

    Raises:
        UserError: The agent cannot be started here.

    >>> import evopolicygym, pathlib, tempfile
    >>> client = pathlib.Path(tempfile.mkdtemp(), "echo.toml")
    >>> _ = client.write_text(r'''
    ... title = "A client that answers without a model"
    ... program = "sh"
    ... argv = ["${program}", "-c", "echo ready"]
    ... turns = "once"
    ... text = [{ line = "(.+)" }]
    ... version = []
    ... ''')
    >>> turn = evopolicygym.try_agent(client)
    >>> turn.text, turn.failure
    ('ready', None)
    """
    from evopolicygym.runs.agent.shell_variables import shell_model_url
    from evopolicygym.runs.settings import AgentSettings

    name = os.fspath(agent)
    address = shell_model_url(name, model, ()) if model_url is None else None
    url = address.url if address else model_url
    settings = AgentSettings(
        name=name,
        model=model,
        base_url=url,
        ca_file=Path(model_ca) if model_ca else None,
        headers=dict(model_headers or {}),
        retries=0,
        patience_minutes=0,
    )
    return play_live_turn(settings)


def play_live_turn(settings: AgentSettings) -> Turn:
    """Play one turn in a temporary run folder, which is then removed. ``best-of-n`` takes no prompt, and would wait for
    a run to submit to: its model is asked by ``model``, which shares its connection."""
    from evopolicygym.agents.failures import FailureKind, TurnFailure
    from evopolicygym.run_paths import RunPaths
    from evopolicygym.runs.agent.process import TurnRequest
    from evopolicygym.runs.agent.setup import set_up_agent

    if settings.name == "best-of-n":
        settings = settings.model_copy(update={"name": "model", "options": {}})
    setup = set_up_agent(settings)
    with tempfile.TemporaryDirectory(prefix="evopolicygym-check-") as folder:
        paths = RunPaths(Path(folder).resolve() / "run")
        paths.make()
        paths.system.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + LIVE_TIMEOUT_S

        def must_end(progress: TurnProgress) -> TurnFailure | None:
            is_late = time.monotonic() > deadline
            return TurnFailure(FailureKind.TIMEOUT, f"no answer in {LIVE_TIMEOUT_S:g} seconds") if is_late else None

        runner = setup.make_runner(paths, NO_API)
        try:
            return runner.play_turn(TurnRequest(1, LIVE_PROMPT, None, None, must_end))
        finally:
            runner.close()


def check_model_server(
    agent: str | os.PathLike[str],
    model_url: str,
    *,
    model: str | None = None,
    model_ca: str | os.PathLike[str] | None = None,
    model_headers: Mapping[str, str] | None = None,
) -> ServerAbilities:
    """Ask a model's server what it can do: its list of models, and one tiny call in each API.

    Args:
        agent: A name of ``list_agents``, or a client file. Its key is used if the variable is set.
        model_url: The base URL, as ``run`` takes it.
        model: The model to ask (default: the first of the server's list).
        model_ca, model_headers: As for ``run``.

    Returns:
        A ``ServerAbilities``: ``is_usable`` by this agent, ``models``, and what happened in each of the ``apis``.

    Raises:
        UserError: There is no such agent, the URL is not one, the file cannot be read, or a variable is not set.

    >>> import evopolicygym
    >>> server = evopolicygym.check_model_server("model", "http://127.0.0.1:9/v1")
    >>> server.is_usable, server.models
    (False, None)
    """
    from evopolicygym.agents import definitions
    from evopolicygym.gateway.abilities import ask_server
    from evopolicygym.gateway.upstream import ModelServer
    from evopolicygym.runs.agent.gateway import variable_values
    from evopolicygym.runs.agent.setup import check_url

    check_url(model_url)
    client = definitions.load(os.fspath(agent))
    key = next((key for name in client.keys if (key := os.environ.get(name))), None)
    provider, _, name = (model or "").partition("/")
    is_prefixed = provider in {*client.providers, *(vendor.provider for vendor in client.vendors)} and name
    vendor = client.vendor(model, client.keys)
    server = ModelServer(model_url, key, variable_values(model_headers or {}), Path(model_ca) if model_ca else None)
    return ask_server(server, name if is_prefixed else model, vendor.api if vendor else "")


def _simulators(program: str | None) -> list[str]:
    """Warn about simulator packages in the client's installation, all of which the agent can see."""
    from evopolicygym.runs.agent.install_paths import InstallPaths, find_install_paths
    from evopolicygym.sandbox.agent.visible_files import exposure

    installation = find_install_paths(Path(program)) if program else InstallPaths()
    seen = exposure(installation.readable, installation.libraries).seen
    names = ", ".join(seen)
    warning = f"it would see {names}, and could simulate off budget, which its records would say"
    return [f"{warning}: install it without them"] if seen else []
