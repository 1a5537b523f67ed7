"""Where the parts of a run lie on disk, and how files there come to be: whole, or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evopolicygym.errors import SCARCE


@dataclass(frozen=True)
class Place:
    """The folder of one run. All but ``workspace`` belongs to the judge alone."""

    root: Path

    @property
    def record(self) -> Path:
        return self.root / "run.json"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.jsonl"

    @property
    def config(self) -> Path:
        return self.root / "config.toml"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def feedback(self) -> Path:
        return self.root / "feedback"

    @property
    def hidden(self) -> Path:
        return self.root / "hidden"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def system(self) -> Path:
        return self.workspace / "system"

    def make(self) -> None:
        """Owner only: on a shared machine, hidden results are nobody else's business."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.make_own()
        for folder in (self.workspace, self.system):
            folder.mkdir(mode=0o755, exist_ok=True)

    def make_own(self) -> None:
        """The judge's folders. A run may come from something that keeps no empty ones, such as git."""
        for folder in (self.checkpoints, self.feedback, self.hidden, self.logs):
            folder.mkdir(mode=0o755, exist_ok=True)


def is_scarcity(error: BaseException | None) -> bool:
    """Whether the judge was short of something when it opened a file: that says nothing about the file."""
    return isinstance(error, OSError) and error.errno in SCARCE


def write_whole(path: Path, data: bytes) -> None:
    """Readers see the old file or the new one, never a part."""
    try:
        _write_staged(path, data)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # not the name that it was to have for a moment
        raise


def _write_staged(path: Path, data: bytes) -> None:
    descriptor, staged = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(staged, path)
    except BaseException:
        os.unlink(staged)
        raise


def write_json(path: Path, facts: Any) -> None:
    write_whole(path, json.dumps(facts, indent=1, allow_nan=False).encode() + b"\n")


def sync_tree(folder: Path) -> None:
    """Files, then folders from the inside out: after this, losing power loses none of it."""
    for parent, _, names in os.walk(folder, topdown=False):
        for path in (*(os.path.join(parent, name) for name in names), parent):
            sync(path)


def sync(path: str | Path) -> None:
    """One file; or one folder, which is to say the names in it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
