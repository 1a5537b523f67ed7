"""Turn options into the settings of a run: one place for `evopolicygym run`, `serve` and the Python API.

An option has the name of its parameter in `evopolicygym.run`. Options of the run itself are named as the fields of
`RunSettings`, and need no entry here; those of the agent are listed in ``AGENT_OPTIONS``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from evopolicygym.agents.definitions import COMMAND
from evopolicygym.errors import UserError
from evopolicygym.runs.agent.install_paths import resolve_command
from evopolicygym.runs.agent.shell_variables import shell_model_url
from evopolicygym.runs.settings import AgentSettings, EngineName, RunSettings
from evopolicygym.tasks.registry import absolute_name

# Options of an agent, and the fields of `AgentSettings` that they set.
AGENT_OPTIONS: Final = {
    "model": "model",
    "model_url": "base_url",
    "gateway": "gateway",
    "model_ca": "ca_file",
    "model_headers": "headers",
    "seed": "seed",
    "options": "options",
    "agent_env": "variables",
    "agent_hosts": "hosts",
    "show": "shown",
    "json_lines": "json_lines",
    "agent_isolation": "isolation",
    "agent_network": "network",
    "max_turns": "turns",
    "max_hours": "hours",
    "max_tokens": "tokens",
    "max_cost": "dollars",
    "max_requests": "requests",
    "model_patience": "patience_minutes",
    "max_retries": "retries",
    "max_silence": "silent_minutes",
    "prices": "prices",
    "replay_model": "replay",
    "replay_speed": "replay_speed",
}
RUN_OPTIONS: Final = frozenset(RunSettings.model_fields) - {"task", "agent", "validate_when"}


def agent_settings(
    agent: str, command: Sequence[str], options: Mapping[str, Any], flags: bool = False
) -> AgentSettings:
    """Return the settings of an agent.

    Args:
        agent: Its name, or the path of a client file.
        command: The program and its arguments, for the agent `command`.
        options: Values by the names in ``AGENT_OPTIONS``; other names are ignored.
        flags: Name options in messages as flags of the command line.
    """
    values = {field: options[option] for option, field in AGENT_OPTIONS.items()}
    values |= {
        "options": dict(values["options"] or {}),
        "headers": dict(values["headers"] or {}),
        "ca_file": _resolved(values["ca_file"]),
        "replay": _resolved(values["replay"]),
        "variables": string_list(values["variables"], "agent_env"),
        "hosts": string_list(values["hosts"], "agent_hosts"),
        "shown": [Path(path).resolve() for path in values["shown"] or ()],
        "prices": _resolved(values["prices"]),
    }
    asks_server = values["base_url"] is None and not values["replay"]
    if asks_server and (address := shell_model_url(agent, values["model"], values["variables"])):
        values["base_url"] = address.url
    return AgentSettings.make(
        {field: _flag(option) if flags else option for option, field in AGENT_OPTIONS.items()},
        name=str(Path(agent).resolve()) if agent.endswith(".toml") else agent,
        command=resolve_command(list(command)) if agent == COMMAND else list(command),
        **values,
    )


def given_settings(
    task: str | os.PathLike[str], options: Mapping[str, Any], agent: AgentSettings | None = None
) -> dict[str, Any]:
    """Return what `open_run` takes as settings that a user gave; None takes the default.

    Args:
        task: The name of a task, or the path of its file.
        options: Values by the names in ``RUN_OPTIONS``; other names are ignored.
        agent: The agent's settings; None for a run that is served.
    """
    given = {name: value for name, value in options.items() if name in RUN_OPTIONS}
    EngineName(given.get("engine") or EngineName.LOCAL).check_address(given.get("ray_address"))
    return given | {
        "task": absolute_name(os.fspath(task)),
        "seal_key": _resolved(given.get("seal_key")),
        "agent": agent,
    }


def string_list(given: Sequence[str] | None, name: str) -> list[str]:
    """Return a list of strings that a user gave as the option ``name``."""
    listed = () if given is None else given
    if isinstance(listed, str) or not all(isinstance(word, str) for word in listed):
        raise UserError(f"{name} is {given!r}", "Pass a list of strings.")
    return list(listed)


def _resolved(path: str | os.PathLike[str] | None) -> Path | None:
    return Path(path).resolve() if path else None


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"
