"""Inside the limited process: make inert what an agent left, then look for signs in it, and print both as JSON.

Each part is one line, printed when it is done: what ends this process then costs the other part alone. Standard library
only.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from evopolicygym.analysis.limited_process import limit
from evopolicygym.runs.folders import Walk
from evopolicygym.runs.planted import Disarmed
from evopolicygym.runs.signs import SignCounter

CPU_S: Final = 60
MEMORY: Final = 1 << 30
TRANSCRIPTS: Final = "logs/agent"
WORKSPACE: Final = "workspace"
OF_THE_AGENT: Final = (WORKSPACE, "agent/home", "agent/tmp")


def main(root: str) -> None:
    limit(CPU_S, MEMORY)
    print(json.dumps(disarm(Path(root))), flush=True)
    print(json.dumps(look(Path(root))), flush=True)


def disarm(root: Path) -> dict[str, Any]:
    """The part of ``records.run.Integrity`` that tells what was renamed, and what could not be."""
    walk, disarmed = Walk(), Disarmed()
    for name in OF_THE_AGENT:
        for folder in walk.below(root / name, name):
            disarmed.rename_in(folder)
    return {"signs": [], "renamed": disarmed.names(), "not_checked": [*disarmed.failures(), *_unseen(walk)]}


def look(root: Path) -> dict[str, Any]:
    """The part that tells of signs, of the beginnings of transcripts and of the workspace's files."""
    walk, signs = Walk(), SignCounter()
    for name in (TRANSCRIPTS, WORKSPACE):
        signs.begin()
        for folder in walk.below(root / name, name):
            signs.look_in(folder)
    return {"signs": [asdict(sign) for sign in signs.found()], "not_checked": signs.unread()}


def _unseen(walk: Walk) -> list[str]:
    closed = f"{walk.closed} folders that cannot be entered" if walk.closed else ""
    cut = f"entries of the agent's folders beyond the first {walk.entries}" if walk.is_cut else ""
    return [f"{text}: run no program there that looks for its own files, such as git" for text in (closed, cut) if text]
