"""Drive a client without a run: its own process group, a fresh HOME and an environment with nothing inherited."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from client_installs import Installed

from evopolicygym.agents import home
from evopolicygym.agents.definitions import Command, CommandInputs
from evopolicygym.agents.turn import ProcessExit, Turn
from evopolicygym.agents.usage import total_usage
from process_helpers import wait_until

KEY = "scripted-key-that-opens-nothing"


class ClientProcess:
    """One client in one workspace. ``turns`` are the turns so far; ``prefix`` goes before its command line."""

    def __init__(self, client: Installed, folder: Path, workspace: Path, prefix: tuple[str, ...] = (), **ask: Any):
        self.installed, self.workspace, self.prefix, self.ask = client, workspace, prefix, ask
        self.folder, self.home = folder, folder / "home"
        self.turns: list[Turn] = []
        self.environment: Mapping[str, str] = {}
        for made in (self.home, folder / "tmp"):
            made.mkdir(parents=True, exist_ok=True)

    @property
    def session(self) -> str | None:
        return next((turn.session for turn in reversed(self.turns) if turn.session), None)

    def turn(self, prompt: str, timeout_s: float = 240.0, counted: Callable[[], object] = lambda: True) -> Turn:
        """Play one turn. ``timeout_s`` counts from when ``counted`` returns true."""
        client = self.installed.client
        options = {"keys": {client.keys[0]: KEY}, "program": str(self.installed.program), **self.ask}
        command = client.command(
            CommandInputs(
                prompt, self.workspace, self.home, session=self.session if client.can_resume else None, **options
            )
        )
        home.seed(self.home, command.files)
        code, wall_s = self._run(command, timeout_s, counted)
        before = total_usage(turn.usage for turn in self.turns if turn.session == self.session)
        ended = ProcessExit(code, wall_s, self.home, self.stderr[-4000:], command.session, before)
        with self._file("stdout").open(errors="replace") as lines:
            turn = client.read(lines, ended)
        self.turns.append(turn)
        return turn

    @property
    def stderr(self) -> str:
        return self._file("stderr").read_text(errors="replace")

    @property
    def stdout(self) -> str:
        return self._file("stdout").read_text(errors="replace")

    def commands(self) -> list[dict[str, Any]]:
        """Return the events of the last turn."""
        return [json.loads(line) for line in self.stdout.splitlines() if line.startswith("{")]

    def _file(self, name: str) -> Path:
        return self.folder / name

    def _run(self, command: Command, timeout_s: float, counted: Callable[[], object]) -> tuple[int | None, float]:
        began = time.monotonic()
        with self._file("stdout").open("w") as out, self._file("stderr").open("w") as err:
            process = subprocess.Popen(
                [*self.prefix, *command.argv],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                cwd=self.workspace,
                env=self._environment(command),
                start_new_session=True,
                text=True,
            )
            assert process.stdin
            with suppress(BrokenPipeError), process.stdin as stdin:
                stdin.write(command.stdin or "")
            code = self._wait(process, timeout_s, counted)
        return code, time.monotonic() - began

    def _wait(self, process: subprocess.Popen[str], timeout_s: float, counted: Callable[[], object]) -> int | None:
        try:
            wait_until(lambda: counted() or process.poll() is not None)
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()

    def _environment(self, command: Command) -> dict[str, str]:
        basics = {"PATH": self.installed.path, "HOME": str(self.home), "TMPDIR": str(self.folder / "tmp")}
        return basics | {"LANG": "C.UTF-8"} | dict(self.environment) | command.environment
