"""The corpus: every hostile policy of `policies/`, with what must become of it.

Each file has a docstring (what it tries, and why that would matter), a function `attack() -> bool` (True: it achieved
its aim) and, where they differ from the default, these constants:

WHEN       "act"     called in the first `act`; or "import", "init", "reset", "every act"
EXPECT     "held"    in the jail the policy plays to the end and attack() was False; or the error kind of the forfeit;
                     or a tuple when several are acceptable
CONTROL    "breach"  without a jail attack() is True; or "same" (limits or the exchange stop it, not the jail), or an
                     error kind; or "judge" (run inside a judge process, where the secret is, it finds it: no policy
                     process ever holds it), or "none: " and why no control can exist
RESIDUE    ()        levels at which it can succeed, as the docstring explains
EPISODES   1         how many episodes it plays, one after another; one breach counts
ROOT       False     whether the control needs root: for others the host itself refuses (or Yama, on some hosts)
MACHINE    any       the only machine it is written for
"""

from __future__ import annotations

import ast
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from evopolicygym.sandbox.policy.jail import Level

HERE = Path(__file__).parent
DEFAULTS: dict[str, Any] = {
    "EXPECT": "held", "CONTROL": "breach", "RESIDUE": (), "EPISODES": 1, "ROOT": False, "MACHINE": platform.machine()
}  # fmt: skip


@dataclass(frozen=True)
class Attack:
    """One hostile policy and what must become of it."""

    name: str
    path: Path
    why: str
    expect: tuple[str, ...]
    control: tuple[str, ...]
    residue: tuple[str, ...]
    episodes: int
    root: bool
    machine: str

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the constants of the file without importing it: it is hostile."""
        tree = ast.parse(path.read_text())
        constants = DEFAULTS | {name: value for node in tree.body for name, value in _constant(node)}
        expect = _several(constants["EXPECT"])
        return cls(
            name=path.stem,
            path=path,
            why=ast.get_docstring(tree) or "",
            expect=expect,
            control=expect if constants["CONTROL"] == "same" else _several(constants["CONTROL"]),
            residue=constants["RESIDUE"],
            episodes=constants["EPISODES"],
            root=constants["ROOT"],
            machine=constants["MACHINE"],
        )

    @property
    def meets_the_jail(self) -> bool:
        """Whether a layer of the jail stops it, so that it should be seen at every version of that layer."""
        return self.control != self.expect

    @property
    def can_be_shown(self) -> bool:
        """Whether this user can see it succeed without a jail."""
        in_a_process = self.control != ("judge",) and not self.control[0].startswith("none: ")
        return in_a_process and (os.geteuid() == 0 or not self.root)

    def acceptable(self, level: Level) -> tuple[str, ...]:
        if level is Level.NONE:
            return self.control
        return ("breach", *self.expect) if level in self.residue else self.expect


def corpus() -> list[Attack]:
    attacks = [Attack.read(path) for path in sorted((HERE / "policies").glob("*.py"))]
    return [attack for attack in attacks if attack.machine == platform.machine()]


def _constant(node: ast.stmt) -> list[tuple[str, Any]]:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in DEFAULTS:
        return [(node.targets[0].id, ast.literal_eval(node.value))]
    return []


def _several(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value
