"""Decide how far a run folder is trusted, which may come from another person.

Its config.toml names the agent and the task. But the person who resumes the run decides, by the command line, whether
that agent gets more of this machine than its jail and its model's hosts (`check_grants`), and whether a task that is
not installed is imported (`check_task_is_given`). `settings_here` reads the settings after these rules.

Runs that this installation opened are exempt: their first ledger line has a signature under a key that only this
installation has (`sign`, `is_signed_here`), over the run's id and the hash of its settings. Unlike a sealing key, this
key is never disclosed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from evopolicygym.agents.definitions import COMMAND
from evopolicygym.errors import UserError
from evopolicygym.judge.events import Opened
from evopolicygym.run_paths import RunPaths
from evopolicygym.runs import folder_names
from evopolicygym.runs.agent import install_paths
from evopolicygym.runs.settings import AgentSettings, RunSettings
from evopolicygym.sandbox.agent.agent_sandbox import NetworkAccess
from evopolicygym.tasks.registry import find_task, is_installed_task
from evopolicygym.tasks.sealing import create_key, load_key

SWITCHES: Final = {("--gateway", "False"): "--no-gateway", ("--gateway", "True"): "--gateway"}  # options without value
PATHS: Final = ("--agent", "--model-ca", "--show", "--prices", "--replay-model")


@dataclass(frozen=True)
class OptionGrant:
    """One option of the command line that grants an agent more than usual, with its values in the run's settings."""

    option: str
    values: tuple[str, ...]

    @property
    def flags(self) -> str:
        return " ".join(
            SWITCHES.get((self.option, value), f"{self.option} {shlex.quote(value)}") for value in self.values
        )

    def missing(self, given: Any) -> OptionGrant:
        """Return the values that must still be given."""
        return replace(self, values=tuple(value for value in self.values if value not in self._listed(given)))

    def extra(self, given: Any) -> OptionGrant:
        """Return the values that are given but were not granted when the run was opened."""
        return replace(self, values=tuple(value for value in self._listed(given) if value not in self.values))

    def _listed(self, given: Any) -> list[str]:
        listed = given if isinstance(given, list | tuple) else [] if given is None else [given]
        return [self._absolute(value) for value in listed]

    def _absolute(self, value: Any) -> str:
        """Return a value as settings hold it, in which paths are absolute."""
        return os.path.realpath(value) if self.option in PATHS else str(value)


def granted_options(settings: RunSettings) -> dict[str, OptionGrant]:
    """Return what settings grant beyond the usual, by the name of the command's parameter."""
    return {} if settings.agent is None else _of_agent(settings.agent)


def _of_agent(agent: AgentSettings) -> dict[str, OptionGrant]:
    own_definition = [agent.name] if agent.name.endswith(".toml") else []
    values: dict[str, Sequence[object]] = {
        "agent": own_definition,
        "model_url": [agent.base_url] if agent.base_url else [],
        "model_ca": [agent.ca_file] if agent.ca_file else [],
        "model_header": [f"{name}={value}" for name, value in agent.headers.items()],
        "gateway": [] if agent.gateway else [False],
        "option": [f"{name}={value}" for name, value in agent.options.items()],
        "agent_env": agent.variables,
        "agent_host": agent.hosts,
        "show": agent.shown,
        "prices": [agent.prices] if agent.prices else [],
        "replay_model": [agent.replay] if agent.replay else [],
        "agent_network": [NetworkAccess.OPEN.value] if agent.network is NetworkAccess.OPEN else [],
        "agent_isolation": ["none"] if agent.isolation == "none" else [],
    }
    grants = {
        name: OptionGrant(f"--{name.replace('_', '-')}", tuple(map(str, listed))) for name, listed in values.items()
    }
    return {name: grant for name, grant in grants.items() if grant.values}


def granted_command(agent: AgentSettings | None) -> list[str]:
    """Return the agent's command if it names files of this machine, which are therefore shown to the agent."""
    if agent is None or agent.name != COMMAND:
        return []
    command = install_paths.resolve_command(agent.command)
    return command if install_paths.command_files(command) else []


def is_same_command(words: Sequence[str], recorded: Sequence[str]) -> bool:
    """Return whether the words are the recorded command of an agent, as it was given or with its program resolved."""
    try:
        return list(words) == list(recorded) or install_paths.resolve_command(list(words)) == list(recorded)
    except UserError:
        return False


