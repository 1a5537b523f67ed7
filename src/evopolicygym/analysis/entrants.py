"""Who a row of a table is about: an agent with its model and settings, or a policy that needs no agent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from evopolicygym.records.run import Run


@dataclass(frozen=True, order=True)
class Entrant:
    """Runs of equal entrants are repeats of one another. ``settings`` is canonical JSON."""

    agent: str
    model: str = ""
    settings: str = "{}"

    @property
    def label(self) -> str:
        known = {} if self.settings == "{}" else json.loads(self.settings)
        parts = [self.agent, self.model, *(f"{name}={value}" for name, value in known.items())]
        return " ".join(part for part in parts if part)


RANDOM: Final = Entrant("random policy")
BY_HAND: Final = Entrant("by hand")


def entrant(run: Run) -> Entrant:
    if run.agent is None:
        return BY_HAND
    return Entrant(run.agent.name, run.agent.model or "", json.dumps(run.agent.settings, sort_keys=True, default=str))
