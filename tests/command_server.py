"""Run commands in forks of a process that has imported them: importing takes most of the time of a small command.

Every fork is the real command line in a process of its own, with its own environment, folder and output. Tests of cold
starts, of signals and of what a process inherits start their commands themselves.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

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
        both, early = (self.environment, environment), tuple(READ_AT_START)
        mine, other = ({name: value for name, value in one.items() if name.startswith(early)} for one in both)
        return mine == other

    def run(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        outputs: tuple[IO[bytes], IO[bytes]],
        timeout: float,
    ) -> int:
        """Run a command and return its exit code, negative if a signal killed it."""
        job = json.dumps({"words": list(words), "environment": dict(environment), "folder": folder}).encode()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.address)
            socket.send_fds(connection, [len(job).to_bytes(8, "big")], [file.fileno() for file in outputs])
            connection.sendall(job)
            with connection.makefile("rb") as replies:
                child = int(replies.readline())
                connection.settimeout(timeout)
                try:
                    return int(replies.readline())
                except TimeoutError:
                    os.kill(child, signal.SIGKILL)
                    raise


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
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = _server().run(argv, environment, os.fspath(cwd or os.getcwd()), (out, err), timeout)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode().replace("\r\n", "\n"))
    return subprocess.CompletedProcess([*COMMAND, *argv], code, *texts)


def _serve(listening: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for those that wait for a command
    while True:
        connection, _ = listening.accept()
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


def _import_commands() -> None:
    """Import what commands import when they run."""
    from evopolicygym.analysis import gain  # noqa: F401
    from evopolicygym.analysis.leaderboard import build  # noqa: F401
    from evopolicygym.api import finish, run  # noqa: F401
    from evopolicygym.cli.main import _app
    from evopolicygym.report import report_data  # noqa: F401
    from evopolicygym.runs import agent_loop, open_run, serve, verify  # noqa: F401

    _app()


if __name__ == "__main__":
    _import_commands()
    _serve(socket.socket(fileno=int(sys.argv[1])))
