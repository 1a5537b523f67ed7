"""An agent that repeats an earlier run: the same checkpoints, in the same order, on the same cases.

EVOPOLICYGYM_PLAN names a JSON file: {"submissions": [{"folder": PATH, "cases": [0, 1]}, ...]}, where each folder is a
checkpoint (its files become `system/`) and relative paths are relative to the file.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from .api_client import ApiClient, RunOver


def main() -> int:
    try:
        path = Path(os.environ["EVOPOLICYGYM_PLAN"])
        plan = [(path.parent / entry["folder"], list(entry["cases"])) for entry in _submissions(path)]
    except (KeyError, TypeError, OSError, ValueError) as error:
        print(f"resubmit: EVOPOLICYGYM_PLAN must name a plan that can be read: {error!r}", file=sys.stderr)
        return 2
    return submit_all(ApiClient("resubmit"), plan)


def submit_all(api: ApiClient, plan: list[tuple[Path, list[int]]]) -> int:
    """Submit every checkpoint of the plan; return the exit code."""
    for folder, cases in plan:
        if not folder.is_dir():
            print(f"resubmit: {folder} is not a folder", file=sys.stderr)
            return 2
        replace_system(folder, api.system)
        try:
            reply = api.submit(cases)
        except RunOver as closed:
            print(f"resubmit: {closed}", file=sys.stderr)
            return 1
        print(f"resubmit: {folder.name} is {reply.submit_id}, {reply.status}, {reply.remaining} left", flush=True)
    return 0


def replace_system(checkpoint: Path, system: Path) -> None:
    """Replace ``system`` with a copy of the checkpoint that is writable, unlike the checkpoint itself."""
    for old in system.iterdir():
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    shutil.copytree(checkpoint, system, copy_function=shutil.copyfile, dirs_exist_ok=True)
    for folder, _, names in os.walk(system):
        os.chmod(folder, 0o755)
        for name in names:
            os.chmod(os.path.join(folder, name), 0o644)


def _submissions(path: Path) -> list[dict[str, Any]]:
    submissions: list[dict[str, Any]] = json.loads(path.read_text())["submissions"]
    return submissions


if __name__ == "__main__":
    sys.exit(main())
