"""Run commands in forks of a process that has imported them: importing takes most of the time of a small command.

Every fork is the real command line in a process of its own, with its own environment, folder and output. Tests of cold
starts, of signals and of what a process inherits start their commands themselves.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

# Variables that Python or a library may read while it starts. If one of them differs, the command is started anew.
READ_AT_START = (
    "PYTHON LC_ LANG TZ COLUMNS LINES TERM TTY_ NO_COLOR FORCE_COLOR HOME TMP TEMP LD_ COVERAGE XDG_CACHE XDG_DATA "
    "OPENBLAS OMP_ MKL_ MPL MUJOCO SDL_ PYGAME"
).split()
COMMAND = [sys.executable, "-m", "evopolicygym.cli.main"]


class CommandServer:
    """The process that forks, and its address."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        self.folder = tempfile.mkdtemp(prefix="evopolicygym-commands-")
        self.address = os.path.join(self.folder, "socket")
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(self.address)
        listening.listen()
        number = str(listening.fileno())
        self.process = subprocess.Popen([sys.executable, __file__, number], pass_fds=[listening.fileno()])
        listening.close()
        atexit.register(self.close)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        Path(self.address).unlink(missing_ok=True)
        os.rmdir(self.folder)

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Whether a fork can have this environment as if it had been started with it."""
        if "COVERAGE_PROCESS_START" in environment:  # a fork that ends at once would not write what it reached
            return False
        both, early = (self.environment, environment), tuple(READ_AT_START)
        mine, other = (
            {name: value for name, value in variables.items() if name.startswith(early)} for variables in both
        )
        return mine == other


class ForkedCommand:
    """A command in a fork of the server, with the methods of ``subprocess.Popen`` that tests use. It is not a child of
    the test: what waits for it in the server reports its exit code."""

    def __init__(
        self, server: CommandServer, words: Sequence[str], environment: Mapping[str, str], folder: str
    ) -> None:
        job = {"words": list(words), "environment": dict(environment), "folder": folder}
        text, pipes = json.dumps(job).encode(), [os.pipe(), os.pipe()]
        self.stdout, self.stderr = (open(reader, encoding="utf-8") for reader, _ in pipes)
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(server.address)
        writers = [writer for _, writer in pipes]
        socket.send_fds(self._connection, [len(text).to_bytes(8, "big")], writers)
        for writer in writers:
            os.close(writer)
        self._connection.sendall(text)
        self._replies = self._connection.makefile("rb")
        self.pid = int(self._replies.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("evopolicygym", timeout or 0.0)
            self.returncode = int(self._replies.readline() or -signal.SIGKILL)
            self._replies.close()
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both outputs to their ends, and wait."""
        with ThreadPoolExecutor(2) as readers:
            texts = [readers.submit(file.read) for file in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            return texts[0].result(), texts[1].result()


@cache
def _server() -> CommandServer:
    return CommandServer(os.environ)


def run_command(
    *words: object,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    timeout: float = 600,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run `evopolicygym` with these words, as ``subprocess.run`` would, with captured text. With other ``options`` of
    ``subprocess.run`` it is started anew."""
    argv, environment = [str(word) for word in words], os.environ if env is None else env
    if options or not _server().fits(environment):
        return subprocess.run(
            [*COMMAND, *argv], env=env, cwd=cwd, timeout=timeout, capture_output=True, text=True, **options
        )
    forked = ForkedCommand(_server(), argv, environment, os.fspath(cwd or os.getcwd()))
    with forked.stdout, forked.stderr:
        return subprocess.CompletedProcess([*COMMAND, *argv], *_ended(forked, timeout))


def _ended(forked: ForkedCommand, timeout: float) -> tuple[int, str, str]:
    out, err = forked.communicate(timeout)
    return forked.wait(), out, err


def start_command(
    *words: object, env: Mapping[str, str], prefix: Sequence[str] = ()
) -> subprocess.Popen[str] | ForkedCommand:
    """Start `evopolicygym` with these words and piped output, in a fork where that makes no difference. A program and
    its arguments that start the command are its ``prefix``."""
    argv = [str(word) for word in words]
    if not prefix and _server().fits(env):
        return ForkedCommand(_server(), argv, env, os.getcwd())
    return subprocess.Popen(
        [*prefix, *COMMAND, *argv], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _serve(listening: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for those that wait for a command
    parent = os.getppid()
    listening.settimeout(5)
    while os.getppid() == parent:  # or the tests were killed
        try:
            connection, _ = listening.accept()
        except TimeoutError:
            continue
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _run_and_report(connection)
        connection.close()


def _run_and_report(connection: socket.socket) -> NoReturn:
    size, outputs, _, _ = socket.recv_fds(connection, 8, 2)
    with connection.makefile("rb") as requests:
        job = json.loads(requests.read(int.from_bytes(size, "big")))
    child = os.fork()
    if child == 0:
        connection.close()
        _become(job["words"], job["environment"], job["folder"], outputs)
    for number in outputs:
        os.close(number)
    connection.sendall(f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(words: list[str], environment: dict[str, str], folder: str, outputs: list[int]) -> NoReturn:
    """Be the command, as ``python -m evopolicygym.cli.main`` is."""
    from evopolicygym.cli import main as command_line

    code = 1
    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *outputs)):
            os.dup2(file, number)
            os.close(file)
        sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)
        sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = sys.__stderr__ = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)
        sys.path[0] = os.getcwd()
        sys.argv = [command_line.__file__, *words]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        command_line.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _prepare() -> None:
    """Import what commands import when they run, and look once for simulators among the system's files, which takes a
    fifth of a second of each command that starts an agent. No test changes these files outside a namespace."""
    from evopolicygym.analysis import gain  # noqa: F401
    from evopolicygym.analysis.leaderboard import build  # noqa: F401
    from evopolicygym.api import finish, run  # noqa: F401
    from evopolicygym.cli.main import _app
    from evopolicygym.report import report_data  # noqa: F401
    from evopolicygym.runs import open_run, serve, verify  # noqa: F401
    from evopolicygym.runs.agent import loop  # noqa: F401
    from evopolicygym.sandbox.agent.visible_files import exposure

    _app()
    exposure()


if __name__ == "__main__":
    _prepare()
    _serve(socket.socket(fileno=int(sys.argv[1])))
