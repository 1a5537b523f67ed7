"""What can go wrong, by whose doing.

``UserError``: the person at the keyboard can mend it; the message says how. ``Fault``: the judge itself failed; it is
never charged to an agent and never a verdict. What a policy does wrong is not an exception here but a result.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})  # numbers of the errors of a disk that has no room


class UserError(Exception):
    """Says what happened and what to do. Commands print it without a traceback and exit with ``exit_code``."""

    exit_code = 2

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class IsolationUnavailable(UserError):
    """No level of isolation that was asked for holds on this machine."""

    exit_code = 3

    def __init__(self, reasons: Mapping[str, str], who: str = "policies", without: str = "--isolation none") -> None:
        self.reasons = dict(reasons)
        lines = "\n".join(f"  level {level}: {reason}" for level, reason in self.reasons.items())
        super().__init__(
            f"{who} cannot be isolated on this machine:\n{lines}",
            f"Run `evopolicygym doctor` for the remedy of each layer. `{without}` runs without a jail; its "
            "results are marked as not publishable.",
        )


class Fault(Exception):
    """A failure of the judge itself."""

    exit_code = 4
