"""Named points at which a test can kill the judge. They do nothing unless the environment names one.

``EVOPOLICYGYM_FAILPOINT=charged`` dies at the first passage, ``charged@3`` at the third.
"""

from __future__ import annotations

import os
import signal
from typing import Final

VARIABLE: Final = "EVOPOLICYGYM_FAILPOINT"
NAMES: Final = (
    "opening",
    "snapshot-taken",
    "ledger-line-torn",
    "ledger-line-unsynced",
    "charged",
    "loaded",
    "episode-played",
    "feedback-staged",
    "feedback-written",
    "judged",
    "feedback-delivered",
    "closed",
    "hidden-episode-played",
    "validated",
    "selected",
    "scored",
    "repeated",
    "first-scored",
    "finished",
    "record-written",
)
_passed: dict[str, int] = {}


def armed(name: str) -> bool:
    """Return whether the process should die at this passage."""
    assert name in NAMES, name
    wanted, _, count = os.environ.get(VARIABLE, "").partition("@")
    if wanted != name:
        return False
    _passed[name] = _passed.get(name, 0) + 1
    return _passed[name] == int(count or 1)


def failpoint(name: str) -> None:
    if armed(name):
        os.kill(os.getpid(), signal.SIGKILL)
