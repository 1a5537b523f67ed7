"""A Python function as the agent of a run.

It must not run in the judge's process, and it cannot be sent to another program, since it may be a closure or live in a
notebook. So `FunctionHost` forks a process before the judge holds anything: no engine, no secret, no thread. For
each turn that process forks a child, in which the function runs and talks to the judge's HTTP API as any agent does.
When the child ends, or has to, the host kills whatever is left of it. A supervisor between the caller and the host does
the same if the host is killed. Nothing of this is a jail: the run is recorded as one whose agent was not isolated.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, NoReturn, Self

from evopolicygym.agents import home
from evopolicygym.agents.failures import FailureKind, TurnFailure
from evopolicygym.agents.turn import Turn
from evopolicygym.api.agent_source import AgentFunction, check_same_source, source_hash
from evopolicygym.api.workspace import RunClosed, Workspace
from evopolicygym.errors import UserError
from evopolicygym.run_paths import RunPaths, turn_file
from evopolicygym.runs import workspace
from evopolicygym.runs.agent.limits import TurnProgress
from evopolicygym.runs.agent.loop import RateLimitGroup
from evopolicygym.runs.agent.output import STDERR_LIMIT, STDOUT_LIMIT, Redactor, StreamCopy, open_plain
from evopolicygym.runs.agent.process import POLL_S, TurnRequest, start_failure
from evopolicygym.runs.agent.setup import SEED, secret_values
from evopolicygym.runs.agent.turn_files import Heartbeat
from evopolicygym.runs.settings import AgentSettings
from evopolicygym.sandbox.agent.levels import agent_isolation
from evopolicygym.sandbox.process_tree import KILL_TREE_S, adopt_orphans, end_tree

KILL: Final = b"kill"
KILLED: Final = 128 + signal.SIGKILL
LARGEST_MESSAGE: Final = 1 << 16
TAIL: Final = 4000  # characters of output that say how a turn ended
END_S: Final = KILL_TREE_S + 5.0  # for the host and its supervisor to end what is left of a function
RESIDUES: Final = (
    "the agent is a Python function, in a process forked from the one that called run()",
    "processes of the function can outlive the run if the function kills both processes that watch it",
)


class FunctionHost:
    """The process that runs a function, once for each turn. Fork it before the run is opened. ``pid`` is that of its
    supervisor, which leads their session."""

    def __init__(self, function: AgentFunction) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.is_alive = True
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()  # or what is buffered would be printed twice
        caller = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads of the caller: the child has none
            self.pid = os.fork()
        if self.pid == 0:
            _become_supervisor(theirs, caller, function)
        theirs.close()

    def start(self, environment: Mapping[str, str], stdout: int, stderr: int) -> FunctionProcess:
        """Call the function in a new child. The descriptors are its output streams."""
        message = json.dumps(dict(environment)).encode()
        try:
            socket.send_fds(self._control, [message], [stdout, stderr])
        except OSError as error:
            self.lost()
            raise UserError("the process that runs the Python function was killed") from error
        return FunctionProcess(self, self._control)

    def kill(self) -> None:
        """Ask for the end of the function that is running, if there is one."""
        if self.is_alive:
            with suppress(OSError):
                self._control.send(KILL)
            _signal_session(self.pid, signal.SIGCONT)  # the function may have stopped its host

    def lost(self) -> None:
        """Give up a host that is gone or does not answer: let its supervisor end what it left, and kill their
        session."""
        if self.is_alive:
            self.is_alive = False
            _signal_session(self.pid, signal.SIGCONT)
            with suppress(OSError):  # it has ended
                _wait_for(supervisor := os.pidfd_open(self.pid), timeout=END_S)
                os.close(supervisor)
            _signal_session(self.pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)

    def close(self) -> None:
        """End the host. A shutdown reaches it even if another process holds a copy of our end of the socket."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self.lost()
        self._control.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class FunctionProcess:
    """One call of the function."""

    def __init__(self, host: FunctionHost, control: socket.socket) -> None:
        self._host, self._control = host, control
        self._exit_code: int | None = None

    def wait(self, timeout: float | None = None) -> int | None:
        """Return the exit code (128 + n if signal n ended it), or None if it still runs after ``timeout``."""
        if self._exit_code is None:
            poll = select.poll()
            poll.register(self._control, select.POLLIN)
            if not poll.poll(None if timeout is None else 1000 * timeout):
                return None
            self._exit_code = self._receive()
        return self._exit_code

    def kill(self) -> None:
        """End the function and every process that it started, before this returns."""
        if self._exit_code is None:
            self._host.kill()
            if self.wait(END_S) is None:
                self._host.lost()
                self._exit_code = KILLED

    def _receive(self) -> int:
        try:
            message = self._control.recv(LARGEST_MESSAGE)
        except ConnectionError:
            message = b""
        if not message:
            self._host.lost()
            return KILLED
        return int(json.loads(message)["ended"])


