"""What a checkpoint's source looks like, read in a limited child process: hostile source is data, never our crash."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from evopolicygym.analysis.code_child import CPU_S
from evopolicygym.analysis.source import MAX_FILE_BYTES, hash_files
from evopolicygym.files import list_files, read_file
from evopolicygym.records.run import Code

HARNESS: Final = str(Path(__file__).resolve().parents[2])
# Isolated and without site: nothing from the environment, the current folder or installed packages runs before ours.
FLAGS: Final = ("-I", "-S", "-B")
CHILD: Final = (
    "import sys; sys.path.append(sys.argv[1]); from evopolicygym.analysis.code_child import main; main(sys.argv[2])"
)
MAX_FILES: Final = 4_000  # as of a checkpoint
MAX_DEPTH: Final = 16
WALL_S: Final = 10.0 * CPU_S
KILLED_FOR_CPU: Final = (-signal.SIGXCPU, -signal.SIGKILL)


class _Unreadable(Exception):
    """The child did not live to tell, and why."""


def code_facts(folder: Path) -> Code:
    """Of a checkpoint's folder. Never raises for what the folder holds."""
    try:
        return Code.model_validate_json(_child(folder))
    except _Unreadable as error:
        return _by_bytes(folder, str(error))
    except ValueError:
        return _by_bytes(folder, "the reader's answer makes no sense")


def _child(folder: Path) -> bytes:
    """Its answer goes to a file, whose size the kernel limits."""
    with tempfile.TemporaryFile() as answer:
        try:
            done = subprocess.run(
                [sys.executable, *FLAGS, "-c", CHILD, HARNESS, os.path.abspath(folder)],
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                timeout=WALL_S,
            )
        except subprocess.TimeoutExpired:
            raise _Unreadable(f"reading it took more than {WALL_S:g} s") from None
        if done.returncode:
            raise _Unreadable(_death(done.returncode))
        answer.seek(0)
        return answer.read()


def _death(code: int) -> str:
    if code in KILLED_FOR_CPU:
        return f"reading it took more than {CPU_S} s of CPU time"
    return f"reading it ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"


def _by_bytes(folder: Path, why: str) -> Code:
    """What is left to say without parsing: every Python file counts as the bundle, and there is no tree."""
    digests = {path: _digest(folder, path) for path in _sources(folder)}
    nothing = {"lines": 0, "functions": 0, "branches": 0, "loops": 0, "depth": 0, "state": 0}
    return Code(
        bundle=list(digests),
        bundle_hash=hash_files(digests),
        tree=None,
        topology=None,
        unresolved=[],
        error=why,
        **nothing,
    )


def _sources(folder: Path) -> list[str]:
    try:
        return [path for path in list_files(folder, "", MAX_FILES, MAX_DEPTH) if path.endswith(".py")]
    except OSError:  # more than any checkpoint holds
        return []


def _digest(folder: Path, path: str) -> str:
    try:
        return hashlib.sha256(read_file(folder, path, MAX_FILE_BYTES)).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"
