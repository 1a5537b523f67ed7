"""Files that the judge keeps of each turn beside its transcript: prompt and command line, traffic, heartbeat."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from evopolicygym.agents.definitions import Command
from evopolicygym.agents.turn import Turn
from evopolicygym.runs.agent.output import PLAIN_FLAGS, Redactor, open_plain
from evopolicygym.sandbox.agent.launch import SandboxedProcess
from evopolicygym.sandbox.agent.network import ProxyTraffic

LONGEST_HEARTBEAT: Final = 64  # bytes
SHOWN_HOSTS: Final = 5


def save_command(command: Command, path: Path, secrets: Mapping[str, str]) -> None:
    """Write the prompt of a turn and how the agent was started: command line, standard input, session, and the names of
    its own variables. Keys are replaced by their names."""
    redact = Redactor(secrets).text
    facts = {
        "argv": [redact(word) for word in command.argv],
        "stdin": None if command.stdin is None else redact(command.stdin),
        "session": command.session,
        "variables": sorted(command.environment),
    }
    with suppress(OSError):  # a full disk costs this file, not the run
        path.write_text(json.dumps(facts, indent=1) + "\n")


def save_traffic(process: SandboxedProcess, path: Path, keys: Mapping[str, str]) -> list[ProxyTraffic]:
    """Write what the proxy let through and what it refused beside the transcript, and return it. Hosts are in lower
    case, and so would be a key that an agent uses as a host name."""
    redactor = Redactor({name: value.lower() for name, value in keys.items()})
    traffic = [replace(request, host=redactor.text(request.host)) for request in process.traffic()]
    if traffic:
        with suppress(OSError):  # a full disk costs this file, not the run
            path.write_text("".join(json.dumps(asdict(request)) + "\n" for request in traffic))
    return traffic


def with_traffic(turn: Turn, traffic: list[ProxyTraffic]) -> Turn:
    """Add to a failure what the sandbox's proxy refused or could not reach in the turn: clients do not show it."""
    refused = [f"{request.host}:{request.port}" for request in traffic if not request.allowed]
    missed = [f"{request.host}:{request.port} ({request.problem})" for request in traffic if request.problem]
    if turn.failure is None or not (refused or missed):
        return turn
    text = turn.failure.text
    if refused:
        named = ", ".join(refused[:SHOWN_HOSTS])
        text += f" (The agent's proxy refused {named}; --agent-host {refused[0]} allows it in a new run.)"
    if missed:
        text += f" (The agent's proxy could not reach {', '.join(missed[:SHOWN_HOSTS])}.)"
    return replace(turn, failure=replace(turn.failure, text=text))


class Heartbeat:
    """A file with the seconds that the current turn has lived, by which a turn is timed if the judge is killed in it.
    A file's modification time would not do: it changes in a copy of the run, and the agent's user can set it."""

    def __init__(self, transcripts: Path) -> None:
        self._path = transcripts / "pulse"

    def beat(self, turn: int, seconds: float) -> None:
        """Overwrite the last value at the same width, so that the file is valid at every instant."""
        with suppress(OSError):  # a full disk costs this value, not the run
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | PLAIN_FLAGS, 0o644)
            try:
                os.write(descriptor, f"{turn:9d} {seconds:12.3f}\n".encode())
            finally:
                os.close(descriptor)

    def seconds_alive(self, turn: int) -> float:
        """Return the seconds until the last heartbeat of an interrupted turn, 0 if there is none."""
        with open_plain(self._path) as file:
            text = file.read(LONGEST_HEARTBEAT).decode(errors="replace")
        match = re.fullmatch(r" *(\d+) +(\d+\.\d+)\n", text, re.ASCII)
        return float(match[2]) if match and int(match[1]) == turn else 0.0
