"""Read facts about a checkpoint's source in a limited child process, so that hostile source cannot harm the judge."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from evopolicygym.analysis.edits.bundle import MAX_CHECKPOINT_BYTES, MAX_SOURCE_BYTES, hash_files
from evopolicygym.analysis.edits.code_reader_child import CPU_S
from evopolicygym.files import file_digests, list_files
from evopolicygym.run_record import Code
from evopolicygym.sandbox.limited_process import run_limited

MAX_FILES: Final = 4_000  # as of a checkpoint
MAX_DEPTH: Final = 16
MAX_FAILURES: Final = 8
MAX_SECONDS: Final = 300.0
MAX_HASHED_BYTES: Final = 1 << 30


class SourceReader:
    """Reads the code of the checkpoints of one run. Source that makes the reader fail may take all of its CPU time:
    after ``MAX_FAILURES`` such checkpoints, or ``MAX_SECONDS`` of reading, the others are not parsed. Files that are
    not parsed are hashed, ``MAX_HASHED_BYTES`` of a run. Checkpoints with the same source are parsed once: a search
    submits a hundred that differ in their weights, and each child process takes 0.1 s of CPU time."""

    def __init__(self) -> None:
        self._parsed_before: dict[str, Code] = {}
        self._failures = 0
        self._seconds = 0.0
        self._bytes = MAX_HASHED_BYTES

    def read(self, folder: Path) -> Code:
        """Return the facts about a checkpoint's code. Never raises for the folder's content."""
        if self._failures >= MAX_FAILURES:
            return self._unparsed(folder, f"not read, because reading {MAX_FAILURES} others of the run failed")
        if self._seconds >= MAX_SECONDS:
            return self._unparsed(folder, f"not read, because reading others of the run took {MAX_SECONDS:.0f} s")
        began = time.monotonic()
        try:
            return self._parsed(folder)
        finally:
            self._seconds += time.monotonic() - began

    def _parsed(self, folder: Path) -> Code:
        source = _source_hash(folder)
        if source in self._parsed_before:
            return self._parsed_before[source]
        child = run_limited("evopolicygym.analysis.edits.code_reader_child", os.path.abspath(folder), cpu_s=CPU_S)
        reason = f"reading it {child.failure}" if child.failure else "the reader's answer makes no sense"
        try:
            if not child.failure:
                code = Code.model_validate_json(child.output)
                if source:
                    self._parsed_before[source] = code
                return code
        except ValueError:
            pass
        self._failures += 1
        return self._unparsed(folder, reason)

    def _unparsed(self, folder: Path, reason: str) -> Code:
        """Return facts without parsing: every Python file counts as part of the bundle, and there is no tree."""
        at_most = min(self._bytes, MAX_CHECKPOINT_BYTES)
        read = file_digests(folder, _sources(folder), at_most)
        self._bytes -= at_most if None in read.values() else _size(folder, list(read))
        # What was not read is equal to nothing else: two such checkpoints must not look like one source.
        digests = {path: digest or f"unreadable in {folder.name}" for path, digest in read.items()}
        return _unparsed_code(digests, reason)


def code_facts(folder: Path) -> Code:
    """Return the facts about the code of one checkpoint."""
    return SourceReader().read(folder)


def _unparsed_code(digests: dict[str, str], reason: str) -> Code:
    nothing = {"lines": 0, "functions": 0, "branches": 0, "loops": 0, "depth": 0, "state": 0}
    return Code(
        bundle=[path.encode(errors="backslashreplace").decode() for path in digests],
        bundle_hash=hash_files(digests),
        tree=None,
        topology=None,
        unresolved=[],
        error=reason,
        **nothing,
    )


def _source_hash(folder: Path) -> str:
    """Return the hash of all Python files of a checkpoint, on which its facts depend; empty if they are large, or one
    cannot be read."""
    digests = file_digests(folder, _sources(folder), MAX_SOURCE_BYTES)
    hashes = {path: digest for path, digest in digests.items() if digest is not None}
    return hash_files(hashes) if digests and len(hashes) == len(digests) else ""


def _sources(folder: Path) -> list[str]:
    try:
        return [path for path in list_files(folder, "", MAX_FILES, MAX_DEPTH) if path.endswith(".py")]
    except OSError:  # more files than a checkpoint can hold
        return []


def _size(folder: Path, paths: list[str]) -> int:
    """Return the bytes of files that were read before."""
    sizes = 0
    for path in paths:
        with suppress(OSError):
            sizes += os.lstat(folder / path).st_size
    return sizes
