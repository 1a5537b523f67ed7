"""Run a module of this package in a child process with limits on CPU time, memory and output.

For reading untrusted files: if they take too much, the child dies and not the judge.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PACKAGE_ROOT: Final = str(Path(__file__).resolve().parents[2])
# Isolated and without site: no code from the environment, the current folder or installed packages runs first.
FLAGS: Final = ("-I", "-S", "-B")
CODE: Final = (
    "import os, sys; sys.path += sys.argv[1].split(os.pathsep); from importlib import import_module; "
    "import_module(sys.argv[2]).main(*sys.argv[3:])"
)
WALL_PER_CPU: Final = 10.0
KILLED_FOR_CPU: Final = (-signal.SIGXCPU, -signal.SIGKILL)
ANSWER_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class ChildAnswer:
    """Output of the child, and how it failed, if it did; then the output is what it had printed before."""

    output: bytes
    failure: str | None


def limit(cpu_s: int, memory: int) -> None:
    """Limit this process, if it has no lower limits yet; a child calls it before anything else."""
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, ANSWER_BYTES),
        (resource.RLIMIT_NOFILE, 64),
    ):
        hard = resource.getrlimit(kind)[1]
        lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (lower, lower))


def run_limited(
    module: str, *arguments: str, cpu_s: int, given: bytes = b"", packages: tuple[str, ...] = ()
) -> ChildAnswer:
    """Call ``main`` of a module in a child, which limits itself to ``cpu_s`` and finds ``given`` on its standard input.
    It can import the standard library, this package, and what is in the folders ``packages``.

    The output goes to a file, because the kernel limits the size of files.
    """
    path = os.pathsep.join((PACKAGE_ROOT, *packages))
    with tempfile.TemporaryFile() as answer:
        try:
            done = subprocess.run(
                [sys.executable, *FLAGS, "-c", CODE, path, module, *arguments],
                input=given,
                stdout=answer,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                timeout=WALL_PER_CPU * cpu_s,
            )
            failure = _describe_exit(done.returncode, cpu_s) if done.returncode else None
        except subprocess.TimeoutExpired:
            failure = f"took more than {WALL_PER_CPU * cpu_s:g} s"
        answer.seek(0)
        return ChildAnswer(answer.read(), failure)


def _describe_exit(code: int, cpu_s: int) -> str:
    if code in KILLED_FOR_CPU:
        return f"took more than {cpu_s} s of CPU time"
    return f"ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
