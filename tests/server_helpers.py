"""Run commands, and serve real runs: start, call over HTTP, kill and restart `evopolicygym serve`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from command_server import COMMAND as COMMAND
from command_server import run_command, start_command
from conftest import policy_source, write_policy
from evopolicygym.tasks.registry import is_installed_task

AS_USER = Path(__file__).parent / "attacks" / "as_user.py"  # a prefix: runs a command as the user nobody
SMALL = ("--validation-cases", "2", "--heldout-cases", "3", "--jobs", "1", "--seeds", "paper")


TOY = "toys:Toy-v0"


def with_task(*arguments: object) -> list[str]:
    """Add `--task` where a command demands it: the toy tasks are modules of the tests, not of the package."""
    words = [str(argument) for argument in arguments]
    if words[0] not in ("finish", "score", "verify") or "--task" in words:
        return words
    config = Path(words[1]) / "config.toml"
    with suppress(OSError, ValueError):
        task = tomllib.loads(config.read_text())["task"]
        return words if is_installed_task(task) else [*words, "--task", task]
    return words


def command(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return run_command(*with_task(*arguments), **options)


class Server:
    """One run, served by a process of its own. ``api`` is the URL of its HTTP API."""

    def __init__(
        self, root: Path, *options: str, task: str = "toys:Toy-v0", as_user: bool = False, **environment: str
    ) -> None:
        self.root, self.options, self.task = root, options or SMALL, task
        self.as_user = as_user
        self.start(**environment)

    def start(self, **environment: str) -> Server:
        """Start the process, also after a kill. Environment variables are for this process alone."""
        words = ("serve", self.task, "--run", str(self.root), "--json", *self.options)
        prefix = [sys.executable, str(AS_USER)] if self.as_user else []
        self.process = start_command(*words, env=os.environ | environment, prefix=prefix)
        assert self.process.stdout and self.process.stderr
        line = self.process.stdout.readline()
        self.api: str = json.loads(line)["api"] if line else ""
        return self

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    def policy(self, source: str | None = None, **files: str) -> None:
        write_policy(self.workspace / "system", source or policy_source(), **files)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.api + path, data, names, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return reply.status, _parsed(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, _parsed(error.read())

    def submit(self, cases: Any, wait: bool = True, **headers: str) -> tuple[int, Any]:
        return self.call("POST", "/submit", {"env_instances": cases, "wait": wait}, **headers)

    def remaining(self) -> int:
        remaining: int = self.call("GET", "/info")[1]["state"]["remaining_budget"]
        return remaining

    def client(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        script = [sys.executable, str(self.workspace / "submit.py"), *arguments]
        return subprocess.run(script, capture_output=True, text=True, timeout=120, **options)

    def finish(self, exit_code: int = 0) -> dict[str, Any]:
        done = command("finish", self.root, "--json")
        assert done.returncode == exit_code, done.stderr
        self.process.communicate(timeout=120)  # reads the outcome that it prints: it may fill the pipe
        record: dict[str, Any] = json.loads(done.stdout)
        return record

    def kill(self, number: int = signal.SIGKILL) -> int:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        return self.process.wait(60)

    def close(self) -> None:
        self.kill()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream
            stream.close()


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()
