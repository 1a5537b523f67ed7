"""The child process of runs/agent/turn_reader.py: reads one turn, and prints it as JSON.

What it is asked comes from the judge and may be pickled; what it answers may not, because it has read hostile text. A
first line says that it begins to read: what fails before that is no doing of the agent's. If it cannot open files for
want of descriptors, it prints the number of that error."""

from __future__ import annotations

import io
import json
import pickle
import sys
from dataclasses import asdict
from typing import Final

from evopolicygym.runs.agent.output import open_plain
from evopolicygym.sandbox.limited_process import limit

MEMORY: Final = 2 << 30
READING: Final = "reading"


def main(cpu_s: str) -> None:
    limit(int(cpu_s), MEMORY)
    sys.path += json.loads(sys.stdin.buffer.readline())
    # These need installed packages, which are found only now.
    from evopolicygym.agents.json_events import ReadingLimit, bounded_lines
    from evopolicygym.agents.turn import unreadable_turn
    from evopolicygym.errors import TEMPORARY

    client, transcript, process = pickle.load(sys.stdin.buffer)
    print(READING, flush=True)
    try:
        with io.TextIOWrapper(open_plain(transcript), "utf-8", "replace") as file:
            answer: object = asdict(client.read(bounded_lines(file, ReadingLimit()), process))
    except Exception as error:
        if isinstance(error, OSError) and error.errno in TEMPORARY:
            answer = error.errno
        else:
            answer = asdict(unreadable_turn(process, f"{type(error).__name__}: {error}"))
    print(json.dumps(answer))
