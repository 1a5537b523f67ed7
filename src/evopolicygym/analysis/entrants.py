"""Who a row of a table is about: an agent with its model and settings, or a policy that needs no agent.

An entrant is known by its name: runs whose agent, model and settings read the same are repeats of one another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from evopolicygym.run_record import RunRecord

RANDOM: Final = "random policy"
BY_HAND: Final = "by hand"
PUBLISHED: Final = " (paper)"
HASH_DIGITS: Final = 12


def entrant(run: RunRecord) -> str:
    """Never the name of an anchor or of a published row."""
    if run.agent is None:
        return BY_HAND
    settings = (_setting(name, value) for name, value in sorted(run.agent.settings.items()))
    name = " ".join(part for part in (run.agent.name, run.agent.model, *settings) if part)
    return f"{name} (runs)" if name in (RANDOM, BY_HAND) or name.endswith(PUBLISHED) else name


def _setting(name: str, value: Any) -> str:
    """A command without the folder of its program; of the program's hash as much as tells it from all others."""
    if name == "command" and isinstance(value, list) and value:
        program, *arguments = map(str, value)
        return " ".join([Path(program).name, *arguments])
    return f"{name}={str(value)[:HASH_DIGITS] if name == 'sha256' else value}"
