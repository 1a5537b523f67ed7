"""What a suite will cost: episodes at most, core time from measured steps, money from what is known."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from evopolicygym.agents import definitions
from evopolicygym.suites.plan import PlannedRun
from evopolicygym.suites.status import SuiteRow

EPISODE_START_S: Final = 0.02  # a policy's process and its environment
COSTS: Final = Path(__file__).parent / "costs.toml"


@dataclass(frozen=True)
class CostEstimate:
    """Of the runs that are not done. Episodes and hours are upper bounds: every submission a single episode, every
    episode as long as the task allows."""

    agent: str
    runs: int
    done: int
    episodes: int
    core_hours: float | None
    dollars: str


@dataclass(frozen=True)
class SuiteEstimate:
    agents: list[CostEstimate]
    total: CostEstimate
    unmeasured: list[str]

    def facts(self) -> dict[str, Any]:
        return asdict(self)

    def notes(self) -> str:
        lines = [
            "Episodes: the budget, hidden validation of as many checkpoints, held-out twice; most runs need far less."
        ]
        if self.unmeasured:
            lines.append(f"Core time is not known for {', '.join(self.unmeasured)}, and not counted.")
        return "\n".join(lines)


def estimate(planned: Sequence[PlannedRun], rows: Sequence[SuiteRow]) -> SuiteEstimate:
    pairs = list(zip(planned, rows, strict=True))
    agents = [
        _estimate(agent, [pair for pair in pairs if pair[0].agent == agent])
        for agent in dict.fromkeys(one.agent for one in planned)
    ]
    unmeasured = sorted({one.task.id for one in planned} - set(_step_us()))
    total = replace(_estimate("all", pairs), dollars="")
    return SuiteEstimate(agents, total, unmeasured)


def _estimate(agent: str, pairs: list[tuple[PlannedRun, SuiteRow]]) -> CostEstimate:
    left = [one for one, row in pairs if not row.is_over]
    seconds = [cost for one in left if (cost := _core_s(one)) is not None]
    hours = sum(seconds) / 3600 if seconds or not left else None
    done = len(pairs) - len(left)
    return CostEstimate(
        agent, len(pairs), done, sum(map(_episodes, left)), hours, _dollars(left, [row for _, row in pairs])
    )


def _episodes(one: PlannedRun) -> int:
    settings = one.settings
    return settings.budget * (1 + settings.validation_cases) + 2 * settings.heldout_cases


def _core_s(one: PlannedRun) -> float | None:
    step_us = _step_us().get(one.task.id)
    return None if step_us is None else _episodes(one) * (EPISODE_START_S + one.task.horizon * step_us * 1e-6)


def _dollars(left: list[PlannedRun], rows: list[SuiteRow]) -> str:
    """By what finished runs of the agent have cost; or by its limit; or nobody knows."""
    if not left:
        return "0"
    known = [row.dollars for row in rows if row.is_over and row.dollars is not None]
    settings = left[0].settings.agent
    assert settings is not None
    if known:
        return f"about {len(left) * sum(known) / len(known):.2f}, as {len(known)} finished runs"
    if settings.dollars is not None:
        return f"at most {len(left) * settings.dollars:.2f}"
    return "0" if settings.name != definitions.COMMAND and not _has_model(settings.name) else "unknown"


def _has_model(name: str) -> bool:
    """Built-ins without a model have neither keys nor hosts."""
    client = definitions.load(name)
    return bool(client.keys or client.hosts)


@cache
def _step_us() -> dict[str, float]:
    measured: dict[str, float] = tomllib.loads(COSTS.read_text())["step_us"]
    return measured
