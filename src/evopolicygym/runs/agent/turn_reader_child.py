"""The child process of runs/agent/turn_reader.py: reads one turn, and prints it as JSON.

What it is asked comes from the judge and may be pickled; what it answers may not, because it has read hostile text."""

from __future__ import annotations

import io
import json
import pickle
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from evopolicygym.agents.definitions import Client
from evopolicygym.agents.failures import FailureKind, TurnFailure
from evopolicygym.agents.json_events import ReadingLimit, bounded_lines
from evopolicygym.agents.turn import ProcessExit, Turn
from evopolicygym.analysis.limited_process import limit
from evopolicygym.runs.agent.output import open_plain

MEMORY: Final = 2 << 30


def main(cpu_s: str) -> None:
    limit(int(cpu_s), MEMORY)
    client, transcript, process = pickle.load(sys.stdin.buffer)
    print(json.dumps(asdict(_read(client, transcript, process))))


def _read(client: Client, transcript: Path, process: ProcessExit) -> Turn:
    try:
        with io.TextIOWrapper(open_plain(transcript), "utf-8", "replace") as file:
            return client.read(bounded_lines(file, ReadingLimit()), process)
    except Exception as error:
        return unreadable_turn(process, f"{type(error).__name__}: {error}")


def unreadable_turn(process: ProcessExit, why: str) -> Turn:
    """Return the turn of which no more is known than how its process ended."""
    failure = TurnFailure(FailureKind.CLIENT, f"what it left cannot be read: {why}")
    return Turn(process.exit_code, process.wall_s, process.session, failure=failure)
