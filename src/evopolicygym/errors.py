"""Exceptions, by who is responsible.

``UserError``: the user can fix it; the message says how. ``Fault``: the judge itself failed; a fault is never charged
to an agent and never a verdict. Errors of a policy are results, not exceptions.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from typing import Final

from evopolicygym.printable import escape_unprintable

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})  # the disk is full
SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})  # no descriptors or memory left
TEMPORARY: Final = FULL | SCARCE | {errno.EAGAIN}


class UserError(Exception):
    """An error that the user can fix. Commands print it without a traceback and exit with ``exit_code``. Characters
    that a terminal would obey are escaped: a message can quote a file from another person."""

    exit_code = 2

    def __init__(self, message: str, remedy: str = "") -> None:
        self.message, self.remedy = escape_unprintable(message), escape_unprintable(remedy)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class IsolationUnavailable(UserError):
    """None of the requested isolation levels works on this machine. ``errno``: the system's error number, if any: a
    shortage of memory or processes is temporary, a kernel that refuses a layer is not."""

    exit_code = 3

    def __init__(
        self,
        reasons: Mapping[str, str],
        subject: str = "policies",
        without: str = "--isolation none",
        errno: int | None = None,
    ) -> None:
        self.reasons, self.errno = dict(reasons), errno
        lines = "\n".join(f"  level {level}: {reason}" for level, reason in self.reasons.items())
        super().__init__(
            f"{subject} cannot be isolated on this machine:\n{lines}",
            f"Run `evopolicygym doctor` for the remedy of each layer. `{without}` runs without a jail; its "
            "results are marked as not publishable.",
        )


class RunSuspended(UserError):
    """A run stopped because of something that is not the agent's doing, with budget left. Nothing is lost and nothing
    is scored: once the cause is mended, the run continues. ``reason``: one word, as in the ledger. ``cause``: the last
    error of the agent's client."""

    exit_code = 5

    def __init__(self, reason: str, cause: str, message: str, remedy: str) -> None:
        self.reason, self.cause = reason, cause
        super().__init__(message, remedy)


class Fault(Exception):
    """A failure of the judge itself. ``permanent``: a retry would fail as well (a package that does not import,
    isolation that is gone). Other faults are temporary: a process that was killed, a full disk."""

    exit_code = 4

    def __init__(self, message: str, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


def fault_text(error: Exception) -> str:
    """Describe an error of the judge: a Fault in its own words, any other with its type and the line that raised it,
    since no traceback is kept."""
    if isinstance(error, Fault):
        return str(error)
    origin, trace = "", error.__traceback__
    while trace:
        origin, trace = f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})", trace.tb_next
    return f"{type(error).__name__}: {error}{origin}"


def is_permanent(error: BaseException) -> bool:
    """Return whether a retry would fail with the same error. Its causes are examined as well, because libraries wrap
    failed imports. A shortage of descriptors or memory, which can also break an import, is temporary."""
    chain = list(causes(error))
    if any(isinstance(cause, MemoryError) or getattr(cause, "errno", None) in TEMPORARY for cause in chain):
        return False
    return any(map(_is_permanent_cause, chain))


def _is_permanent_cause(cause: BaseException) -> bool:
    """Return whether a cause alone makes an error permanent. An OSError without a number comes from the dynamic loader:
    a missing shared library."""
    if isinstance(cause, Fault):
        return cause.permanent
    return isinstance(cause, ImportError | UserError) or (type(cause) is OSError and cause.errno is None)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
