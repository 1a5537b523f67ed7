"""Write, start, inspect, kill and restart real suites of real runs."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from process_helpers import alive, descendants, wait_until
from server_helpers import COMMAND, command

TOY = """
tasks = ["toys:Toy-v0"]
[splits]
seeds = "paper"
validation_cases = 2
heldout_cases = 3
[defaults]
budget = 8
"""


class SuiteRunner:
    """One suite file with its folder, and the commands on it."""

    def __init__(self, folder: Path, text: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file, self.folder = folder / "some.toml", folder / "out"
        self.file.write_text(text)

    def arguments(self, *options: object) -> list[str]:
        return ["suite", "run", str(self.file), "--folder", str(self.folder), *map(str, options)]

    def run(self, *options: object) -> subprocess.CompletedProcess[str]:
        return command(*self.arguments(*options))

    def start(self, *options: object) -> subprocess.Popen[str]:
        argv = [*COMMAND, *self.arguments(*options)]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def rows(self) -> dict[str, dict[str, Any]]:
        listed = json.loads(command("suite", "status", self.folder, "--json").stdout)["runs"]
        return {row["run"]: row for row in listed}

    def record(self, name: str) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.folder / "runs" / name / "run.json").read_text())
        return record

    def names(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "runs").iterdir())


def kill_scheduler(process: subprocess.Popen[str]) -> None:
    """Kill the scheduler alone; the processes that it started must notice and end."""
    children = descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert wait_until(lambda: not alive(children), 30), "processes outlive their scheduler"


def comparable_facts(record: dict[str, Any]) -> dict[str, Any]:
    """Return what must not depend on how often a run was interrupted."""
    return {
        "submissions": [
            (item["checkpoint"], item["cases"], item["verdict"], item["train"]) for item in record["submissions"]
        ],
        "checkpoints": [(item["hash"], item["validation"], item["heldout"]) for item in record["checkpoints"]],
        "outcome": record["outcome"],
        "charged": record["budget"]["charged"],
        "refunds": record["budget"]["refunds"],
    }