class PythonAgent:
    """Plays a run's turns with the function: one call, and another one after each failure."""

    def __init__(
        self, host: FunctionHost, paths: RunPaths, environment: Mapping[str, str], keys: Mapping[str, str]
    ) -> None:
        self._host, self._paths, self._environment, self._keys = host, paths, environment, keys
        self._transcripts = paths.transcripts
        self._transcripts.mkdir(parents=True, exist_ok=True)
        self._heartbeat = Heartbeat(self._transcripts)
        self._is_closed = False

    def play_turn(self, request: TurnRequest) -> Turn:
        began = time.monotonic()
        try:
            home.ensure(self._paths.workspace)
            code, ended = self._play(request, began)
        except (OSError, UserError) as error:
            return Turn(None, time.monotonic() - began, failure=start_failure(request.number == 1, error))
        wall_s = time.monotonic() - began

        def reading() -> Turn:
            failure = self._failure(request.number, code) if ended is None or self._is_closed else ended
            text = Redactor(self._keys).text(last_lines(self._stream(request.number, ".out"), 1))
            return Turn(code, wall_s, text=text, failure=failure, stop=failure is None)

        return request.retry(reading)

    def recover_turn(self, request: TurnRequest) -> Turn:
        failure = TurnFailure(FailureKind.INTERRUPTED, "the process that called run() was killed")
        return request.retry(lambda: Turn(None, self._heartbeat.seconds_alive(request.number), failure=failure))

    def close(self) -> None:
        """End the turn under way; `play_turn` returns once nothing of it is left."""
        self._is_closed = True
        self._host.kill()

    def _play(self, request: TurnRequest, began: float) -> tuple[int | None, TurnFailure | None]:
        with (
            StreamCopy(self._stream(request.number, ".out"), self._keys, STDOUT_LIMIT) as stdout,
            StreamCopy(self._stream(request.number, ".err"), self._keys, STDERR_LIMIT) as stderr,
        ):
            process = self._host.start(self._environment, stdout.pipe.agent_end, stderr.pipe.agent_end)
            stdout.pipe.close_agent_end()
            stderr.pipe.close_agent_end()
            try:
                while (code := process.wait(POLL_S)) is None:
                    self._heartbeat.beat(request.number, time.monotonic() - began)
                    if why := request.must_end(TurnProgress()):
                        return None, why
                return code, None
            finally:
                process.kill()

    def _failure(self, number: int, code: int | None) -> TurnFailure | None:
        if code == 0:
            return None
        if self._is_closed:
            return TurnFailure(FailureKind.INTERRUPTED, "the run was stopped")
        if not self._host.is_alive:
            return TurnFailure(FailureKind.CLIENT, "the process that runs the Python function was killed")
        text = Redactor(self._keys).text(last_lines(self._stream(number, ".err"), 5))
        return TurnFailure(FailureKind.CLIENT, text or f"exit code {code}")

    def _stream(self, number: int, suffix: str) -> Path:
        return self._transcripts / turn_file(number, suffix)


class PythonAgentSetup:
    """A function that is ready to play, with its settings and what the record says of it."""

    def __init__(self, function: AgentFunction, settings: AgentSettings, host: FunctionHost) -> None:
        self.settings, self._function, self._host = settings, function, host
        self.prices = None

    def facts(self, root: Path) -> dict[str, Any]:
        """Return what the ledger says of the agent: it is not isolated, and so its runs are never publishable. Raises
        UserError if the run in ``root`` was begun by another function of this name."""
        digest = source_hash(self._function)
        check_same_source(root, self.settings.name, digest)
        agent = {
            "name": self.settings.name,
            "model": None,
            "version": None,
            "seed": self.settings.seed,
            "settings": self.settings.behaviour() | ({"sha256": digest} if digest else {}),
        }
        achieved = agent_isolation(self.settings.levels[0], self.settings.network)
        residues = (*RESIDUES, *achieved.residues)
        isolation = {"level": achieved.level, "network": achieved.network, "residues": residues}
        return {"agent": agent, "agent_isolation": isolation}

    def notices(self, paths: RunPaths) -> Iterable[str]:
        """Return nothing: the caller passed the function, and knows what it sees."""
        return ()

    def make_runner(self, paths: RunPaths, api_url: str, rate_limits: RateLimitGroup) -> PythonAgent:
        seed = {SEED: str(self.settings.seed)}
        environment = workspace.agent_environment(paths, api_url) | seed
        return PythonAgent(self._host, paths, environment, secret_values(self.settings))


