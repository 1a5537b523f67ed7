"""Forge the ledger and the record of a run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from evopolicygym.judge.ledger import read
from evopolicygym.judge.state import fold
from evopolicygym.runs import record
from evopolicygym.tasks.ids import comparable_id


def forge(source: Path, folder: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """Copy a run and change its recorded facts and fingerprint; ids, hashes and run.json are made to agree."""
    shutil.copytree(source, folder)
    for parent, _, names in os.walk(folder):
        for name in (".", *names):
            os.chmod(Path(parent, name), 0o755)
    lines = [json.loads(line) for line in (folder / "ledger.jsonl").read_bytes().splitlines()]
    lines[0]["data"]["settings"] = hashlib.sha256((folder / "config.toml").read_bytes()).hexdigest()
    facts = lines[0]["data"]["facts"]
    change(facts, facts["ids"]["fingerprint"])
    facts["ids"]["comparable_id"] = comparable_id(facts["ids"]["fingerprint"])
    previous = _write_chain(folder / "ledger.jsonl", lines)
    derived = record.derive(fold(line for line, _ in read(folder / "ledger.jsonl")), previous)
    (folder / "run.json").write_text(derived.model_dump_json())
    return folder


def move_back_in_time(run: Path, seconds: float) -> None:
    """Make a run look as if it had been played so much earlier."""
    lines = [json.loads(line) for line in (run / "ledger.jsonl").read_bytes().splitlines()]
    earlier = timedelta(seconds=seconds)
    _write_chain(
        run / "ledger.jsonl",
        [line | {"time": (datetime.fromisoformat(line["time"]) - earlier).isoformat()} for line in lines],
    )


def _write_chain(ledger: Path, lines: list[dict[str, Any]]) -> str:
    """Write lines with hashes that agree, and return the last hash."""
    previous, written = "0" * 64, b""
    for line in lines:
        raw = json.dumps(line | {"previous": previous}, separators=(",", ":")).encode()
        previous, written = hashlib.sha256(raw).hexdigest(), written + raw + b"\n"
    ledger.write_bytes(written)
    return previous
