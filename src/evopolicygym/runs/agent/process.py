"""Play turns of an agent: start its program in the sandbox, watch it, end it, and keep its transcript.

`CliAgent` starts a coding CLI anew for each turn; `JsonLinesAgent` keeps one program for the whole run and talks to it
in JSON lines. Both are an `AgentRunner`, which is all that the loop of a run (runs/agent/loop.py) knows of an agent.
"""

from __future__ import annotations

import io
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final, Protocol
from uuid import NAMESPACE_URL, uuid5

from evopolicygym.agents import home
from evopolicygym.agents.definitions import Client, Command, CommandInputs, VendorAddress
from evopolicygym.agents.failures import FailureKind, TurnFailure
from evopolicygym.agents.json_lines import AgentReply, Conversation, MalformedReply
from evopolicygym.agents.turn import ProcessExit, Turn, unreadable_turn
from evopolicygym.agents.usage import Usage
from evopolicygym.errors import TEMPORARY, Fault, UserError
from evopolicygym.run_paths import turn_file
from evopolicygym.runs.agent.limits import TurnProgress
from evopolicygym.runs.agent.logins import return_logins
from evopolicygym.runs.agent.output import (
    STDERR_LIMIT,
    STDOUT_LIMIT,
    AgentPipe,
    Redactor,
    StreamCopy,
    Transcript,
    open_plain,
)
from evopolicygym.runs.agent.turn_files import Heartbeat, save_command, save_traffic, with_traffic
from evopolicygym.runs.agent.turn_reader import ReaderLost, read_turn_in_child
from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel, AgentSandbox
from evopolicygym.sandbox.agent.launch import SandboxedProcess, launch
from evopolicygym.sandbox.agent.network import ProxyTraffic

POLL_S: Final = 0.2
STDERR_TAIL: Final = 4000
LISTENER_ENDS_S: Final = 10.0  # for the thread that reads from a program that has ended
INTERRUPTED: Final = TurnFailure(FailureKind.INTERRUPTED, "the process that played it was killed")

MustEnd = Callable[[TurnProgress], TurnFailure | None]
Reading = Callable[[], Turn]


def read_once(reading: Reading) -> Turn:
    """Read a turn where no judge waits for the machine."""
    return reading()


@dataclass(frozen=True)
class TurnRequest:
    """One turn to play. ``before`` is the usage of the session's earlier turns; ``must_end`` returns why the turn must
    end now, if it must. ``retry`` reads a turn that has ended, again while the machine lacks something: an error there
    must not look like one of a turn that can be played again."""

    number: int
    text: str
    session: str | None
    before: Usage | None
    must_end: MustEnd
    retry: Callable[[Reading], Turn] = read_once


class AgentRunner(Protocol):
    """Plays the turns of one agent."""

    def play_turn(self, request: TurnRequest) -> Turn:
        """Return when the agent has ended its turn or the turn must end; no process of the agent then works on it."""

    def recover_turn(self, request: TurnRequest) -> Turn:
        """Return what is known of a turn during which the judge was killed, and the agent with it."""

    def close(self) -> None:
        """End the agent, from any thread, and delete its copied credentials."""


@dataclass(frozen=True)
class AgentCommand:
    """Builds the command line of each turn. ``keys`` go to the agent's process: real ones, or tokens of the gateway.
    ``secrets`` are values that must not be written anywhere, by name. ``logins``: the copied login files."""

    client: Client
    workspace: Path
    home: Path
    program: str | None = None
    model: str | None = None
    base_url: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    vendors: tuple[VendorAddress, ...] = ()
    logins: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def delete_credentials(self) -> None:
        """Delete copied logins: a record must not hold them. A resumed run copies them again. One that was renewed
        replaces the user's own."""
        return_logins(self.home, self.client, self.logins)
        for name in self.client.credentials:
            home.remove(self.home, name)

    def for_turn(self, request: TurnRequest) -> Command:
        session = request.session if self.client.can_resume else None
        return self.client.command(
            CommandInputs(
                request.text,
                self.workspace,
                self.home,
                model=self.model,
                session=session,
                base_url=self.base_url,
                keys=self.keys,
                options=self.options,
                program=self.program,
                vendors=self.vendors,
                new_session=self._new_session(request.number),
            )
        )

    def _new_session(self, turn: int) -> str:
        """Return the same id each time, so that a resumed run finds the session that it had named."""
        return str(uuid5(NAMESPACE_URL, f"{self.workspace}#{turn}"))


