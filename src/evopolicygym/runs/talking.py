"""A player that is one process for the whole run, spoken to in JSON lines."""

from __future__ import annotations

import io
import os
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

from evopolicygym.agents.jsonl import Conversation, Misspoken, Reply
from evopolicygym.agents.turns import Failure, FailureKind, Turn
from evopolicygym.errors import UserError
from evopolicygym.runs.agent_limits import Signs
from evopolicygym.runs.agent_output import STDERR_LIMIT, STDOUT_LIMIT, AgentPipe, Redactor, StreamCopy, Transcript
from evopolicygym.runs.players import POLL_S, Asked, Seat, not_started_again, reopen
from evopolicygym.runs.pulse import Pulse
from evopolicygym.sandbox.agent.cell import AgentLevel, Cell
from evopolicygym.sandbox.agent.launch import AgentProcess, launch

LISTENER_ENDS_S: Final = 10.0  # at most, for the thread that listens to a program which is gone


class TalkingPlayer:
    """Started with the first prompt. When it goes away, the turn has failed, and the next one starts it anew."""

    def __init__(self, seat: Seat, cell: Cell, level: AgentLevel, transcripts: Path) -> None:
        self._seat, self._cell, self._level, self._transcripts = seat, cell, level, transcripts
        self._process: AgentProcess | None = None
        self._pulse = Pulse(transcripts)
        self._open = ExitStack()
        self._listener = ThreadPoolExecutor(1, "listener")
        self._conversation: Conversation | None = None
        self._answer: Future[Reply | None] | None = None
        transcripts.mkdir(parents=True, exist_ok=True)

    def turn(self, asked: Asked) -> Turn:
        began = time.monotonic()
        path = self._transcripts / f"turn_{asked.number:03}.out"
        self._transcript = Transcript(path, self._seat.keys, STDOUT_LIMIT)
        try:
            reply, failure = self._say(asked, began)
        except (OSError, UserError) as error:
            reply, failure = None, not_started_again(asked.number == 1, error)
        if reply is None:
            self._end()
        self._transcript.close()
        wall_s = time.monotonic() - began
        if reply is None:
            return Turn(None, wall_s, failure=failure)
        text = Redactor(self._seat.keys).text(reply.text)
        return Turn(None, wall_s, text=text, usage=reply.usage, stop=reply.stop)

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
            self._output.end()
        if self._answer:
            wait([self._answer], LISTENER_ENDS_S)
        with suppress(BrokenPipeError):  # what it was to be told, and did not stay for
            self._open.close()

    def _say(self, asked: Asked, began: float) -> tuple[Reply | None, Failure | None]:
        conversation = self._conversation or self._start(asked)
        self._answer = self._listener.submit(conversation.say, asked.text)
        try:
            while True:
                try:
                    reply = self._answer.result(POLL_S)
                    return reply, None if reply else Failure(FailureKind.CLIENT, "the program ended without an answer")
                except TimeoutError:
                    self._pulse.beat(asked.number, time.monotonic() - began)
                    if why := asked.over(Signs()):
                        return None, why
        except Misspoken as error:
            return None, Failure(FailureKind.CLIENT, str(error))
        except MemoryError:
            return None, Failure(FailureKind.CLIENT, "its answer does not fit into memory")

    def _start(self, asked: Asked) -> Conversation:
        command = self._seat.command(asked)
        cell = replace(self._cell, environment={**self._cell.environment, **command.environment})
        reopen(cell)
        errors = StreamCopy(self._transcripts / "stderr.txt", self._seat.keys, STDERR_LIMIT, append=True)
        self._open.enter_context(errors)
        self._output = AgentPipe()
        listen: IO[str] = io.TextIOWrapper(io.BufferedReader(self._output), "utf-8", "replace")
        self._open.enter_context(listen)
        their_input, ours = os.pipe()
        speak: IO[str] = self._open.enter_context(open(ours, "w"))
        try:
            streams = (their_input, self._output.theirs, errors.pipe.theirs)
            self._process = launch(command.argv, cell, self._level, *streams)
        finally:
            os.close(their_input)
            self._output.given()
            errors.pipe.given()
        self._conversation = Conversation(speak, listen, self._keep)
        return self._conversation

    def _keep(self, line: str) -> None:
        self._transcript.write(line.encode(errors="replace"))
