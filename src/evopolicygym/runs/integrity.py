"""The integrity note of a run: signs in what its agent left that a reader should look at, and what was renamed.

What an agent left is hostile input. It is scanned in a limited process (runs/integrity_scan.py) once the run has its
score, and whatever goes wrong there becomes a sentence in the record.
"""

from __future__ import annotations

import json
from typing import Any, Final

from evopolicygym.analysis.limited_process import run_limited
from evopolicygym.run_paths import RunPaths
from evopolicygym.run_record import Integrity
from evopolicygym.runs import integrity_scan

NOT_CHECKED: Final = (
    "commands that the client does not show in its transcript",
    "text in images, archives and compiled files",
    "what the model knew of the task before the run",
)
LONGEST_ERROR: Final = 500


def inspect(paths: RunPaths) -> dict[str, Any]:
    """Return the note. Never raises: a run ends with its outcome, whatever its agent left."""
    try:
        note = _note(paths)
    except Exception as error:
        text = f"could not be inspected: {type(error).__name__}: {error}"
        note = Integrity(signs=[], not_checked=list(NOT_CHECKED), error=text[:LONGEST_ERROR])
    return note.model_dump(mode="json")


def _note(paths: RunPaths) -> Integrity:
    scan = run_limited(integrity_scan.__name__, str(paths.root), cpu_s=integrity_scan.CPU_S)
    complete_lines = scan.output.split(b"\n")[:-1]  # lines that were complete when the process ended
    parts = [Integrity.model_validate(json.loads(line)) for line in complete_lines]
    failure = scan.failure and f"could not be inspected: the process that did it {scan.failure}"
    return Integrity(
        signs=[sign for part in parts for sign in part.signs],
        not_checked=[*NOT_CHECKED, *(text for part in parts for text in part.not_checked)],
        renamed=[name for part in parts for name in part.renamed],
        error=failure,
    )
