"""What a run's settings grant its agent beyond a plain run, and what must be said again when a run is taken up.

config.toml lies in the run folder, which may come from somebody else. It names the agent; but whoever takes a run up
decides, by the command line, whether that agent gets more of this machine than its jail and its own model's hosts.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from evopolicygym.agents.confinement.cell import Network
from evopolicygym.runs.settings import AgentSettings, Settings

PATHS: Final = ("--agent", "--show", "--prices")


@dataclass(frozen=True)
class Grant:
    """One option of the command line, and what the run's settings hold for it."""

    option: str
    values: tuple[str, ...]

    @property
    def flags(self) -> str:
        return " ".join(f"{self.option} {shlex.quote(value)}" for value in self.values)

    def is_given(self, given: Any) -> bool:
        listed = given if isinstance(given, list | tuple) else [] if given is None else [given]
        return tuple(self._whole(value) for value in listed) == self.values

    def _whole(self, value: Any) -> str:
        """As settings hold it, where a path is whole."""
        return os.path.realpath(value) if self.option in PATHS else str(value)


def granted(settings: Settings) -> dict[str, Grant]:
    """By the name of the command's parameter. Where a setting is a run's usual one there is no grant."""
    return {} if settings.agent is None else _of_agent(settings.agent)


def _of_agent(agent: AgentSettings) -> dict[str, Grant]:
    own_definition = [agent.name] if agent.name.endswith(".toml") else []
    values: dict[str, Sequence[object]] = {
        "agent": own_definition,
        "model_url": [agent.base_url] if agent.base_url else [],
        "option": [f"{name}={value}" for name, value in agent.options.items()],
        "agent_env": agent.variables,
        "agent_host": agent.hosts,
        "show": agent.shown,
        "prices": [agent.prices] if agent.prices else [],
        "agent_network": [Network.OPEN.value] if agent.network is Network.OPEN else [],
        "agent_isolation": ["none"] if agent.isolation == "none" else [],
    }
    grants = {name: Grant(f"--{name.replace('_', '-')}", tuple(map(str, listed))) for name, listed in values.items()}
    return {name: grant for name, grant in grants.items() if grant.values}