def _become_supervisor(control: socket.socket, caller: int, function: AgentFunction) -> NoReturn:
    """Fork the host; when it has ended or was killed, end everything that it left. Runs in the forked process."""
    try:
        os.setsid()
        _let_go_of_descriptors(control.fileno())
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # Ctrl-C is the caller's to hear
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        adopt_orphans()
        watched = os.pidfd_open(caller)
        host = os.fork()
        if host == 0:
            _become_host(control, watched, function)
        control.close()
        while os.waitpid(-1, 0)[0] != host:
            pass
    finally:  # above all: never return into the caller's code
        with suppress(BaseException):
            end_tree(None)
        os._exit(0)


def _let_go_of_descriptors(kept: int) -> None:
    """Replace descriptors of the caller by /dev/null: ledgers, locks and sockets of its other runs. They are not merely
    closed: an object of the caller that is collected here would close a number that is in use again."""
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (0, 1, 2, kept, null):
            with suppress(OSError):  # the one that listed the folder
                os.fstat(int(name))
                os.dup2(null, int(name), inheritable=False)


def _become_host(control: socket.socket, caller: int, function: AgentFunction) -> NoReturn:
    """Call the function whenever asked, until the caller is gone or shuts the socket down."""
    try:
        adopt_orphans()
        while caller not in _wait_for(control.fileno(), caller):
            message, descriptors, _, _ = socket.recv_fds(control, LARGEST_MESSAGE, 2)
            if not message:
                break
            if message != KILL:  # else it comes too late: the function has ended by itself
                status = _call(control, caller, function, json.loads(message), descriptors)
                end_tree(None)
                control.send(json.dumps({"ended": status}).encode())
    finally:
        with suppress(BaseException):
            end_tree(None)
        os._exit(0)


def _call(
    control: socket.socket, caller: int, function: AgentFunction, environment: Mapping[str, str], streams: list[int]
) -> int:
    """Fork, and wait until the function has ended, must end, or the caller is gone. Returns its exit code."""
    child = os.fork()
    if child == 0:
        control.close()
        _become_agent(function, environment, streams)
    for descriptor in streams:
        os.close(descriptor)
    ended = os.pidfd_open(child)
    if ended not in _wait_for(control.fileno(), caller, ended):
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(ended)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _wait_for(*descriptors: int, timeout: float | None = None) -> set[int]:
    """Return the descriptors that are ready: a message has come, or a process has ended. Empty after ``timeout``."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(None if timeout is None else 1000 * timeout)}


def _become_agent(function: AgentFunction, environment: Mapping[str, str], streams: list[int]) -> NoReturn:
    """Call the function in the child. Exceptions are printed; an exit code says how it ended."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, descriptor in enumerate(streams, 1):
            os.dup2(descriptor, number)
        sys.stdin, sys.stdout, sys.stderr = open(0), _line_buffered(1), _line_buffered(2)
        os.environ.update(environment)
        os.chdir(environment["EVOPOLICYGYM_WORKSPACE"])
        code = _exit_code(function, environment)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _exit_code(function: AgentFunction, environment: Mapping[str, str]) -> int:
    workspace = Workspace(
        Path(environment["EVOPOLICYGYM_WORKSPACE"]), 0, int(environment[SEED]), environment["EVOPOLICYGYM_API"]
    )
    try:
        budget = int(workspace.info()["episode_budget"])
        function(Workspace(workspace.path, budget, workspace.seed, workspace.api))
    except RunClosed:
        return 0
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return (ended.code or 0) & 0xFF
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _line_buffered(descriptor: int) -> IO[str]:
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _signal_session(session: int, number: int) -> None:
    """Send a signal to the processes of a session, even if its leader is gone. One that made its own is not found."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                if int(file.read().rpartition(b")")[2].split()[3]) == session:
                    os.kill(int(name), number)


def last_lines(path: Path, lines: int) -> str:
    """Return the last lines that are not blank."""
    with open_plain(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
        text = file.read(TAIL).decode(errors="replace")
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])
