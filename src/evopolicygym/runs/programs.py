"""Programs of the user's own (`--agent command`): which files of theirs the agent must see to run them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from evopolicygym.errors import UserError
from evopolicygym.runs.footprint import SYSTEM
from evopolicygym.sandbox.agent.cell import DEFAULT_PATH

OF_THE_WORKSPACE: Final = "submit.py"
OWN_PYTHON: Final = ("python", "python3")


def settled(argv: Sequence[str]) -> list[str]:
    """With whole paths, so that it means the same in the workspace and after a resume: of the program, where it is a
    path, and of a script that is named after its interpreter. Raises UserError when there is no such program."""
    if not argv:
        return []
    program, *rest = argv
    if "/" in program:
        return [_program(program), *rest]
    if program not in OWN_PYTHON and shutil.which(program, path=DEFAULT_PATH) is None:
        elsewhere = shutil.which(program)
        hint = f"Name it by its path: {elsewhere}" if elsewhere else "Is it installed?"
        raise UserError(f"the agent would not find {program}: its PATH is {DEFAULT_PATH}", hint)
    is_script = bool(rest) and rest[0] != OF_THE_WORKSPACE and os.path.isfile(rest[0])
    return [program, str(Path(rest[0]).resolve()), *rest[1:]] if is_script else [program, *rest]


def own_files(argv: Sequence[str]) -> tuple[Path, ...]:
    """Of a settled command: the program and the script that are not part of the system."""
    found = (Path(item) for item in argv[:2] if os.path.isabs(item) and os.path.isfile(item))
    return tuple(path for path in found if not str(path).startswith(SYSTEM))


def with_neighbours(files: Iterable[Path], hidden: Sequence[Path]) -> tuple[Path, ...]:
    """Each with the folder that it lies in, unless something ``hidden`` is there as well: then the file alone."""
    return tuple(dict.fromkeys(path if is_alone(path, hidden) else path.parent for path in files))


def is_alone(file: Path, hidden: Sequence[Path]) -> bool:
    return any(one.resolve().is_relative_to(file.parent) for one in hidden)


def _program(path: str) -> str:
    if not os.path.isfile(path):
        raise UserError(f"{path} is not there", "Name the program by its path from here, or by a whole path.")
    if not os.access(path, os.X_OK):
        raise UserError(f"{path} is not a program", f"Make it one: chmod +x {path}")
    return str(Path(path).resolve())
