"""The name and the source of a Python function that plays a run, as its record has them."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path

from evopolicygym.agents.definitions import PYTHON
from evopolicygym.api.workspace import Workspace
from evopolicygym.errors import UserError
from evopolicygym.runs.run_status import has_begun, read_state

AgentFunction = Callable[[Workspace], object]


def agent_name(function: AgentFunction) -> str:
    """Return the name under which a function plays, such as ``python:random_search``."""
    name = getattr(function, "__name__", type(function).__name__)
    return PYTHON + (re.sub(r"[^\w.-]+", "", name) or "function")


def source_hash(function: AgentFunction) -> str | None:
    """Return the hash of the file that defines the function, else of its source; None where there is neither."""
    try:
        target = function if inspect.isroutine(function) else type(function)
        file = inspect.getsourcefile(target)
        data = Path(file).read_bytes() if file and Path(file).is_file() else inspect.getsource(target).encode()
    except (OSError, TypeError):
        return None
    return hashlib.sha256(data).hexdigest()


def check_same_source(root: Path, name: str, digest: str | None) -> None:
    """Raise UserError if the run was begun by a function of the same name with another source: the record has its
    hash."""
    opened = read_state(root).opened if has_begun(root) else None
    agent = opened.facts["agent"] if opened else None
    if agent is None or agent["name"] != name:
        return  # a new run, or one with other settings, which are compared when it is opened
    recorded = agent["settings"].get("sha256")
    if recorded != digest:
        raise UserError(
            f"{root} was begun by another {name}: the sha256 of its source is {recorded or 'unknown'}, "
            f"that of this one is {digest or 'unknown'}",
            "Name a new folder, or continue with the source that began the run.",
        )
