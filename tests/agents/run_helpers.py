"""Run `evopolicygym run` as a process, with real clients in their sandbox and the scripted model on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from client_installs import Installed, installed
from scripted_model import ScriptedModel

import command_server
from server_helpers import AS_USER, COMMAND, TOY

SMALL = ("--validation-cases", "2", "--heldout-cases", "2", "--jobs", "1", "--seeds", "paper", "--budget", "12")
KEY = "scripted-key-that-opens-nothing"
MODELS = {
    "claude": "claude-scripted",
    "gemini": "gemini-2.5-pro",
    "opencode": "scripted/model",
    "goose": "openai/model",
    "openhands": "openai/scripted",
    "mini-swe-agent": "openai/scripted",
    "model": "openai/scripted",
    "best-of-n": "openai/scripted",
}


def run_argv(root: Path, *options: str) -> list[str]:
    return [*COMMAND, "run", "toys:Toy-v0", "--run", str(root), "--json", *SMALL, *options]


def run_agent(root: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_command(run_argv(root, *options), **environment)


def run_to_record(root: Path, *options: str, **environment: str) -> dict[str, Any]:
    return record_of(run_agent(root, *options, **environment))


def run_command(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    count = len(COMMAND)
    if command[:count] == COMMAND:
        return command_server.run_command(*command[count:], env=os.environ | environment)
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | environment)


def record_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def run_until_time_limit(plays: Callable[[Path, str], dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Return the record of a run whose time limit ended it after its first submission.

    How much time that needs depends on how busy the machine is: a run without a submission is repeated with more."""
    for number, hours in enumerate(("0.001", "0.003", "0.01", "0.03")):
        record = plays(folder / str(number), hours)
        assert record["times"]["closed_because"] == "limit_hours" and record["turns"][-1]["failure"] == "timeout"
        if record["submissions"]:
            return record
    raise AssertionError("nothing was submitted in two minutes")


def time_between_submissions(root: Path) -> list[dict[str, Any]]:
    """Return what `analyze` reports about the time before each submission."""
    output = run_command([*COMMAND, "analyze", str(root), "--json"]).stdout
    return [submission["between"] for submission in json.loads(output)["runs"][0]["spending"]["by_submission"]]


class RealClientRun:
    """Options and environment with which a real client plays, with the scripted model behind it."""

    def __init__(self, name: str, model: ScriptedModel) -> None:
        base = model.url if name in ("claude", "gemini") else f"{model.url}/v1"
        self.options = ("--agent", name, "--model", MODELS.get(name, "scripted"), "--model-url", base)
        self.client: Installed | None = None if name in ("model", "best-of-n") else installed(name)
        self.environment = {"OPENAI_API_KEY": KEY}
        if self.client:
            path = f"{self.client.path}:{os.path.dirname(sys.executable)}"
            self.environment = {self.client.client.keys[0]: KEY, "PATH": path}

    def plays(self, root: Path, *options: str) -> dict[str, Any]:
        return run_to_record(root, *self.options, *options, **self.environment)

    def plays_as_nobody(self, root: Path, *options: str) -> dict[str, Any]:
        """Play as the user nobody, who is shown this Python, this repository and the clients even in a closed home."""
        assert self.client
        command = [sys.executable, str(AS_USER), *run_argv(root, *self.options, *options)]
        shown = os.pathsep.join(map(str, self.client.places))
        return record_of(run_command(command, **self.environment, EVOPOLICYGYM_TEST_SHOW=shown))

    def starts(self, root: Path, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            run_argv(root, *self.options, *options),
            env=os.environ | self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def resumes(self, root: Path) -> dict[str, Any]:
        granted = self.options[self.options.index("--model-url") :]
        return record_of(
            run_command([*COMMAND, "run", TOY, "--resume", str(root), *granted, "--json"], **self.environment)
        )
