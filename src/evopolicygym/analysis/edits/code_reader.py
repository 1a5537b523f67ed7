"""Read facts about a checkpoint's source in a limited child process, so that hostile source cannot harm the judge."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from evopolicygym.analysis.edits.bundle import MAX_CHECKPOINT_BYTES, hash_files
from evopolicygym.analysis.edits.code_reader_child import CPU_S
from evopolicygym.analysis.limited_process import run_limited
from evopolicygym.files import file_digests, list_files
from evopolicygym.run_record import Code

MAX_FILES: Final = 4_000  # as of a checkpoint
MAX_DEPTH: Final = 16
MAX_FAILURES: Final = 8


class SourceReader:
    """Reads the code of the checkpoints of one run. Source that makes the reader fail may take all of its CPU time:
    after ``MAX_FAILURES`` such checkpoints, the others are not parsed."""

    def __init__(self) -> None:
        self._failures = 0

    def read(self, folder: Path) -> Code:
        """Return the facts about a checkpoint's code. Never raises for the folder's content."""
        if self._failures >= MAX_FAILURES:
            return _without_parsing(folder, f"not read, because reading {MAX_FAILURES} others of the run failed")
        child = run_limited("evopolicygym.analysis.edits.code_reader_child", os.path.abspath(folder), cpu_s=CPU_S)
        reason = f"reading it {child.failure}" if child.failure else "the reader's answer makes no sense"
        try:
            if not child.failure:
                return Code.model_validate_json(child.output)
        except ValueError:
            pass
        self._failures += 1
        return _without_parsing(folder, reason)


def code_facts(folder: Path) -> Code:
    """Return the facts about the code of one checkpoint."""
    return SourceReader().read(folder)


def _without_parsing(folder: Path, reason: str) -> Code:
    """Return facts without parsing: every Python file counts as part of the bundle, and there is no tree."""
    read = file_digests(folder, _sources(folder), MAX_CHECKPOINT_BYTES)
    digests = {path: digest or "unreadable" for path, digest in read.items()}
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
