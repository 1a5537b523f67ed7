"""Start built-in agents as a run starts them: as a module of the folder of agents, in the workspace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import evopolicygym
from server_helpers import Server

AGENTS = Path(evopolicygym.__file__).parent / "agents"


def start_builtin(
    server: Server, name: str, seed: int = 0, options: Sequence[str] = (), **variables: str
) -> subprocess.Popen[str]:
    variables_of_run = {"EVOPOLICYGYM_API": server.api, "EVOPOLICYGYM_WORKSPACE": str(server.workspace)}
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(AGENTS), "EVOPOLICYGYM_SEED": str(seed)}
    environment["OPENBLAS_NUM_THREADS"] = "1"  # as the client files of learners have it
    return subprocess.Popen(
        [sys.executable, "-m", f"builtin.{name}", *options],
        cwd=server.workspace,
        env=environment | variables_of_run | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def play_builtin(
    server: Server, name: str, seed: int = 0, options: Sequence[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    process = start_builtin(server, name, seed, options, **variables)
    _, errors = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, "", errors)
