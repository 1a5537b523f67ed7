"""What a run's settings grant its agent beyond a plain run, and what must be said again when a run is taken up that
another installation opened.

config.toml lies in the run folder, which may come from somebody else. It names the agent and the task; but whoever
takes a run up decides, by the command line, whether that agent gets more of this machine than its jail and its own
model's hosts, and whether a task that is not installed is imported.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from evopolicygym.agents.definitions import COMMAND
from evopolicygym.errors import UserError
from evopolicygym.judge.events import Opened
from evopolicygym.runs import install_paths
from evopolicygym.runs.settings import AgentSettings, RunSettings
from evopolicygym.sandbox.agent.agent_sandbox import NetworkAccess
from evopolicygym.tasks.registry import is_installed_task
from evopolicygym.tasks.sealing import create_key, load_key

PATHS: Final = ("--agent", "--show", "--prices")


@dataclass(frozen=True)
class OptionGrant:
    """One option of the command line, and what the run's settings hold for it."""

    option: str
    values: tuple[str, ...]

    @property
    def flags(self) -> str:
        return " ".join(f"{self.option} {shlex.quote(value)}" for value in self.values)

    def missing(self, given: Any) -> OptionGrant:
        """What must still be given."""
        return replace(self, values=tuple(value for value in self.values if value not in self._listed(given)))

    def extra(self, given: Any) -> OptionGrant:
        """What is given, and was not granted when the run was opened."""
        return replace(self, values=tuple(value for value in self._listed(given) if value not in self.values))

    def _listed(self, given: Any) -> list[str]:
        listed = given if isinstance(given, list | tuple) else [] if given is None else [given]
        return [self._whole(value) for value in listed]

    def _whole(self, value: Any) -> str:
        """As settings hold it, where a path is whole."""
        return os.path.realpath(value) if self.option in PATHS else str(value)


def granted_options(settings: RunSettings) -> dict[str, OptionGrant]:
    """By the name of the command's parameter. Where a setting is a run's usual one there is no grant."""
    return {} if settings.agent is None else _of_agent(settings.agent)


def _of_agent(agent: AgentSettings) -> dict[str, OptionGrant]:
    own_definition = [agent.name] if agent.name.endswith(".toml") else []
    values: dict[str, Sequence[object]] = {
        "agent": own_definition,
        "model_url": [agent.base_url] if agent.base_url else [],
        "option": [f"{name}={value}" for name, value in agent.options.items()],
        "agent_env": agent.variables,
        "agent_host": agent.hosts,
        "show": agent.shown,
        "prices": [agent.prices] if agent.prices else [],
        "agent_network": [NetworkAccess.OPEN.value] if agent.network is NetworkAccess.OPEN else [],
        "agent_isolation": ["none"] if agent.isolation == "none" else [],
    }
    grants = {
        name: OptionGrant(f"--{name.replace('_', '-')}", tuple(map(str, listed))) for name, listed in values.items()
    }
    return {name: grant for name, grant in grants.items() if grant.values}


def granted_command(agent: AgentSettings | None) -> list[str]:
    """The agent's command, if files of this machine are shown to the agent because the command names them."""
    if agent is None or agent.name != COMMAND:
        return []
    command = install_paths.resolve_command(agent.command)
    return command if install_paths.command_files(command) else []


def check_task_is_given(settings: RunSettings, given: str | None) -> None:
    """Raise UserError for a run whose task is a file or a module of somebody's own, until the caller names it, too:
    its code runs with all rights of the caller. Whether both are equal is for ``agreed``."""
    if given is None and not is_installed_task(settings.task):
        raise UserError(
            f"the task of this run is {settings.task}: code from outside of EvoPolicyGym, which runs without a "
            "jail, and a run folder may come from somebody else",
            f"Nothing was imported. If you trust it, add: --task {shlex.quote(settings.task)} (with `run --resume`: "
            "without --task, as the argument)",
        )


def sign(run: str, settings: str) -> str:
    """Return the signature of a run and the hash of its settings; empty where no key can be kept."""
    try:
        key = load_key(_key_file()) if _key_file().exists() else create_key(_key_file())
    except (UserError, OSError):
        return ""
    return _signature(key, run, settings)


def is_signed_here(opened: Opened | None) -> bool:
    if not opened or not opened.signature or not opened.settings:
        return False
    try:
        own = _signature(load_key(_key_file()), opened.run, opened.settings)
    except (UserError, OSError):
        return False
    return hmac.compare_digest(own, opened.signature)


def _signature(key: bytes, run: str, settings: str) -> str:
    return hmac.new(key, f"evopolicygym run|{run}|{settings}".encode(), hashlib.sha256).hexdigest()


def _key_file() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(config) / "evopolicygym" / "runs.key"