class CliAgent:
    """Starts the client anew for each turn. A client with ``turns = "once"`` gets another only after a failure."""

    def __init__(self, command: AgentCommand, sandbox: AgentSandbox, level: AgentLevel, transcripts: Path) -> None:
        self._command, self._sandbox, self._level, self._transcripts = command, sandbox, level, transcripts
        self._process: SandboxedProcess | None = None
        self._traffic: list[ProxyTraffic] = []  # in the last turn
        self._looking = threading.Lock()  # one reading at a time while turns are played: each may take 2 GiB
        self._heartbeat = Heartbeat(transcripts)
        transcripts.mkdir(parents=True, exist_ok=True)

    def play_turn(self, request: TurnRequest) -> Turn:
        command = self._command.for_turn(request)
        try:
            restore_folders(self._sandbox)
            home.seed(self._command.home, command.files)
            return self._play(request, command)
        except (OSError, UserError) as error:
            return Turn(None, 0.0, failure=start_failure(request.number == 1, error))

    def _play(self, request: TurnRequest, command: Command) -> Turn:
        out, err = self._streams(request.number)
        save_command(command, out.with_suffix(".prompt.json"), self._command.secrets)
        began = time.monotonic()
        ended = ProcessExit(None, 0.0, self._command.home, "", command.session, request.before)
        with (
            StreamCopy(out, self._command.secrets, STDOUT_LIMIT) as stdout,
            StreamCopy(err, self._command.secrets, STDERR_LIMIT) as stderr,
        ):
            progress = self._progress(out, stdout, stderr, ended)

            def must_end() -> TurnFailure | None:
                self._heartbeat.beat(request.number, time.monotonic() - began)
                return request.must_end(progress)

            code, ended_because = self._run(command, stdout, stderr, must_end, out.with_suffix(".net"))
        ended = replace(ended, exit_code=code, wall_s=time.monotonic() - began)
        turn = with_traffic(self._read(request, lambda: ended), self._traffic)
        if ended_because is None:
            return turn
        reported = turn.failure if ended_because.kind is FailureKind.TIMEOUT else None
        is_explained = reported is not None and reported.is_transient  # the client itself says why it took so long
        return replace(turn, failure=reported if is_explained else ended_because, stop=False)

    def recover_turn(self, request: TurnRequest) -> Turn:
        """Read the transcript: above all the session, so that the next turn can continue it."""
        session = self._command.for_turn(request).session

        def ended() -> ProcessExit:
            wall_s = self._heartbeat.seconds_alive(request.number)
            return ProcessExit(None, wall_s, self._command.home, "", session, request.before)

        return replace(self._read(request, ended), failure=INTERRUPTED, stop=False)

    def _progress(self, out: Path, stdout: StreamCopy, stderr: StreamCopy, ended: ProcessExit) -> TurnProgress:
        """Return no progress for a program that is started once: it may be silent for hours."""
        if self._command.client.turns == "once":
            return TurnProgress()
        return TurnProgress(lambda: stdout.bytes_read + stderr.bytes_read, lambda: self._read_now(out, ended))

    def _read_now(self, out: Path, ended: ProcessExit) -> Turn:
        if not self._looking.acquire(blocking=False):
            return unreadable_turn(ended, "a turn before it is still being read")
        try:
            return read_turn_in_child(self._command.client, out, ended)
        except (OSError, MemoryError, Fault) as error:  # the turn goes on, and is read again when it is over
            return unreadable_turn(ended, str(error))
        finally:
            self._looking.release()

    def _streams(self, number: int) -> tuple[Path, Path]:
        return self._transcripts / turn_file(number, ".out"), self._transcripts / turn_file(number, ".err")

    def _read(self, request: TurnRequest, ended: Callable[[], ProcessExit]) -> Turn:
        out, err = self._streams(request.number)

        def reading() -> Turn:
            return read_turn_in_child(self._command.client, out, replace(ended(), stderr_tail=_tail(err)))

        try:
            return request.retry(reading)
        except ReaderLost as error:
            why = str(error)
            return request.retry(lambda: unreadable_turn(ended(), why))

    def close(self) -> None:
        if self._process:
            self._process.kill()
        self._command.delete_credentials()

    def _run(
        self,
        command: Command,
        stdout: StreamCopy,
        stderr: StreamCopy,
        must_end: Callable[[], TurnFailure | None],
        traffic: Path,
    ) -> tuple[int | None, TurnFailure | None]:
        sandbox = replace(self._sandbox, environment={**self._sandbox.environment, **command.environment})
        with _stdin(command.stdin) as stdin:
            streams = (stdin.fileno(), stdout.pipe.agent_end, stderr.pipe.agent_end)
            with launch(command.argv, sandbox, self._level, *streams) as self._process:
                stdout.pipe.close_agent_end()
                stderr.pipe.close_agent_end()
                try:
                    return wait_or_kill(self._process, must_end)
                finally:
                    self._traffic = save_traffic(self._process, traffic, self._command.secrets)


