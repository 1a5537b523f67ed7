"""The clients that ship, and a user's own: by name, or by the path of a TOML file."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final

from evopolicygym.agents.client import Client
from evopolicygym.config import read_toml, validate
from evopolicygym.errors import UserError

COMMAND: Final = "command"
PYTHON: Final = "python:"  # begins the name of an agent that is a Python function
FOLDER: Final = Path(str(resources.files("evopolicygym.agents"))) / "clients"


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != COMMAND)


def load(name: str) -> Client:
    """A client that ships, or, when the name ends in `.toml`, the one that this file defines."""
    if name.startswith(PYTHON):
        raise UserError(
            f"the agent {name!r} is a Python function, which a command cannot start",
            "In Python, call evopolicygym.run(task, function, folder=...) with the settings of the run.",
        )
    if name.endswith(".toml"):
        return _from_file(Path(name))
    if name not in (*names(), COMMAND):
        raise unknown(name, [*names(), COMMAND])
    return _shipped(name)


def command(argv: Sequence[str], json_lines: bool = False) -> Client:
    """Any program: started once with the prompt, or spoken to in JSON lines."""
    if not argv:
        raise UserError("no program is named", "Write it after two dashes: --agent command -- ./my-agent.sh")
    literal = ("${program}", *(item.replace("$", "$$") for item in argv[1:]))
    turns = "json_lines" if json_lines else "once"
    return load(COMMAND).model_copy(update={"argv": literal, "program": argv[0], "turns": turns})


def unknown(name: str, known: Sequence[str]) -> UserError:
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"Did you mean {', '.join(near)}? " if near else ""
    return UserError(
        f"there is no agent {name!r}",
        f"{hint}`evopolicygym agent list` lists the agents; `evopolicygym docs agents` explains how to define one.",
    )


@cache
def _shipped(name: str) -> Client:
    return _from_file(FOLDER / f"{name}.toml")


def _from_file(path: Path) -> Client:
    return validate(Client, {"name": path.stem, **read_toml(path, "client file")}, f"the client file {path}")
