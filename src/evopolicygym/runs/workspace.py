"""The workspace of a run: everything that its agent sees.

AGENTS.md (the rules and the task), submit.py (the client of the API) with check_policy.py, door.json (the API's
address), `system/` with a starter policy, and files that point other clients to AGENTS.md."""

from __future__ import annotations

import io
import json
import logging
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np

from evopolicygym.execution.recording import ARRAYS_FILE
from evopolicygym.execution.records import Episode, Recording
from evopolicygym.files import write_atomic
from evopolicygym.judge import delivery
from evopolicygym.judge.judge import Judge
from evopolicygym.run_paths import RunPaths
from evopolicygym.runs.instructions import render_instructions
from evopolicygym.runs.settings import RunSettings
from evopolicygym.sandbox.checkpoints import remove_tree
from evopolicygym.tasks.contract import starter
from evopolicygym.tasks.spaces import Schema
from evopolicygym.tasks.splits import Split

CLIENT: Final = {"submit.py": "client.py", "check_policy.py": "client_check.py"}
DOOR: Final = "door.json"
INSTRUCTIONS: Final = "AGENTS.md"
FIRST_OBSERVATION: Final = "first_observation.npz"
VARIABLE: Final = "EVOPOLICYGYM"
log = logging.getLogger(__name__)

PROBE: Final = """\
class Policy:
    def __init__(self, obs_space, action_space, env_meta): pass
    def reset(self, episode_index): pass
    def act(self, obs): raise RuntimeError("the first observation is all that is wanted")
"""
POINTERS: Final = {  # for clients that do not look for AGENTS.md: `@` includes it, and the model has it once
    "CLAUDE.md": "@AGENTS.md\n",
    "GEMINI.md": "@AGENTS.md\n",
}


def make_workspace(paths: RunPaths, settings: RunSettings, task_text: str, obs_space: Schema, actions: Schema) -> None:
    """Write the workspace of a new run. Temporary files that a killed process left in ``system`` are deleted: they
    would be part of the agent's policy."""
    for leftover in paths.system.glob(".policy.py-*"):
        leftover.unlink()
    write_atomic(paths.workspace / INSTRUCTIONS, render_instructions(settings, task_text, obs_space).encode())
    for name, pointer in POINTERS.items():
        write_atomic(paths.workspace / name, pointer.encode())
    for name, source in CLIENT.items():
        write_atomic(paths.workspace / name, files("evopolicygym.server").joinpath(source).read_bytes())
    write_atomic(paths.system / "policy.py", starter(actions).encode())


def write_first_observation(judge: Judge) -> None:
    """Write the first observation of train case 0, as a policy sees it: before there is feedback, `submit.py --check`
    asks the policy for an action on it.

    The observation comes from an episode that ends at the first action, so it costs nothing. It is left out if that
    episode cannot be played: the agent's first submission will say why."""
    engine, case = judge.context.engine, judge.cases(Split.TRAIN, [0])[0]
    with tempfile.TemporaryDirectory() as scratch:
        policy, recording = Path(scratch, "policy"), Path(scratch, "episode")
        policy.mkdir()
        (policy / "policy.py").write_text(PROBE)
        checkpoint = engine.store.snapshot(policy)
        for _ in engine.run([Episode(0, checkpoint, case, Recording(str(recording)))]):
            pass
        remove_tree(engine.store.root / checkpoint.hash)
        try:
            with np.load(recording / ARRAYS_FILE, allow_pickle=False) as arrays:
                observation = {name: arrays[name] for name in arrays.files if name.startswith("obs")}
        except (OSError, ValueError) as error:
            log.warning("the first observation is not shown: %s", error)
            return
    file = io.BytesIO()
    np.savez_compressed(file, **observation)
    write_atomic(judge.paths.workspace / FIRST_OBSERVATION, file.getvalue())


def write_api_address(paths: RunPaths, api: str) -> None:
    """Write the API's address, which may change when the run is resumed."""
    _write_door_file(paths, {"api": api})


def write_closed(paths: RunPaths) -> None:
    """Write that the API is closed for good, so that clients stop waiting."""
    _write_door_file(paths, {"closed": True})


def _write_door_file(paths: RunPaths, content: dict[str, Any]) -> None:
    """Write door.json. If the agent has made its workspace unwritable, log that and continue."""
    try:
        delivery.replace_file(paths.workspace, DOOR, json.dumps(content).encode() + b"\n")
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
        "FEEDBACK": str(paths.workspace / delivery.FOLDER),
        "AGENTS": str(paths.workspace / INSTRUCTIONS),
        "PROTOCOL": PROTOCOL,
    }
    return {f"{VARIABLE}_{name}": value for name, value in values.items()}
