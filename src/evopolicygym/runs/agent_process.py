"""Playing turns: an agent's program is started in its cell, watched and ended, and its transcript kept."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Final, Protocol
from uuid import NAMESPACE_URL, uuid5

from evopolicygym.agents import home
from evopolicygym.agents.definitions import Client, Command, CommandInputs
from evopolicygym.agents.json_events import ReadingLimit, bounded_lines
from evopolicygym.agents.json_lines import AgentReply, Conversation, MalformedReply
from evopolicygym.agents.turn import FailureKind, ProcessExit, Turn, TurnFailure
from evopolicygym.agents.usage import Usage
from evopolicygym.errors import FULL, UserError
from evopolicygym.files import is_shortage
from evopolicygym.runs.agent_limits import TurnProgress
from evopolicygym.runs.agent_output import (
    PLAIN_FLAGS,
    STDERR_LIMIT,
    STDOUT_LIMIT,
    AgentPipe,
    Redactor,
    StreamCopy,
    Transcript,
    open_plain,
)
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, AgentSandbox
from evopolicygym.sandbox.agent.launch import SandboxedProcess, launch

LONGEST: Final = 64


class Heartbeat:
    """Written down: in a copy of the run a file has another time, and whoever owns a transcript can set it."""

    def __init__(self, transcripts: Path) -> None:
        self._path = transcripts / "pulse"

    def beat(self, turn: int, seconds: float) -> None:
        """Over the last one, at the same width: there is no moment without."""
        with suppress(OSError):  # no run ends for want of it
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | PLAIN_FLAGS, 0o644)
            try:
                os.write(descriptor, f"{turn:9d} {seconds:12.3f}\n".encode())
            finally:
                os.close(descriptor)

    def lived(self, turn: int) -> float:
        """Seconds until the last sign of life of a turn that was interrupted."""
        with open_plain(self._path) as file:
            text = file.read(LONGEST).decode(errors="replace")
        found = re.fullmatch(r" *(\d+) +(\d+\.\d+)\n", text, re.ASCII)
        return float(found[2]) if found and int(found[1]) == turn else 0.0


POLL_S: Final = 0.2
STDERR_TAIL: Final = 4000
log = logging.getLogger(__name__)

MustEnd = Callable[[TurnProgress], TurnFailure | None]


@dataclass(frozen=True)
class TurnRequest:
    """One turn to be played. ``before`` is the usage of the earlier turns of its session; ``over`` says when it must
    end, and why."""

    number: int
    text: str
    session: str | None
    before: Usage | None
    over: MustEnd


class AgentRunner(Protocol):
    """An agent at work. ``turn`` returns when it has answered or its time is up; then nothing of it is running.
    ``interrupted`` tells what is known of a turn in which its driver was killed, and the agent with it."""

    def turn(self, asked: TurnRequest) -> Turn: ...

    def interrupted(self, asked: TurnRequest) -> Turn: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class AgentCommand:
    """How a client is to be asked, turn after turn. ``keys`` are secrets: they go to the process and nowhere else."""

    client: Client
    workspace: Path
    home: Path
    program: str | None = None
    model: str | None = None
    base_url: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)

    def leave(self) -> None:
        """A login is nothing that a record should hold; it is copied again when the run is taken up again."""
        for name in self.client.credentials:
            home.remove(self.home, name)

    def command(self, asked: TurnRequest) -> Command:
        session = asked.session if self.client.can_resume else None
        return self.client.command(
            CommandInputs(
                asked.text,
                self.workspace,
                self.home,
                model=self.model,
                session=session,
                base_url=self.base_url,
                keys=self.keys,
                options=self.options,
                program=self.program,
                new_session=self._new_session(asked.number),
            )
        )

    def _new_session(self, turn: int) -> str:
        """The same when it is asked for again: a driver that was killed must find the session that it named."""
        return str(uuid5(NAMESPACE_URL, f"{self.workspace}#{turn}"))


class CliAgent:
    """Starts the client anew for each turn. One that plays ``once`` has only one, unless it fails."""

    def __init__(self, seat: AgentCommand, cell: AgentSandbox, level: AgentLevel, transcripts: Path) -> None:
        self._seat, self._cell, self._level, self._transcripts = seat, cell, level, transcripts
        self._process: SandboxedProcess | None = None
        self._pulse = Heartbeat(transcripts)
        transcripts.mkdir(parents=True, exist_ok=True)

    def turn(self, asked: TurnRequest) -> Turn:
        command = self._seat.command(asked)
        try:
            restore_folders(self._cell)
            home.seed(self._seat.home, command.files)
            return self._play(asked, command)
        except (OSError, UserError) as error:
            return Turn(None, 0.0, failure=start_failure(asked.number == 1, error))

    def _play(self, asked: TurnRequest, command: Command) -> Turn:
        out, err = self._streams(asked.number)
        began = time.monotonic()
        ended = ProcessExit(None, 0.0, self._seat.home, "", command.session, asked.before)
        with (
            StreamCopy(out, self._seat.keys, STDOUT_LIMIT) as stdout,
            StreamCopy(err, self._seat.keys, STDERR_LIMIT) as stderr,
        ):
            signs = self._signs(out, stdout, stderr, ended)

            def over() -> TurnFailure | None:
                self._pulse.beat(asked.number, time.monotonic() - began)
                return asked.over(signs)

            code, why = self._run(command, stdout, stderr, over, out.with_suffix(".net"))
        turn = self._read(out, err, replace(ended, exit_code=code, wall_s=time.monotonic() - began))
        if why:  # but it may have said itself why it took so long
            told = turn.failure if why.kind is FailureKind.TIMEOUT and turn.failure else None
            return replace(turn, failure=told if told and told.is_transient else why, stop=False)
        return turn

    def interrupted(self, asked: TurnRequest) -> Turn:
        """From its transcript: above all the session, so that it can be taken up again."""
        out, err = self._streams(asked.number)
        wall_s = self._pulse.lived(asked.number)
        session = self._seat.command(asked).session
        turn = self._read(out, err, ProcessExit(None, wall_s, self._seat.home, "", session, asked.before))
        return replace(turn, failure=TurnFailure(FailureKind.INTERRUPTED, "its driver was killed"), stop=False)

    def _signs(self, out: Path, stdout: StreamCopy, stderr: StreamCopy, ended: ProcessExit) -> TurnProgress:
        """A program that is started once may be silent for hours."""
        if self._seat.client.turns == "once":
            return TurnProgress()
        return TurnProgress(lambda: stdout.heard + stderr.heard, lambda: self._understood(out, ended))

    def _streams(self, number: int) -> tuple[Path, Path]:
        stem = self._transcripts / f"turn_{number:03}"
        return stem.with_suffix(".out"), stem.with_suffix(".err")

    def _read(self, out: Path, err: Path, ended: ProcessExit) -> Turn:
        return self._understood(out, replace(ended, stderr_tail=_tail(err)))

    def _understood(self, out: Path, ended: ProcessExit) -> Turn:
        """Whatever is in the transcript and in HOME: what cannot be read fails the turn, never the run."""
        try:
            with io.TextIOWrapper(open_plain(out), "utf-8", "replace") as file:
                return self._seat.client.read(bounded_lines(file, ReadingLimit()), ended)
        except Exception as error:
            log.warning("%s cannot be read", out.name, exc_info=True)
            why = f"what it left cannot be read: {type(error).__name__}: {error}"
            return Turn(ended.exit_code, ended.wall_s, ended.session, failure=TurnFailure(FailureKind.CLIENT, why))

    def close(self) -> None:
        if self._process:
            self._process.kill()
        self._seat.leave()

    def _run(
        self,
        command: Command,
        stdout: StreamCopy,
        stderr: StreamCopy,
        over: Callable[[], TurnFailure | None],
        net: Path,
    ) -> tuple[int | None, TurnFailure | None]:
        cell = replace(self._cell, environment={**self._cell.environment, **command.environment})
        with _stdin(command.stdin) as stdin:
            streams = (stdin.fileno(), stdout.pipe.theirs, stderr.pipe.theirs)
            with launch(command.argv, cell, self._level, *streams) as self._process:
                stdout.pipe.given()
                stderr.pipe.given()
                try:
                    return wait_or_kill(self._process, over)
                finally:
                    save_traffic(self._process, net, self._seat.keys)


def start_failure(is_first: bool, error: OSError | UserError) -> TurnFailure:
    """An agent that was started before, and now cannot be, has seen to that itself: it owns its HOME and workspace.
    Raises what is not its doing."""
    if is_first or is_shortage(error) or (isinstance(error, OSError) and error.errno in FULL):
        raise error
    return TurnFailure(FailureKind.CLIENT, f"it cannot be started again: {error}")


def restore_folders(cell: AgentSandbox) -> None:
    """The agent's folders, as its program needs them: an earlier turn may have closed them."""
    for folder in (cell.workspace, cell.home, cell.temporary):
        home.ensure(folder)


