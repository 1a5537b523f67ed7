"""Start `submit.py` in the workspace of a served run, and tidy up between tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from server_helpers import Server


def fresh(server: Server) -> Iterator[Server]:
    """Yield the server with a good policy; afterwards, remove what a test left in the workspace."""
    server.policy()
    door = (server.workspace / "door.json").read_bytes()
    yield server
    for name in (".pending.json", "door.json"):
        path = server.workspace / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (server.workspace / "door.json").write_bytes(door)


def start(server: Server, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    script = [sys.executable, str(server.workspace / "submit.py"), *arguments]
    return subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def pending(server: Server) -> Path:
    """Return the file that holds a submission which is not answered yet."""
    return server.workspace / ".pending.json"


def plain(done: subprocess.CompletedProcess[str]) -> bool:
    return "Traceback" not in done.stdout + done.stderr