class JsonLinesAgent:
    """Starts one program with the first prompt. If the program ends, the turn has failed, and the next turn starts it
    anew."""

    def __init__(self, command: AgentCommand, sandbox: AgentSandbox, level: AgentLevel, transcripts: Path) -> None:
        self._command, self._sandbox, self._level, self._transcripts = command, sandbox, level, transcripts
        self._process: SandboxedProcess | None = None
        self._heartbeat = Heartbeat(transcripts)
        self._open = ExitStack()
        self._listener = ThreadPoolExecutor(1, "listener")
        self._conversation: Conversation | None = None
        self._answer: Future[AgentReply | None] | None = None
        transcripts.mkdir(parents=True, exist_ok=True)

    def play_turn(self, request: TurnRequest) -> Turn:
        began = time.monotonic()
        path = self._transcripts / turn_file(request.number, ".out")
        self._transcript = Transcript(path, self._command.secrets, STDOUT_LIMIT)
        try:
            reply, failure = self._ask(request, began)
        except (OSError, UserError) as error:
            self._transcript.close()
            reply, failure = None, start_failure(request.number == 1, error)
        if reply is None:
            self._end()
        self._transcript.close()
        wall_s = time.monotonic() - began
        if reply is None:
            return Turn(None, wall_s, failure=failure)
        text = Redactor(self._command.secrets).text(reply.text)
        return Turn(None, wall_s, text=text, usage=reply.usage, stop=reply.stop)

    def recover_turn(self, request: TurnRequest) -> Turn:
        return request.retry(lambda: Turn(None, self._heartbeat.seconds_alive(request.number), failure=INTERRUPTED))

    def close(self) -> None:
        self._end()
        self._command.delete_credentials()

    def _end(self) -> None:
        if self._process:
            self._process.kill()
            self._process = self._conversation = None
            self._output.end()
        if self._answer:
            wait([self._answer], LISTENER_ENDS_S)
        with suppress(BrokenPipeError):  # the program ended before it read its last prompt
            self._open.close()

    def _ask(self, request: TurnRequest, began: float) -> tuple[AgentReply | None, TurnFailure | None]:
        conversation = self._conversation or self._start(request)
        self._answer = self._listener.submit(conversation.prompt, request.text)
        try:
            while True:
                try:
                    reply = self._answer.result(POLL_S)
                    return reply, None if reply else TurnFailure(
                        FailureKind.CLIENT, "the program ended without an answer"
                    )
                except TimeoutError:
                    self._heartbeat.beat(request.number, time.monotonic() - began)
                    if failure := request.must_end(TurnProgress()):
                        return None, failure
        except MalformedReply as error:
            return None, TurnFailure(FailureKind.CLIENT, str(error))
        except MemoryError:
            return None, TurnFailure(FailureKind.CLIENT, "its answer does not fit into memory")

    def _start(self, request: TurnRequest) -> Conversation:
        command = self._command.for_turn(request)
        sandbox = replace(self._sandbox, environment={**self._sandbox.environment, **command.environment})
        restore_folders(sandbox)
        errors = StreamCopy(self._transcripts / "stderr.txt", self._command.secrets, STDERR_LIMIT, append=True)
        self._open.enter_context(errors)
        self._output = AgentPipe()
        output: IO[str] = io.TextIOWrapper(io.BufferedReader(self._output), "utf-8", "replace")
        self._open.enter_context(output)
        their_input, ours = os.pipe()
        prompts: IO[str] = self._open.enter_context(open(ours, "w"))
        try:
            streams = (their_input, self._output.agent_end, errors.pipe.agent_end)
            self._process = launch(command.argv, sandbox, self._level, *streams)
        finally:
            os.close(their_input)
            self._output.close_agent_end()
            errors.pipe.close_agent_end()
        self._conversation = Conversation(prompts, output, self._keep_line)
        return self._conversation

    def _keep_line(self, line: str) -> None:
        self._transcript.write(line.encode(errors="replace"))


def start_failure(is_first: bool, error: OSError | UserError) -> TurnFailure:
    """Return the failure of a turn whose program cannot be started again: the agent has spoilt its HOME or workspace.
    Raise the error if it is not the agent's doing: at the first start, or for want of resources."""
    if is_first or (isinstance(error, OSError) and error.errno in TEMPORARY):
        raise error
    return TurnFailure(FailureKind.CLIENT, f"it cannot be started again: {error}")


def restore_folders(sandbox: AgentSandbox) -> None:
    """Make the agent's folders accessible: an earlier turn may have changed their permissions."""
    for folder in (sandbox.workspace, sandbox.home, sandbox.temporary):
        home.ensure(folder)


def wait_or_kill(
    process: SandboxedProcess, must_end: Callable[[], TurnFailure | None]
) -> tuple[int | None, TurnFailure | None]:
    """Return the exit code, or why the process was killed."""
    while (code := process.wait(POLL_S)) is None:
        if failure := must_end():
            process.kill()
            return None, failure
    return code, None


def _stdin(text: str | None) -> IO[bytes]:
    """Return a file with the input: with a pipe, a program that does not read would block us."""
    file = tempfile.TemporaryFile()
    file.write((text or "").encode())
    file.seek(0)
    return file


def _tail(path: Path) -> str:
    with open_plain(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - STDERR_TAIL))
        return file.read(STDERR_TAIL).decode(errors="replace")
