"""Read how a turn ended in a limited child process: the agent wrote the transcript and the files in its HOME, and the
patterns of a client's definition run over them."""

from __future__ import annotations

import errno
import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any, Final

from evopolicygym.agents.definitions import Client
from evopolicygym.agents.failures import FailureKind, TurnFailure
from evopolicygym.agents.turn import ProcessExit, Turn, unreadable_turn
from evopolicygym.agents.usage import Usage
from evopolicygym.errors import Fault
from evopolicygym.runs.agent.turn_reader_child import READING
from evopolicygym.sandbox.limited_process import run_limited

CHILD: Final = "evopolicygym.runs.agent.turn_reader_child"
CPU_S: Final = 120


class ReaderLost(OSError):
    """The child was killed, or could not open files, by its number. What it read may have been the cause."""


def read_turn_in_child(client: Client, transcript: Path, process: ProcessExit) -> Turn:
    """Read a turn by the rules of its client. What cannot be read fails the turn, never the run.

    Raises ReaderLost; OSError if the child cannot be started; Fault if it fails before it reads anything, as when the
    installation changes under a run."""
    packages = [path for path in sys.path if isinstance(path, str) and os.path.isabs(path)]
    request = json.dumps(packages).encode() + b"\n" + pickle.dumps((client, transcript, process))
    child = run_limited(CHILD, str(CPU_S), cpu_s=CPU_S, given=request)
    begun, _, line = child.output.partition(b"\n")
    if child.was_killed or not (child.failure or line):  # where SIGCHLD is ignored, it is not known how it ended
        raise ReaderLost(errno.ENOMEM, "the process that reads it was killed, perhaps for want of memory")
    if begun != READING.encode():
        raise _broken(child.failure or "does not answer")
    if child.failure:
        return unreadable_turn(process, f"reading it {child.failure}")
    try:
        answer = json.loads(line)
        if not isinstance(answer, int):
            return _turn(answer)
    except (ValueError, TypeError, KeyError) as error:
        raise _broken("answered what makes no sense") from error
    raise ReaderLost(answer, os.strerror(answer))


def _broken(how: str) -> Fault:
    """Return the error for a child that failed before it read anything, or that is of another version."""
    return Fault(
        f"the process that reads turns {how}: does the installation work (`evopolicygym doctor`)? "
        "`evopolicygym run --resume` reads the turn again"
    )


def _turn(answer: dict[str, Any]) -> Turn:
    usage, failure = answer["usage"], answer["failure"]
    return Turn(
        **answer
        | {
            "usage": usage and Usage(**usage),
            "failure": failure and TurnFailure(FailureKind(failure["kind"]), failure["text"]),
        }
    )
