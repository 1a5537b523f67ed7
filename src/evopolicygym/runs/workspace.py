"""The workspace of a run: everything that its agent sees.

AGENTS.md (the rules and the task), submit.py (the client of the API), door.json (the API's address), `system/` with a
starter policy, and files that point other clients to AGENTS.md."""

from __future__ import annotations

import json
import logging
from importlib.resources import files
from typing import Any, Final

from evopolicygym.files import write_atomic
from evopolicygym.judge import feedback
from evopolicygym.run_paths import RunPaths
from evopolicygym.runs.instructions import render_instructions
from evopolicygym.runs.settings import RunSettings
from evopolicygym.tasks.contract import starter
from evopolicygym.tasks.spaces import Schema

CLIENT: Final = "submit.py"
DOOR: Final = "door.json"
INSTRUCTIONS: Final = "AGENTS.md"
VARIABLE: Final = "EVOPOLICYGYM"
log = logging.getLogger(__name__)

READ_FIRST: Final = "Read AGENTS.md in this folder first: it holds the task, the rules, and how to submit.\n"
POINTERS: Final = {  # for clients that do not look for AGENTS.md; `@` includes it where it can be
    "CLAUDE.md": f"@AGENTS.md\n\n{READ_FIRST}",
    "GEMINI.md": f"@AGENTS.md\n\n{READ_FIRST}",
    "QWEN.md": READ_FIRST,
}


def make_workspace(paths: RunPaths, settings: RunSettings, task_text: str, obs_space: Schema, actions: Schema) -> None:
    """Write the workspace of a new run. Temporary files that a killed process left in ``system`` are deleted: they
    would be part of the agent's policy."""
    for leftover in paths.system.glob(".policy.py-*"):
        leftover.unlink()
    write_atomic(paths.workspace / INSTRUCTIONS, render_instructions(settings, task_text, obs_space).encode())
    for name, pointer in POINTERS.items():
        write_atomic(paths.workspace / name, pointer.encode())
    write_atomic(paths.workspace / CLIENT, files("evopolicygym.server").joinpath("client.py").read_bytes())
    write_atomic(paths.system / "policy.py", starter(actions).encode())


def write_door(paths: RunPaths, api: str) -> None:
    """Write the API's address, which may change when the run is resumed."""
    _write_door(paths, {"api": api})


def write_closed(paths: RunPaths) -> None:
    """Write that the API is closed for good, so that clients stop waiting."""
    _write_door(paths, {"closed": True})


def _write_door(paths: RunPaths, content: dict[str, Any]) -> None:
    """Write door.json. If the agent has made its workspace unwritable, log that and continue."""
    try:
        feedback.replace_file(paths.workspace, DOOR, json.dumps(content).encode() + b"\n")
    except OSError as error:
        log.warning("%s could not be written to the workspace: %s", DOOR, error)


def agent_environment(paths: RunPaths, api: str) -> dict[str, str]:
    """Return the variables of the public v0.1 protocol for the agent's process."""
    from evopolicygym.tasks.ids import PROTOCOL

    values = {
        "API": api,
        "INFO_URL": f"{api}/info",
        "TASK_URL": f"{api}/task",
        "SUBMIT_URL": f"{api}/submit",
        "WORKSPACE": str(paths.workspace),
        "SYSTEM": str(paths.system),
        "FEEDBACK": str(paths.workspace / feedback.FOLDER),
        "AGENTS": str(paths.workspace / INSTRUCTIONS),
        "PROTOCOL": PROTOCOL,
    }
    return {f"{VARIABLE}_{name}": value for name, value in values.items()}
