"""Names of files that other programs execute by themselves when a person enters a folder: repositories of version
control, whose settings name programs (`core.fsmonitor`), and files of shells, debuggers, editors and coding agents.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

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
# Not files that they only read (AGENTS.md, CLAUDE.md, GEMINI.md): a run's own instructions have these names.
CODING_AGENTS: Final = frozenset({".claude", ".mcp.json", ".cursor", ".codex", ".gemini", ".opencode"})
NAMES: Final = REPOSITORIES | SHELLS | EDITORS | DEBUGGERS | CODING_AGENTS
HEAD: Final = "HEAD"  # without it git does not take a folder for a repository
BARE: Final = (frozenset({"objects", "refs"}), frozenset({"commondir"}))  # git does, if one of these is beside HEAD
OF_A_REPOSITORY: Final = frozenset({HEAD}).union(*BARE)


def autorun_names(names: Iterable[str]) -> set[str]:
    """Return those of the names in one folder that make a program execute something; for a bare repository, HEAD."""
    present = {name for name in names if name.casefold() in NAMES or name in OF_A_REPOSITORY}
    is_bare = HEAD in present and any(beside <= present for beside in BARE)
    return {name for name in present if name.casefold() in NAMES} | ({HEAD} if is_bare else set())
