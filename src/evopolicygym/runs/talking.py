"""A player that is one process for the whole run, spoken to in JSON lines."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from evopolicygym.agents.confinement.cell import AgentLevel, Cell
from evopolicygym.agents.confinement.launch import AgentProcess, launch
from evopolicygym.agents.jsonl import Conversation, Misspoken, Reply
from evopolicygym.agents.turns import Failure, FailureKind, Turn
from evopolicygym.runs.players import POLL_S, Asked, Seat, redact
from evopolicygym.runs.pulse import Pulse
from evopolicygym.runs.watch import Signs


class TalkingPlayer:
    """Started with the first prompt. When it goes away, the turn has failed, and the next one starts it anew."""

    def __init__(self, seat: Seat, cell: Cell, level: AgentLevel, transcripts: Path) -> None:
        self._seat, self._cell, self._level, self._transcripts = seat, cell, level, transcripts
        self._process: AgentProcess | None = None
        self._pulse = Pulse(transcripts)
        self._open = ExitStack()
        self._listener = ThreadPoolExecutor(1, "listener")
        self._conversation: Conversation | None = None
        transcripts.mkdir(parents=True, exist_ok=True)

    def turn(self, asked: Asked) -> Turn:
        began = time.monotonic()
        path = self._transcripts / f"turn_{asked.number:03}.out"
        with open(path, "w") as transcript:
            self._transcript = transcript
            reply, failure = self._say(asked, began)
        redact(path, self._seat.keys)
        wall_s = time.monotonic() - began
        if reply is None:
            self._end()
            return Turn(None, wall_s, failure=failure)
        return Turn(None, wall_s, text=reply.text, usage=reply.usage, stop=reply.stop)

    def interrupted(self, asked: Asked) -> Turn:
        wall_s = self._pulse.lived(asked.number)
        return Turn(None, wall_s, failure=Failure(FailureKind.INTERRUPTED, "its driver was killed"))

    def close(self) -> None:
        self._end()
        self._seat.leave()

    def _end(self) -> None:
        if self._process:
            self._process.kill()
            self._process = self._conversation = None
        with suppress(BrokenPipeError):  # what it was to be told, and did not stay for
            self._open.close()

    def _say(self, asked: Asked, began: float) -> tuple[Reply | None, Failure | None]:
        conversation = self._conversation or self._start(asked)
        answer = self._listener.submit(conversation.say, asked.text)
        try:
            while True:
                try:
                    reply = answer.result(POLL_S)
                    return reply, None if reply else Failure(FailureKind.CLIENT, "the program ended without an answer")
                except TimeoutError:
                    self._pulse.beat(asked.number, time.monotonic() - began)
                    if why := asked.over(Signs()):
                        self._end()
                        return None, why
        except Misspoken as error:
            return None, Failure(FailureKind.CLIENT, str(error))

    def _start(self, asked: Asked) -> Conversation:
        command = self._seat.command(asked)
        cell = replace(self._cell, environment={**self._cell.environment, **command.environment})
        stderr = self._open.enter_context(open(self._transcripts / "stderr.txt", "ab"))
        (their_input, ours), (mine, their_output) = os.pipe(), os.pipe()
        try:
            self._process = launch(command.argv, cell, self._level, their_input, their_output, stderr.fileno())
        finally:
            os.close(their_input)
            os.close(their_output)
        speak: IO[str] = self._open.enter_context(open(ours, "w"))
        listen: IO[str] = self._open.enter_context(open(mine, errors="replace"))
        self._conversation = Conversation(speak, listen, self._keep)
        return self._conversation

    def _keep(self, line: str) -> None:
        self._transcript.write(line)