def wait_or_kill(
    process: SandboxedProcess, over: Callable[[], TurnFailure | None]
) -> tuple[int | None, TurnFailure | None]:
    """The exit code; or why it had to be ended."""
    while (code := process.wait(POLL_S)) is None:
        if why := over():
            process.kill()
            return None, why
    return code, None


def save_traffic(process: SandboxedProcess, path: Path, keys: Mapping[str, str]) -> None:
    """What the proxy let through, and what it refused, beside the transcript. Hosts are in lower case, and so is a key
    that an agent asked for as a host."""
    redactor = Redactor({name: value.lower() for name, value in keys.items()})
    traffic = [replace(one, host=redactor.text(one.host)) for one in process.traffic()]
    if traffic:
        with suppress(OSError):  # no run ends for want of it
            path.write_text("".join(json.dumps(asdict(one)) + "\n" for one in traffic))


def _stdin(text: str | None) -> IO[bytes]:
    """A file, so that a program which does not read its input blocks nobody."""
    file = tempfile.TemporaryFile()
    file.write((text or "").encode())
    file.seek(0)
    return file


def _tail(path: Path) -> str:
    with open_plain(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - STDERR_TAIL))
        return file.read(STDERR_TAIL).decode(errors="replace")


LISTENER_ENDS_S: Final = 10.0  # at most, for the thread that listens to a program which is gone


