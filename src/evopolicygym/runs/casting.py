"""From the settings of an agent to one at work: which client, where it is installed, what it may see and reach."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from evopolicygym.agents import definitions, installed, prices
from evopolicygym.agents.client import Client
from evopolicygym.agents.confinement.cell import AgentLevel
from evopolicygym.agents.confinement.levels import best_level, standing
from evopolicygym.agents.prices import Price
from evopolicygym.errors import UserError
from evopolicygym.judge.place import Place
from evopolicygym.runs import backstage, workspace
from evopolicygym.runs.footprint import Footprint, footprint, node
from evopolicygym.runs.players import ClientPlayer, Player, Seat
from evopolicygym.runs.settings import AgentSettings
from evopolicygym.runs.talking import TalkingPlayer

SEED: Final = "EVOPOLICYGYM_SEED"
STANDING: Final = ("level", "network", "residues")
LOOPBACK: Final = ("127.0.0.1", "localhost")


@dataclass(frozen=True)
class Cast:
    """An agent that can play here. ``program`` is None for one that ships."""

    settings: AgentSettings
    client: Client
    level: AgentLevel
    program: str | None
    version: str | None

    def facts(self) -> dict[str, Any]:
        """For the record: no keys, and no paths of this machine."""
        settings = self.settings.model_dump(mode="json", include={"base_url", "options", "command"})
        known = {"version": self.version, "sha256": installed.fingerprint(self.program) if self.program else None}
        agent = {
            "name": self.client.name,
            "model": self.settings.model,
            "version": self.version,
            "seed": self.settings.seed,
            "settings": {name: value for name, value in (settings | known).items() if value},
        }
        stands = standing(self.level, self.settings.network)
        return {"agent": agent, "agent_isolation": {name: getattr(stands, name) for name in STANDING}}

    @property
    def prices(self) -> dict[str, Price]:
        return prices.table(self.settings.prices)

    def player(self, place: Place, api: str) -> Player:
        stage = backstage.set_up(place, self.client)
        environment = workspace.environment(place, api) | {SEED: str(self.settings.seed), "PATH": _path(self.program)}
        ports = (urlsplit(api).port or 0, *self._model_ports())
        cell = stage.cell(place, self.settings.network, self._hosts(), ports, self._footprint(), environment)
        seat = Seat(
            self.client,
            place.workspace,
            stage.home,
            self.program,
            self.settings.model,
            self.settings.base_url,
            self.settings.options,
            _keys(self.client),
        )
        kind = TalkingPlayer if self.client.turns == "json_lines" else ClientPlayer
        return kind(seat, cell, self.level, place.logs / "agent")

    def _model_ports(self) -> tuple[int, ...]:
        """A model server on this machine is reached at its own port."""
        url = urlsplit(self.settings.base_url or "")
        return (url.port,) if url.hostname in LOOPBACK and url.port else ()

    def _hosts(self) -> tuple[str, ...]:
        return () if self._model_ports() else self.client.allowed_hosts(self.settings.base_url)

    def _footprint(self) -> Footprint:
        if self.program is None:
            return Footprint()
        is_command = self.client.name == definitions.COMMAND
        return Footprint((Path(self.program),)) if is_command else footprint(Path(self.program))


def cast(settings: AgentSettings) -> Cast:
    """Raises UserError when the agent cannot play here, with the remedy."""
    if settings.name == definitions.COMMAND:
        return _any_program(settings)
    prices.table(settings.prices)  # a mistake in it is told before anything begins
    client, level = definitions.load(settings.name), best_level(settings.levels)
    if client.ships:
        return Cast(settings, client, level, None, None)
    ready = installed.check(client, os.environ, Path.home())
    if ready.missing:
        raise UserError(f"{client.name} cannot play here: {ready.missing[0]}")
    return Cast(settings, client, level, ready.program, ready.version)


def _any_program(settings: AgentSettings) -> Cast:
    """A bare name is looked up in the agent's own PATH; a path is shown to it, and nothing beside it."""
    client = definitions.command(settings.command, settings.json_lines)
    program = str(Path(client.program).resolve()) if "/" in client.program else None
    if program and not os.access(program, os.X_OK):
        raise UserError(f"{client.program} is not a program", f"Make it one: chmod +x {client.program}")
    return Cast(settings, client, best_level(settings.levels), program, None)


def _path(program: str | None) -> str:
    """Where the client and its interpreter are, before the system's folders."""
    own = [] if program is None else [str(Path(program).parent), *(str(path.parent) for path in node())]
    return ":".join([*own, "/usr/local/bin", "/usr/bin", "/bin"])


def _keys(client: Client) -> dict[str, str]:
    return {name: value for name in client.keys if (value := os.environ.get(name))}
