"""What an agent is called."""

from __future__ import annotations

from evopolicygym.analysis.entrants import BY_HAND


def agent_name(agent: str | None, model: str | None) -> str:
    return " ".join(name for name in (agent or BY_HAND, model) if name)
