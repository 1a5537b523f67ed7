"""Read facts about a checkpoint's source in a limited child process, so that hostile source cannot harm the judge."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from evopolicygym.analysis.edits.bundle import MAX_FILE_BYTES, hash_files
from evopolicygym.analysis.edits.code_reader_child import CPU_S
from evopolicygym.analysis.limited_process import run_limited
from evopolicygym.files import list_files, read_file
from evopolicygym.run_record import Code

MAX_FILES: Final = 4_000  # as of a checkpoint
MAX_DEPTH: Final = 16


def code_facts(folder: Path) -> Code:
    """Return the facts about a checkpoint's code. Never raises for the folder's content."""
    child = run_limited("evopolicygym.analysis.edits.code_reader_child", os.path.abspath(folder), cpu_s=CPU_S)
    if child.failure:
        return _without_parsing(folder, f"reading it {child.failure}")
    try:
        return Code.model_validate_json(child.output)
    except ValueError:
        return _without_parsing(folder, "the reader's answer makes no sense")


def _without_parsing(folder: Path, reason: str) -> Code:
    """Return facts without parsing: every Python file counts as part of the bundle, and there is no tree."""
    digests = {path: _digest(folder, path) for path in _sources(folder)}
    nothing = {"lines": 0, "functions": 0, "branches": 0, "loops": 0, "depth": 0, "state": 0}
    return Code(
        bundle=list(digests),
        bundle_hash=hash_files(digests),
        tree=None,
        topology=None,
        unresolved=[],
        error=reason,
        **nothing,
    )


def _sources(folder: Path) -> list[str]:
    try:
        return [path for path in list_files(folder, "", MAX_FILES, MAX_DEPTH) if path.endswith(".py")]
    except OSError:  # more files than a checkpoint can hold
        return []


def _digest(folder: Path, path: str) -> str:
    try:
        return hashlib.sha256(read_file(folder, path, MAX_FILE_BYTES)).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"