class JsonLinesAgent:
    """Started with the first prompt. When it goes away, the turn has failed, and the next one starts it anew."""

    def __init__(self, seat: AgentCommand, cell: AgentSandbox, level: AgentLevel, transcripts: Path) -> None:
        self._seat, self._cell, self._level, self._transcripts = seat, cell, level, transcripts
        self._process: SandboxedProcess | None = None
        self._pulse = Heartbeat(transcripts)
        self._open = ExitStack()
        self._listener = ThreadPoolExecutor(1, "listener")
        self._conversation: Conversation | None = None
        self._answer: Future[AgentReply | None] | None = None
        transcripts.mkdir(parents=True, exist_ok=True)

    def turn(self, asked: TurnRequest) -> Turn:
        began = time.monotonic()
        path = self._transcripts / f"turn_{asked.number:03}.out"
        self._transcript = Transcript(path, self._seat.keys, STDOUT_LIMIT)
        try:
            reply, failure = self._say(asked, began)
        except (OSError, UserError) as error:
            reply, failure = None, start_failure(asked.number == 1, error)
        if reply is None:
            self._end()
        self._transcript.close()
        wall_s = time.monotonic() - began
        if reply is None:
            return Turn(None, wall_s, failure=failure)
        text = Redactor(self._seat.keys).text(reply.text)
        return Turn(None, wall_s, text=text, usage=reply.usage, stop=reply.stop)

    def interrupted(self, asked: TurnRequest) -> Turn:
        wall_s = self._pulse.lived(asked.number)
        return Turn(None, wall_s, failure=TurnFailure(FailureKind.INTERRUPTED, "its driver was killed"))

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

    def _say(self, asked: TurnRequest, began: float) -> tuple[AgentReply | None, TurnFailure | None]:
        conversation = self._conversation or self._start(asked)
        self._answer = self._listener.submit(conversation.say, asked.text)
        try:
            while True:
                try:
                    reply = self._answer.result(POLL_S)
                    return reply, None if reply else TurnFailure(
                        FailureKind.CLIENT, "the program ended without an answer"
                    )
                except TimeoutError:
                    self._pulse.beat(asked.number, time.monotonic() - began)
                    if why := asked.over(TurnProgress()):
                        return None, why
        except MalformedReply as error:
            return None, TurnFailure(FailureKind.CLIENT, str(error))
        except MemoryError:
            return None, TurnFailure(FailureKind.CLIENT, "its answer does not fit into memory")

    def _start(self, asked: TurnRequest) -> Conversation:
        command = self._seat.command(asked)
        cell = replace(self._cell, environment={**self._cell.environment, **command.environment})
        restore_folders(cell)
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
