"""Agents by name, and the check whether one can run on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evopolicygym.agents.readiness import Readiness


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


def _simulators(program: str | None) -> list[str]:
    """Warn about simulator packages in the client's installation, all of which the agent can see."""
    from evopolicygym.runs.install_paths import InstallPaths, find_install_paths
    from evopolicygym.sandbox.agent.visible_files import exposure

    installation = find_install_paths(Path(program)) if program else InstallPaths()
    seen = exposure(installation.readable, installation.libraries).seen
    names = ", ".join(seen)
    warning = f"it would see {names}, and could simulate off budget, which its records would say"
    return [f"{warning}: install it without them"] if seen else []
