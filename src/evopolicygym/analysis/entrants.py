"""Who a row of a table is about: an agent with its model and settings, or a policy that needs no agent.

An entrant is known by its name: runs whose agent, model and settings read the same are repeats of one another.
"""

from __future__ import annotations

from typing import Final

from evopolicygym.records.run import Run

RANDOM: Final = "random policy"
BY_HAND: Final = "by hand"
PUBLISHED: Final = " (paper)"


def entrant(run: Run) -> str:
    """Never the name of an anchor or of a published row."""
    if run.agent is None:
        return BY_HAND
    settings = (f"{name}={value}" for name, value in sorted(run.agent.settings.items()))
    name = " ".join(part for part in (run.agent.name, run.agent.model, *settings) if part)
    return f"{name} (runs)" if name in (RANDOM, BY_HAND) or name.endswith(PUBLISHED) else name
