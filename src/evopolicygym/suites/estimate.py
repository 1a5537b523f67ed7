"""Estimate the cost of a suite: episodes, core time and money."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain, islice
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from evopolicygym.agents import definitions
from evopolicygym.analysis.formatting import pluralize
from evopolicygym.config import parse_toml
from evopolicygym.errors import UserError
from evopolicygym.run_record import load
from evopolicygym.runs.settings import AgentSettings
from evopolicygym.suites.file import PlannedRun
from evopolicygym.suites.status import SuiteRow

EPISODE_START_S: Final = 0.02  # a policy's process and its environment
EARLIER_RUNS: Final = 300  # records that are read for their costs
COSTS: Final = Path(__file__).parent / "costs.toml"


@dataclass(frozen=True)
class CostEstimate:
    """Cost of an agent's runs that are not done. Episodes and hours are upper bounds: every submission asks for a
    single episode, and every episode lasts as long as the task allows. Dollars are an estimate, None if there is
    nothing to estimate from; ``dollars_basis`` says what from. A limit is no estimate."""

    agent: str
    runs: int
    done: int
    episodes: int
    core_hours: float | None
    dollars: float | None
    dollars_basis: str


@dataclass(frozen=True)
class SuiteEstimate:
    """Cost of the runs of a suite that are not done, by agent and in ``total``. ``unmeasured``: tasks whose core time
    is not known, and not counted."""

    agents: list[CostEstimate]
    total: CostEstimate
    unmeasured: list[str]

    def facts(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)

    def notes(self) -> str:
        """Return what the numbers leave out, for a reader."""
        lines = [
            "Episodes are an upper bound: the budget, hidden validation of as many checkpoints, and held-out three "
            "times: twice for the selected one, once for the first. Most runs need far less. Generated tasks are drawn "
            "once for each key; that is counted, too."
        ]
        if self.unmeasured:
            lines.append(f"Core time leaves out tasks that were never measured: {', '.join(self.unmeasured)}.")
        return "\n".join(lines)


def estimate(planned: Sequence[PlannedRun], rows: Sequence[SuiteRow], earlier: Path | None = None) -> SuiteEstimate:
    """Estimate what the runs without a score cost. ``earlier``: a folder with earlier runs."""
    pairs = list(zip(planned, rows, strict=True))
    agents = [
        _estimate(agent, [pair for pair in pairs if pair[0].agent == agent], earlier)
        for agent in dict.fromkeys(run.agent for run in planned)
    ]
    unmeasured = sorted({run.task.id for run in planned} - set(_step_us()) - set(_drawn_costs()))
    reported = [cost.dollars for cost in agents if cost.dollars is not None]
    unknown = ", ".join(cost.agent for cost in agents if cost.dollars is None)
    dollars, basis = (None, f"{sum(reported):.2f} without {unknown}") if unknown else (sum(reported), "")
    total = replace(_estimate("all", pairs, None), dollars=dollars, dollars_basis=basis)
    return SuiteEstimate(agents, total, unmeasured)


def _estimate(agent: str, pairs: list[tuple[PlannedRun, SuiteRow]], earlier: Path | None) -> CostEstimate:
    remaining = [run for run, row in pairs if not row.is_over]
    seconds = [cost for run in remaining if (cost := _core_s(run)) is not None]
    drawn = {run.task.id for run in remaining} & set(_drawn_costs())
    seconds += [_drawn_costs()[task]["draw_s"] for task in drawn]
    dollars, basis = _dollars(remaining, [row for _, row in pairs], earlier)
    return CostEstimate(
        agent=agent,
        runs=len(pairs),
        done=len(pairs) - len(remaining),
        episodes=sum(map(_episodes, remaining)),
        core_hours=sum(seconds) / 3600 if seconds or not remaining else None,
        dollars=dollars,
        dollars_basis=basis,
    )


def _episodes(run: PlannedRun) -> int:
    settings = run.settings
    return settings.budget * (1 + settings.validation_cases) + 3 * settings.heldout_cases


def _core_s(run: PlannedRun) -> float | None:
    step_us, steps = _step_us().get(run.task.id), run.task.horizon
    if drawn := _drawn_costs().get(run.task.id):  # its horizon is not known before there is a key
        step_us, steps = drawn["step_us"], int(drawn["steps"])
    return None if step_us is None else _episodes(run) * (EPISODE_START_S + steps * step_us * 1e-6)


def _dollars(remaining: list[PlannedRun], rows: list[SuiteRow], earlier: Path | None) -> tuple[float | None, str]:
    """Estimate dollars and say what from: finished runs of the suite, else earlier ones of the same agent and model."""
    if not remaining:
        return 0.0, "nothing is left to play"
    agent = remaining[0].settings.agent
    assert agent is not None
    costs = [row.dollars for row in rows if row.is_over and row.dollars is not None]
    if costs:
        return len(remaining) * fmean(costs), f"from {pluralize(len(costs), 'finished run')} of this suite"
    if agent.name != definitions.COMMAND and not _has_model(agent.name):
        return 0.0, "it uses no model"
    costs = _earlier_costs(earlier, agent) if earlier else []
    if costs:
        return len(remaining) * fmean(costs), f"from {pluralize(len(costs), 'earlier run')} in {earlier}"
    limit = f"; limited to ${agent.dollars:g} a run" if agent.dollars is not None else ""
    return None, f"no run of it here has reported its cost{limit}"


def _earlier_costs(folder: Path, agent: AgentSettings) -> list[float]:
    """Return the costs of runs of the same client and model below a folder. Whatever cannot be read is left out."""
    costs = []
    for path in islice(chain(folder.glob("*/run.json"), folder.glob("*/runs/*/run.json")), EARLIER_RUNS):
        with suppress(UserError, OSError):
            record = load(path.parent)
            cost = (record.usage or {}).get("cost_usd")
            is_same = record.agent and (record.agent.name, record.agent.model) == (agent.name, agent.model)
            if is_same and record.outcome and isinstance(cost, int | float):
                costs.append(float(cost))
    return costs


def _has_model(name: str) -> bool:
    """Whether an agent uses a model: built-in agents without one have neither keys nor hosts. One that does not exist
    may use anything; the preflight names it."""
    try:
        client = definitions.load(name)
    except UserError:
        return True
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
