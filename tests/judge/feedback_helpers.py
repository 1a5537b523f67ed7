"""Submit to a served run, and read the feedback as an agent does."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from server_helpers import Server


def submit(server: Server, source: str | None = None, cases: Any = (0,), **files: str) -> dict[str, Any]:
    """Submit, and poll until the verdict: a busy machine may need long."""
    server.policy(source, **files)
    code, answer = server.submit(list(cases), wait=False)
    while answer["status"] == "running":
        time.sleep(0.02)
        code, answer = server.call("GET", f"/submissions/{answer['submit_id']}")
    assert code in (200, 202), answer
    summary: dict[str, Any] = answer["summary"]
    return summary


def episode(server: Server, summary: dict[str, Any], number: int = 0) -> Path:
    return server.workspace / summary["feedback"] / "episodes" / f"ep_{number:03}"


def read_strict_json(path: Path) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in {path}")

    return json.loads(path.read_bytes().decode("utf-8", "strict"), parse_constant=refuse)


def remove(path: Path) -> None:
    """Remove whatever is at a path, as its owner."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for parent, _, _ in os.walk(path):
        os.chmod(parent, 0o755)
    shutil.rmtree(path)
