"""What an agent leaves that runs by itself when a person comes to its folder (``sandbox.autorun``).

When the agent is gone such an entry gets another name, under which no program looks for it. Its content stays.
"""

from __future__ import annotations

import os
import secrets
import stat
from typing import Final

from evopolicygym.runs.folders import Folder
from evopolicygym.sandbox.autorun import NAMES, OF_A_REPOSITORY, found_in

SUFFIX: Final = ".left-by-agent"
NAMED: Final = 50


class Disarmed:
    """What was renamed, and what could not be."""

    def __init__(self) -> None:
        self._renamed, self._count = list[str](), 0
        self._failed, self._failures = "", 0

    def rename_in(self, folder: Folder) -> None:
        """In the current folder of this process."""
        for name in _dangerous(folder):
            target = _free(name + SUFFIX)
            try:
                _rename(name, target)
            except OSError as error:
                self._failures += 1
                self._failed = self._failed or f"{folder.path(name)}: {error.strerror}"
            else:
                folder.folders = [target if entry == name else entry for entry in folder.folders]
                self._count += 1
                self._renamed += [folder.path(name)] if self._count <= NAMED else []

    def names(self) -> list[str]:
        return [*self._renamed, *([f"and {self._count - NAMED} more"] if self._count > NAMED else [])]

    def failures(self) -> list[str]:
        if not self._failures:
            return []
        return [f"{self._failures} entries that could not be renamed (first: {self._failed}): run no git there"]


def _dangerous(folder: Folder) -> list[str]:
    """A folder that is not listed whole is asked for each name."""
    return sorted(found_in(filter(os.path.lexists, NAMES | OF_A_REPOSITORY) if folder.is_cut else folder.names))


def _free(name: str) -> str:
    return f"{name}-{secrets.token_hex(4)}" if os.path.lexists(name) else name


def _rename(name: str, target: str) -> None:
    try:
        os.rename(name, target)
    except PermissionError:  # its folder can be read and not written to
        mode = stat.S_IMODE(os.stat(".").st_mode)
        os.chmod(".", mode | stat.S_IRWXU)
        os.rename(name, target)
        os.chmod(".", mode)
