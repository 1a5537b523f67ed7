"""Agents by name, and the check whether one can run on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evopolicygym.agents.readiness import Readiness
    from evopolicygym.agents.turn import Turn


def list_agents() -> list[str]:
    """Return the names of the built-in agents and the supported clients. Any program or function can be an agent, too.

    >>> import evopolicygym
    >>> "tuner" in evopolicygym.list_agents()
    True
    """
    from evopolicygym.agents import definitions

    return definitions.names()


def check_agent(agent: str | os.PathLike[str]) -> Readiness:
    """Check whether an agent can run on this machine: its program, its version, Node, and a key. No model is asked.

    Args:
        agent: A name of ``list_agents``, or a client file (docs/agents.md).

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

    result = readiness.check(definitions.load(os.fspath(agent)), os.environ, Path.home())
    result.remarks.extend(_simulators(result.program))
    return result


def try_agent(agent: str | os.PathLike[str], *, model: str | None = None, model_url: str | None = None) -> Turn:
    """Play one tiny turn of an agent in its sandbox, as `evopolicygym agent check NAME --live` does. It asks the model
    for one word.

    Args:
        agent: A name of ``list_agents``, or a client file.
        model, model_url: As for ``run``.

    Returns:
        The ``Turn``: its ``text``, ``usage`` and, if it failed, the ``failure``.

    Raises:
        UserError: The agent cannot be started here.
    """
    from evopolicygym.runs.live_check import play_live_turn
    from evopolicygym.runs.settings import AgentSettings
    from evopolicygym.runs.shell_variables import shell_model_url

    name = os.fspath(agent)
    address = shell_model_url(name, model, ()) if model_url is None else None
    url = address.url if address else model_url
    return play_live_turn(AgentSettings(name=name, model=model, base_url=url, retries=0, patience_minutes=0))


def _simulators(program: str | None) -> list[str]:
    """Warn about simulator packages in the client's installation, all of which the agent can see."""
    from evopolicygym.runs.install_paths import InstallPaths, find_install_paths
    from evopolicygym.sandbox.agent.visible_files import exposure

    installation = find_install_paths(Path(program)) if program else InstallPaths()
    seen = exposure(installation.readable, installation.libraries).seen
    names = ", ".join(seen)
    warning = f"it would see {names}, and could simulate off budget, which its records would say"
    return [f"{warning}: install it without them"] if seen else []