def check_grants(settings: RunSettings, given: Mapping[str, Any], words: Sequence[str], is_own: bool) -> None:
    """Raise UserError for permissions of the agent that are given but were not granted when the run was opened; and,
    unless this installation opened the run, for granted ones that are not given again.

    Args:
        settings: The settings that the run was opened with.
        given: Options that were given now, by the name of the command's parameter.
        words: Arguments that were given now: the task, the agent's command, or both.
        is_own: Whether this installation opened the run.
    """
    grants = granted_options(settings)
    if extra := [flags for name, grant in grants.items() if (flags := grant.extra(given.get(name)).flags)]:
        raise UserError(
            f"a run continues with the settings it was opened with: {' '.join(extra)} cannot be added",
            "Leave it out, or start a new run.",
        )
    if is_own:
        return
    missing = [flags for name, grant in grants.items() if (flags := grant.missing(given.get(name)).flags)]
    command = granted_command(settings.agent)
    if command and not any(is_same_command(part, command) for part in (words, words[1:])):
        missing.append(f"-- {shlex.join(command)}")
    if missing:
        raise UserError(
            "this run gives its agent more permissions than a default run, and its folder may come from another person",
            f"Nothing was started. Check its config.toml; to allow it, add: {' '.join(missing)}",
        )


def check_task_is_given(settings: RunSettings, given: str | None) -> None:
    """Raise UserError for a run whose task is not an installed one, unless the caller names a task, too: its code runs
    with all rights of the caller. `resume_settings` checks that both are the same task."""
    if given is None and not is_installed_task(settings.task):
        raise UserError(
            f"the task of this run is {settings.task}: code from outside of EvoPolicyGym, which runs without a "
            "jail, and a run folder may come from another person",
            f"Nothing was imported. If you trust it, add: --task {shlex.quote(settings.task)} (with `run --resume`: "
            "without --task, as the argument)",
        )


def settings_here(paths: RunPaths, opened: Opened | None, given: dict[str, Any]) -> RunSettings:
    """Return the settings of an existing run with those that are ``given``.

    If another installation opened it, code of its task runs only if the task is given, too, and its folder does not
    choose which file is opened as sealing key: the key is given, or in the environment, or the user's own."""
    settings = RunSettings.read(paths.root, opened.settings if opened else "")
    if not is_signed_here(opened):
        check_task_is_given(settings, given.get("task"))
        settings = settings.model_copy(update={"seal_key": None})
    return resume_settings(settings, given, paths)


def resume_settings(settings: RunSettings, given: dict[str, Any], paths: RunPaths) -> RunSettings:
    """Return the settings of an existing run with those that are given and may differ; raise UserError for others.
    A recorded task that is not installed is compared by its text: resolving it would run code that the folder chose."""
    task = given.get("task")
    if task and is_installed_task(settings.task) and find_task(task).id == find_task(settings.task).id:
        given = given | {"task": settings.task}
    changes = {name: value for name, value in given.items() if value is not None}
    if settings.name is None:  # runs of a suite that was begun before runs had names
        changes.pop("name", None)
    wanted = RunSettings.make(**settings.model_dump() | changes)
    if differences := settings.differences(wanted):
        lines = "\n".join(f"  {difference}" for difference in differences)
        raise UserError(f"{paths.root} holds a run with other settings:\n{lines}", folder_names.NEW_FOLDER)
    return wanted


def sign(run: str, settings: str) -> str:
    """Return the signature over a run's id and the hash of its settings; empty if no key can be stored."""
    return _sign(f"run|{run}|{settings}")


def sign_training(digest: str) -> str:
    """Return the signature over the saved state of a training, which holds pickled objects: to read it is to run it.
    Empty if no key can be stored."""
    return _sign(f"training|{digest}")


def _sign(text: str) -> str:
    try:
        key = load_key(_key_file()) if _key_file().exists() else create_key(_key_file())
    except (UserError, OSError):
        return ""
    return _signature(key, text)


def is_signed_here(opened: Opened | None) -> bool:
    """Return whether this installation opened the run, with the settings that its ledger names."""
    if not opened or not opened.signature or not opened.settings:
        return False
    try:
        own = _signature(load_key(_key_file()), f"run|{opened.run}|{opened.settings}")
    except (UserError, OSError):
        return False
    return hmac.compare_digest(own, opened.signature)


def _signature(key: bytes, text: str) -> str:
    return hmac.new(key, f"evopolicygym {text}".encode(), hashlib.sha256).hexdigest()


def _key_file() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(config) / "evopolicygym" / "runs.key"
