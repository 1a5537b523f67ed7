"""What runs by itself when a person comes to an agent's folder: repositories of version control, whose settings name
programs (`core.fsmonitor`), and files that shells, debuggers and editors execute.

When the agent is gone such an entry gets another name, under which no program looks for it. Its content stays.
"""

from __future__ import annotations

import os
import secrets
import stat
from typing import Final

from evopolicygym.runs.folders import Folder

SUFFIX: Final = ".left-by-agent"
REPOSITORIES: Final = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".fslckout", "_darcs", "_fossil_"})
SHELLS: Final = frozenset({
    ".envrc", ".direnv", ".env", ".autoenv", ".autoenv.zsh", ".autoenv_leave.zsh", ".mise", ".mise.toml", "mise.toml",
    ".mise.local.toml", "mise.local.toml", ".rtx.toml", ".tool-versions", ".flox", ".lando.yml",
})  # fmt: skip
EDITORS: Final = frozenset({
    ".vscode", ".idea", ".fleet", ".zed", ".devcontainer", ".devcontainer.json", ".dir-locals.el", ".dir-locals-2.el",
    ".exrc", ".vimrc", ".lvimrc", ".nvimrc", ".nvim.lua", ".projectile",
})  # fmt: skip
DEBUGGERS: Final = frozenset({".gdbinit", ".lldbinit", ".pdbrc"})
NAMES: Final = REPOSITORIES | SHELLS | EDITORS | DEBUGGERS
HEAD: Final = "HEAD"  # without it git does not take a folder for a repository
BARE: Final = (frozenset({"objects", "refs"}), frozenset({"commondir"}))  # beside HEAD, with which it would
OF_A_REPOSITORY: Final = frozenset({HEAD}).union(*BARE)
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
    listed = filter(os.path.lexists, NAMES | OF_A_REPOSITORY) if folder.is_cut else folder.names
    present = {name for name in listed if name.casefold() in NAMES or name in OF_A_REPOSITORY}
    is_bare = HEAD in present and any(beside <= present for beside in BARE)
    return sorted({name for name in present if name.casefold() in NAMES} | ({HEAD} if is_bare else set()))


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
