"""Estimate the cost of a suite: episodes, core time and money."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from evopolicygym.agents import definitions
from evopolicygym.config import parse_toml
from evopolicygym.suites.file import PlannedRun
from evopolicygym.suites.status import SuiteRow

EPISODE_START_S: Final = 0.02  # a policy's process and its environment
COSTS: Final = Path(__file__).parent / "costs.toml"


@dataclass(frozen=True)
class CostEstimate:
    """Cost of an agent's runs that are not done. Episodes and hours are upper bounds: every submission asks for a
    single episode, and every episode lasts as long as the task allows."""

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
            "Episodes are an upper bound: the budget, hidden validation of as many checkpoints, and held-out three "
            "times: twice for the selected one, once for the first. Most runs need far less. Generated tasks are drawn "
            "once for each key; that is counted, too."
        ]
        if self.unmeasured:
            lines.append(f"Core time leaves out tasks that were never measured: {', '.join(self.unmeasured)}.")
        return "\n".join(lines)


def estimate(planned: Sequence[PlannedRun], rows: Sequence[SuiteRow]) -> SuiteEstimate:
    pairs = list(zip(planned, rows, strict=True))
    agents = [
        _estimate(agent, [pair for pair in pairs if pair[0].agent == agent])
        for agent in dict.fromkeys(run.agent for run in planned)
    ]
    unmeasured = sorted({run.task.id for run in planned} - set(_step_us()) - set(_drawn_costs()))
    total = replace(_estimate("all", pairs), dollars="")
    return SuiteEstimate(agents, total, unmeasured)


def _estimate(agent: str, pairs: list[tuple[PlannedRun, SuiteRow]]) -> CostEstimate:
    remaining = [run for run, row in pairs if not row.is_over]
    seconds = [cost for run in remaining if (cost := _core_s(run)) is not None]
    drawn = {run.task.id for run in remaining} & set(_drawn_costs())
    seconds += [_drawn_costs()[task]["draw_s"] for task in drawn]
    return CostEstimate(
        agent=agent,
        runs=len(pairs),
        done=len(pairs) - len(remaining),
        episodes=sum(map(_episodes, remaining)),
        core_hours=sum(seconds) / 3600 if seconds or not remaining else None,
        dollars=_dollars(remaining, [row for _, row in pairs]),
    )


def _episodes(run: PlannedRun) -> int:
    settings = run.settings
    return settings.budget * (1 + settings.validation_cases) + 3 * settings.heldout_cases


def _core_s(run: PlannedRun) -> float | None:
    step_us, steps = _step_us().get(run.task.id), run.task.horizon
    if drawn := _drawn_costs().get(run.task.id):  # its horizon is not known before there is a key
        step_us, steps = drawn["step_us"], int(drawn["steps"])
    return None if step_us is None else _episodes(run) * (EPISODE_START_S + steps * step_us * 1e-6)


def _dollars(remaining: list[PlannedRun], rows: list[SuiteRow]) -> str:
    """Estimate from what finished runs of the agent have cost, else from its limit, else "unknown"."""
    if not remaining:
        return "0"
    costs = [row.dollars for row in rows if row.is_over and row.dollars is not None]
    settings = remaining[0].settings.agent
    assert settings is not None
    if costs:
        return f"about {len(remaining) * sum(costs) / len(costs):.2f}, from {len(costs)} finished runs"
    if settings.dollars is not None:
        return f"at most {len(remaining) * settings.dollars:.2f}"
    return "0" if settings.name != definitions.COMMAND and not _has_model(settings.name) else "unknown"


def _has_model(name: str) -> bool:
    """Whether an agent uses a model: built-in agents without one have neither keys nor hosts."""
    client = definitions.load(name)
    return bool(client.keys or client.hosts)


def _step_us() -> dict[str, float]:
    measured: dict[str, float] = _costs()["step_us"]
    return measured


def _drawn_costs() -> dict[str, dict[str, float]]:
    """Return steps, time of a step and time of drawing of generated tasks."""
    measured: dict[str, dict[str, float]] = _costs()["drawn"]
    return measured


@cache
def _costs() -> dict[str, Any]:
    return parse_toml(COSTS.read_text())
