"""The integrity note of a run: what its agent left that a reader should look at, and what of it was made inert.

All of it is hostile input. It is read in a limited process, once the run has its score, and whatever happens there is a
sentence in the record.
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
    """The note. Never raises: a run ends with its outcome, whatever its agent left."""
    try:
        note = _note(paths)
    except Exception as error:
        why = f"could not be inspected: {type(error).__name__}: {error}"
        note = Integrity(signs=[], not_checked=list(NOT_CHECKED), error=why[:LONGEST_ERROR])
    return note.model_dump(mode="json")


def _note(paths: RunPaths) -> Integrity:
    answer = run_limited(integrity_scan.__name__, str(paths.root), cpu_s=integrity_scan.CPU_S)
    whole = answer.output.split(b"\n")[:-1]  # what was printed before the process came to its end
    parts = [Integrity.model_validate(json.loads(line)) for line in whole]
    failure = answer.failure and f"could not be inspected: the process that did it {answer.failure}"
    return Integrity(
        signs=[sign for part in parts for sign in part.signs],
        not_checked=[*NOT_CHECKED, *(text for part in parts for text in part.not_checked)],
        renamed=[name for part in parts for name in part.renamed],
        error=failure,
    )
