"""Run a module of this package in a child process with limits on CPU time, memory and output.

For reading untrusted files: if they take too much, the child dies and not the judge.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evopolicygym.sandbox import kernel

PACKAGE_ROOT: Final = str(Path(__file__).resolve().parents[2])
# Isolated and without site: no code from the environment, the current folder or installed packages runs first.
FLAGS: Final = ("-I", "-S", "-B")
CODE: Final = (
    "import sys; sys.path.append(sys.argv[1]); from importlib import import_module; "
    "import_module(sys.argv[2]).main(*sys.argv[3:])"
)
WALL_PER_CPU: Final = 10.0
ANSWER_BYTES: Final = 16 << 20
JUDGE: Final = "JUDGE_PROCESS"  # a variable with the process that waits for the answer


# By these others end a process: the kernel when memory runs out, or a program that watches over memory.
FROM_OUTSIDE: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


@dataclass(frozen=True)
class ChildAnswer:
    """Output of the child, and how it failed, if it did; then the output is what it had printed before. ``exit_code``
    is that of subprocess, None after a timeout."""

    output: bytes
    failure: str | None
    exit_code: int | None = 0

    @property
    def was_killed(self) -> bool:
        """Whether somebody else ended it."""
        return -(self.exit_code or 0) in FROM_OUTSIDE


def limit(cpu_s: int, memory: int) -> None:
    """Limit this process, if it has no lower limits yet, and let it die before the judge, or with it. A child calls it
    before anything else."""
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != int(os.environ.get(JUDGE, os.getppid())):
        os._exit(1)  # it died before that call
    kernel.prefer_for_oom_kill()
    for kind, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),  # SIGXCPU says that it was the limit; SIGKILL would not
        (resource.RLIMIT_AS, memory, memory),
        (resource.RLIMIT_FSIZE, ANSWER_BYTES, ANSWER_BYTES),
        (resource.RLIMIT_NOFILE, 64, 64),
    ):
        present = resource.getrlimit(kind)[1]
        most = hard if present == resource.RLIM_INFINITY else min(hard, present)
        resource.setrlimit(kind, (min(soft, most), most))


def run_limited(module: str, *arguments: str, cpu_s: int, given: bytes = b"") -> ChildAnswer:
    """Call ``main`` of a module in a child, which limits itself to ``cpu_s`` and finds ``given`` on its standard input.

    The output goes to a file, because the kernel limits the size of files; in memory, because disks are full when an
    agent fills them. A group of its own keeps Ctrl-C from the child: what it reads is complete, or was not read.
    """
    with open(os.memfd_create("answer"), "w+b") as answer:
        try:
            done = subprocess.run(
                [sys.executable, *FLAGS, "-c", CODE, PACKAGE_ROOT, module, *arguments],
                input=given,
                stdout=answer,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={JUDGE: str(os.getpid())},
                timeout=WALL_PER_CPU * cpu_s,
                process_group=0,
            )
            code: int | None = done.returncode
            failure = _describe_exit(done.returncode, cpu_s) if code else None
        except subprocess.TimeoutExpired:
            code, failure = None, f"took more than {WALL_PER_CPU * cpu_s:g} s"
        answer.seek(0)
        return ChildAnswer(answer.read(), failure, code)


def _describe_exit(code: int, cpu_s: int) -> str:
    if code == -signal.SIGXCPU:
        return f"took more than {cpu_s} s of CPU time"
    return f"ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"
