"""Run folders that are valid and made to cost their reader as much as possible."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conftest import TESTS

EXAMPLE = TESTS.parent / "examples" / "runs" / "acrobot__tuner__s0"


def copy_example(folder: Path) -> Path:
    """Copy a shipped run, and make all of it writable."""
    shutil.copytree(EXAMPLE, folder)
    for parent, _, names in os.walk(folder):
        for name in (".", *names):
            os.chmod(Path(parent, name), 0o755)
    return folder


def read_record(run: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((run / "run.json").read_text())
    return record


def write_record(run: Path, record: dict[str, Any]) -> None:
    (run / "run.json").write_text(json.dumps(record, separators=(",", ":")))


def with_submissions(run: Path, checkpoints: list[str], number: int) -> Path:
    """Make the record name ``number`` submissions of one episode, with the checkpoints in turn."""
    record = read_record(run)
    made, shape = dict(record["submissions"][0]), record["checkpoints"][0]
    made |= {"cases": [0], "charged": 1, "verdict": "ok", "refunded": False}
    made["train"] = {"returns": [1.0], "lengths": [1], "errors": [None], "mean": 1.0, "std": 0.0}
    record["submissions"] = [
        made | {"number": index + 1, "checkpoint": checkpoints[index % len(checkpoints)]} for index in range(number)
    ]
    record["checkpoints"] = [shape | {"hash": name, "code": None, "heldout": None} for name in checkpoints]
    outcome = record["outcome"]
    outcome |= {"submission": 1, "checkpoint": checkpoints[0], "validation_mean": shape["validation"]["mean"]}
    record["budget"] |= {"charged": number, "remaining": record["budget"]["total"] - number}
    record["turns"] = []
    write_record(run, record)
    return run


def store(run: Path, files: dict[str, bytes]) -> str:
    """Add a checkpoint under some hash, and return the hash."""
    name = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    for path, content in files.items():
        (run / "checkpoints" / name / path).parent.mkdir(parents=True, exist_ok=True)
        (run / "checkpoints" / name / path).write_bytes(content)
    return name


def append_lines(run: Path, events: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Add events to the ledger before its end, with a chain that holds."""
    lines = [json.loads(line) for line in (run / "ledger.jsonl").read_bytes().splitlines()]
    added = [lines[0] | {"kind": kind, "data": data} for kind, data in events]
    previous, written = "0" * 64, []
    for number, line in enumerate([*lines[:2], *added, *lines[2:]]):
        raw = json.dumps(line | {"sequence": number, "previous": previous}, separators=(",", ":")).encode()
        previous = hashlib.sha256(raw).hexdigest()
        written.append(raw + b"\n")
    (run / "ledger.jsonl").write_bytes(b"".join(written))
