"""What can go wrong, by whose doing.

``UserError``: the person at the keyboard can mend it; the message says how. ``Fault``: the judge itself failed; it is
never charged to an agent and never a verdict. What a policy does wrong is not an exception here but a result.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from typing import Final

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})  # numbers of the errors of a disk that has no room
SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})  # of a want of descriptors or memory
PASSING: Final = FULL | SCARCE | {errno.EAGAIN}


class UserError(Exception):
    """Says what happened and what to do. Commands print it without a traceback and exit with ``exit_code``."""

    exit_code = 2

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message, self.remedy = message, remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class IsolationUnavailable(UserError):
    """No level of isolation that was asked for holds on this machine. ``errno`` is the system's number for the reason,
    if there is one: a shortage of memory or processes passes, a kernel that refuses a layer does not."""

    exit_code = 3

    def __init__(
        self,
        reasons: Mapping[str, str],
        who: str = "policies",
        without: str = "--isolation none",
        errno: int | None = None,
    ) -> None:
        self.reasons, self.errno = dict(reasons), errno
        lines = "\n".join(f"  level {level}: {reason}" for level, reason in self.reasons.items())
        super().__init__(
            f"{who} cannot be isolated on this machine:\n{lines}",
            f"Run `evopolicygym doctor` for the remedy of each layer. `{without}` runs without a jail; its "
            "results are marked as not publishable.",
        )


class Fault(Exception):
    """A failure of the judge itself. A ``permanent`` one comes again however often the same is tried: a package that
    does not import, isolation that is gone. Others may pass: a process that was killed, a full disk."""

    exit_code = 4

    def __init__(self, message: str, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


def is_permanent(error: BaseException) -> bool:
    """Whether an error, or one that it was raised from, comes again however often the same is tried. Libraries wrap a
    failed import in errors of their own. A want of descriptors or memory, which can fail an import too, passes."""
    chain = list(_chain(error))
    if any(isinstance(cause, MemoryError) or getattr(cause, "errno", None) in PASSING for cause in chain):
        return False
    return any(map(_is_for_good, chain))


def _is_for_good(cause: BaseException) -> bool:
    """The dynamic loader's error for a missing shared library has no number; those of the kernel have."""
    if isinstance(cause, Fault):
        return cause.permanent
    return isinstance(cause, ImportError | UserError) or (type(cause) is OSError and cause.errno is None)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
