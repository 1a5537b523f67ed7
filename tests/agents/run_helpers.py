"""`evopolicygym run` as a process, with a real client in its jail and the scripted model on loopback."""

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
}


def argv(root: Path, *options: str) -> list[str]:
    return [*COMMAND, "run", "toys:Toy-v0", "--run", str(root), "--json", *SMALL, *options]


def play(root: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return finished(argv(root, *options), **environment)


def played(root: Path, *options: str, **environment: str) -> dict[str, Any]:
    return record_of(play(root, *options, **environment))


def finished(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | environment)


def record_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def stopped_in_time(plays: Callable[[Path, str], dict[str, Any]], folder: Path) -> dict[str, Any]:
    """A run whose time was over after its first submission. How little time is enough for that depends on how busy this
    machine is: what comes too early is a run as well, with a limit of its own, and is tried again with more time."""
    for number, hours in enumerate(("0.001", "0.003", "0.01", "0.03")):
        record = plays(folder / str(number), hours)
        assert record["times"]["closed_because"] == "limit_hours" and record["turns"][-1]["failure"] == "timeout"
        if record["submissions"]:
            return record
    raise AssertionError("nothing was submitted in two minutes")


def meanwhile(root: Path) -> list[dict[str, Any]]:
    """What is known of the time before each submission."""
    told = finished([*COMMAND, "analyze", str(root), "--json"]).stdout
    return [one["between"] for one in json.loads(told)["runs"][0]["spending"]["by_submission"]]


class RealClientRun:
    """How a real client is asked to play against the scripted model."""

    def __init__(self, name: str, model: ScriptedModel) -> None:
        base = model.url if name in ("claude", "gemini") else f"{model.url}/v1"
        self.options = ("--agent", name, "--model", MODELS.get(name, "scripted"), "--model-url", base)
        self.client: Installed | None = None if name == "model" else installed(name)
        self.environment = {"OPENAI_API_KEY": KEY}
        if self.client:
            path = f"{self.client.path}:{os.path.dirname(sys.executable)}"
            self.environment = {self.client.client.keys[0]: KEY, "PATH": path}

    def plays(self, root: Path, *options: str) -> dict[str, Any]:
        return played(root, *self.options, *options, **self.environment)

    def plays_as_nobody(self, root: Path, *options: str) -> dict[str, Any]:
        """Who finds this Python, this repository and the clients although they may lie in a home that is closed."""
        assert self.client
        command = [sys.executable, str(AS_USER), *argv(root, *self.options, *options)]
        shown = os.pathsep.join(map(str, self.client.places))
        return record_of(finished(command, **self.environment, EVOPOLICYGYM_TEST_SHOW=shown))

    def starts(self, root: Path, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            argv(root, *self.options, *options),
            env=os.environ | self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def resumes(self, root: Path) -> dict[str, Any]:
        granted = self.options[self.options.index("--model-url") :]
        return record_of(
            finished([*COMMAND, "run", TOY, "--resume", str(root), *granted, "--json"], **self.environment)
        )
