"""Find the files that an agent must see to start its program: where it is installed, and its interpreter.

Of a client (codex, claude, ...) these are its installation; of a user's own command (`--agent command`), the program
and the script that the command names."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evopolicygym.errors import UserError
from evopolicygym.sandbox.agent.agent_sandbox import DEFAULT_PATH
from evopolicygym.sandbox.runtime import runtime

SYSTEM: Final = ("/usr/", "/bin/", "/lib")
PREFIXES: Final = ("/", "/usr", "/usr/local")
MAX_LINKS: Final = 40  # as in the kernel


@dataclass(frozen=True)
class InstallPaths:
    """Paths to show to the agent: ``readable`` whole; ``libraries`` (of other Pythons) without their packages."""

    readable: tuple[Path, ...] = ()
    libraries: tuple[Path, ...] = ()


def find_install_paths(program: Path) -> InstallPaths:
    roots = {_root(path) for path in (program, program.resolve(), *node_interpreter())}
    pythons = [python for root in roots if (python := root / "bin" / "python").exists() and _is_venv(root)]
    libraries = [python.resolve().parent.parent / "lib" for python in pythons]
    behind = [path for python in pythons for path in _behind_links(python)]
    readable = {*_outside([*roots, *behind]), *_own_packages(program.resolve())}
    return InstallPaths(tuple(sorted(readable)), _outside(library for library in libraries if library.is_dir()))


def _behind_links(path: Path) -> list[Path]:
    """Return every path on the way from a link to its file. An environment's python may be a link to a link, and does
    not start if one of them is hidden."""
    chain: list[Path] = []
    while path.is_symlink() and len(chain) < MAX_LINKS:
        path = path.parent / os.readlink(path)
        chain.append(path)
    return [*chain, path.resolve()]


def node_interpreter() -> list[Path]:
    """Return the path of Node.js, of which many clients are scripts; empty if it is not installed."""
    return [Path(node).resolve()] if (node := shutil.which("node")) else []


def _root(path: Path) -> Path:
    """Return the outermost ``node_modules`` above a program, or the folder of ``bin`` and ``lib`` that it is installed
    in, or the program itself."""
    packages = [parent for parent in path.parents if parent.name == "node_modules"]
    if packages:
        return packages[-1]
    prefix = path.parent.parent
    return prefix if path.parent.name == "bin" and (prefix / "lib").is_dir() else path


def _is_venv(root: Path) -> bool:
    """Return whether a folder is a virtual environment, whose interpreter and standard library are elsewhere."""
    return os.path.exists(root / "pyvenv.cfg")


def _own_packages(program: Path) -> list[Path]:
    """Return the environment of a Python program in a system folder. Otherwise the system's packages are not shown."""
    root = _root(program)
    if root == program or str(root) in PREFIXES or not str(root).startswith(SYSTEM):
        return []
    with open(program, "rb") as file:
        is_python = b"python" in b"".join(
            file.readline(256) for _ in range(2)
        )  # with a long path, the interpreter is in the second line
    return [root] if is_python else []


def _outside(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(sorted({path for path in paths if not str(path).startswith(SYSTEM)}))


WORKSPACE_CLIENT: Final = "submit.py"
SANDBOX_PYTHON: Final = ("python", "python3")
INTERPRETER: Final = re.compile(r"(python|pypy|node|bun|deno|ruby|perl|julia|Rscript|bash|zsh|dash|sh)[\d.]*")
ENVIRONMENT_MARKS: Final = ("pyvenv.cfg", "conda-meta")


def resolve_command(argv: Sequence[str], must_exist: bool = True) -> list[str]:
    """Return a command with absolute paths, so that it means the same in the workspace and after a resume: of the
    program, if it is a path, and of a script that follows its interpreter. Raise UserError if the program is
    missing and ``must_exist``."""
    if not argv:
        return []
    program, *rest = argv
    if "/" in program:
        program = _program(program) if must_exist or shutil.which(program) else os.path.abspath(program)
    elif must_exist and program not in SANDBOX_PYTHON and shutil.which(program, path=DEFAULT_PATH) is None:
        elsewhere = shutil.which(program)
        hint = f"Name it by its path: {elsewhere}" if elsewhere else "Is it installed?"
        raise UserError(f"the agent would not find {program}: its PATH is {DEFAULT_PATH}", hint)
    script = _script(program, rest)
    return [program, *(str(Path(word).resolve()) if index == script else word for index, word in enumerate(rest))]


def command_files(argv: Sequence[str]) -> tuple[Path, ...]:
    """Return the program and the script of a resolved command, unless they are part of the system."""
    if not argv:
        return ()
    script = _script(argv[0], argv[1:])
    words = (argv[0], *([] if script is None else [argv[1 + script]]))
    paths = (Path(word) for word in words if os.path.isabs(word) and os.path.isfile(word))
    return tuple(path for path in paths if not str(path).startswith(SYSTEM))


def environment_of(program: Path) -> InstallPaths | None:
    """Return what a program of a virtual or conda environment needs to see: the environment, and the interpreter behind
    it. None for other programs, and for the environment of EvoPolicyGym: an agent must not see its simulators."""
    root = program.parent.parent
    if program.parent.name != "bin" or not any((root / mark).exists() for mark in ENVIRONMENT_MARKS):
        return None
    if any(Path(own).resolve().is_relative_to(root) for own in (runtime().package_root, runtime().site)):
        return None
    python = next(path for path in (root / "bin" / "python", program) if path.exists())
    library = python.resolve().parent.parent / "lib"
    is_elsewhere = not python.resolve().is_relative_to(root)
    libraries = _outside([library]) if is_elsewhere and library.is_dir() else ()
    return InstallPaths(_outside([root, *(_behind_links(python) if is_elsewhere else [])]), libraries)


def visible_paths(files: Iterable[Path], hidden: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folder of each file, or the file alone if its folder also holds something ``hidden``."""
    return tuple(dict.fromkeys(path if is_shown_alone(path, hidden) else path.parent for path in files))


def is_shown_alone(file: Path, hidden: Sequence[Path]) -> bool:
    return any(path.resolve().is_relative_to(file.parent) for path in hidden)


def _script(program: str, arguments: Sequence[str]) -> int | None:
    """Return the position of the script among the arguments of an interpreter: the first that is not an option."""
    is_interpreter = "/" not in program or INTERPRETER.fullmatch(os.path.basename(program))
    for index, word in enumerate(arguments if is_interpreter else ()):
        if word in ("-c", "-m"):
            return None
        if not word.startswith("-"):
            return index if word != WORKSPACE_CLIENT and os.path.isfile(word) else None
    return None


def _program(path: str) -> str:
    """Return the absolute path of a program, behind links. The Python of an environment stays a link: it finds its
    packages by the path that it is started with."""
    if not os.path.isfile(path):
        raise UserError(f"{path} does not exist", "Create it or correct the path.")
    if not os.access(path, os.X_OK):
        raise UserError(f"{path} is not a program", f"Make it one: chmod +x {path}")
    in_its_folder = Path(path).parent.resolve() / Path(path).name
    return str(in_its_folder if environment_of(in_its_folder) else in_its_folder.resolve())
