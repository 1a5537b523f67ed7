"""Make synthetic run records: every field as the judge writes it, with returns chosen by the test."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count as count_from
from pathlib import Path
from typing import Any

import numpy as np

from evopolicygym.analysis.compare import ComparedEntrant, compared_entrants
from evopolicygym.analysis.entrants import name_entrants, name_runs, run_author, with_names
from evopolicygym.analysis.scores import mean
from evopolicygym.reference import paper
from evopolicygym.reference.scales import scales
from evopolicygym.run_record import Agent, Result, RunRecord
from evopolicygym.tasks.ids import comparable_id

OPENED = datetime(2026, 7, 2, 12, tzinfo=UTC)
HASH = "0" * 64
NUMBERS = count_from(1)  # of runs: no two are copies
FAMILY = {task: name for name, tasks in paper.families().items() for task in tasks}
DEMAND = {task: name for name, tasks in paper.demands().items() for task in tasks}


def result(returns: Sequence[float], failed: int = 0) -> dict[str, Any]:
    """Return a result. The first ``failed`` episodes have an error."""
    listed = [float(value) for value in returns]
    return Result(
        returns=listed,
        lengths=[1] * len(listed),
        errors=[*["act_error"] * failed, *[None] * (len(listed) - failed)],
        mean=mean(listed),
        std=float(np.std(listed)),
    ).model_dump()


def fingerprint(task: str, splits: str, cases: int, budget: int, **more: Any) -> dict[str, Any]:
    facts = {"protocol": "1", "task": task, "packages": {"numpy": "2"}, "splits": splits}
    return {**facts, "budget": budget, "validation_cases": 16, "heldout_cases": cases, **more}


def synthetic_run(
    returns: Sequence[float] | None = (1.0, 2.0),
    task: str = "core16/acrobot",
    agent: str | None = "codex",
    model: str | None = "m",
    *,
    kind: str = "scored",
    status: str = "finished",
    splits: str = "paper",
    cases: int | None = None,
    budget: int = 128,
    failure_return: float = -500.0,
    closed_because: str = "budget_spent",
    stopped_early: bool = False,
    publishable: bool = True,
    network: str = "model_only",
    usage: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    validation: float = 0.0,
    checkpoints: Sequence[tuple[float, Sequence[float] | None]] = (),
    submissions: int = 1,
    refunded: bool = False,
    failed: int = 0,
    minutes: int = 60,
    facts: dict[str, Any] | None = None,
    name: str | None = None,
    options: dict[str, Any] | None = None,
) -> RunRecord:
    """Return a record. ``returns`` are the held-out returns, None for a run without; ``checkpoints`` are pairs of
    validation mean and held-out returns; ``options`` are conditions, as facts of the fingerprint state them."""
    conditions = {"text": "brief", **(options or {})}
    number = next(NUMBERS)
    count = cases or (2 if returns is None else len(returns))
    text_condition = {} if conditions["text"] == "full" else {"text": conditions["text"]}
    mark = {**fingerprint(task, splits, count, budget), **text_condition, **(facts or {})}
    scored = kind == "scored"
    outcome = {
        "kind": kind, "submission": 1 if scored else None, "checkpoint": HASH if scored else None,
        "validation_mean": validation if scored else None,
        "heldout": result(returns, failed) if returns is not None else None, "repeat": "equal",
        "stopped_early": stopped_early, "budget_left": 0,
    }  # fmt: skip
    return RunRecord.model_validate(
        {
            "schema_version": 1,
            "evopolicygym": "0",
            "id": name or f"run-{number}",
            "status": status,
            "task": {
                "id": task, "env_id": task, "version": 1, "title": task, "family": FAMILY.get(task, "other"),
                "demand": DEMAND.get(task, ""), "horizon": 10, "failure_return": failure_return,
            },
            "ids": {"splits_id": splits, "comparable_id": comparable_id(mark), "bit_id": "b-1", "fingerprint": mark},
            "options": {
                "validation_cases": 16, "heldout_cases": count, "validate_when": "after", "video": "none",
                "stock": False, **conditions,
            },
            "agent": agent and Agent(name=agent, model=model, settings=settings or {}).model_dump(),
            "isolation": {
                "policy": "A" if publishable else "none", "agent": "A", "agent_network": network,
                "publishable": publishable,
            },
            "implementation": "stock",
            "budget": {"total": budget, "charged": budget, "remaining": 0, "refunds": 0, "refused": {}},
            "submissions": [_submission(number, refunded) for number in range(1, submissions + 1)],
            "checkpoints": [
                {
                    "hash": f"{i:064x}", "files": 1, "bytes": 1, "code": None, "validation": result([value] * 16),
                    "heldout": result(held) if held is not None else None,
                }
                for i, (value, held) in enumerate(checkpoints or [(validation, None)])
            ],
            "outcome": outcome if status == "finished" else None,
            "times": {
                "opened": OPENED, "closed": OPENED + timedelta(minutes=minutes), "finished": None,
                "closed_because": closed_because, "train_s": 1.0, "hidden_s": 1.0,
            },
            "usage": usage,
            "ledger_head": f"{number:064x}",
        }
    )  # fmt: skip


def _submission(number: int, refunded: bool) -> dict[str, Any]:
    return {
        "number": number, "checkpoint": HASH, "cases": [0], "charged": 1, "charged_at": OPENED, "judged_at": None,
        "verdict": None if refunded else "ok", "refunded": refunded, "train": None, "clipped_actions": 0,
        "wall_s": None,
    }  # fmt: skip


def suite(
    agents: dict[str, float], runs: int = 3, cases: int = 32, seed: int = 0, tasks: Sequence[str] | None = None,
    facts: dict[str, dict[str, Any]] | None = None, **more: Any,
) -> list[RunRecord]:  # fmt: skip
    """Return runs of several agents on Core16, each at about its given level of the normalised score (1 is the
    expert). ``facts`` go into the fingerprint of each task."""
    generator = np.random.default_rng(seed)
    made = []
    for task in tasks or paper.core16():
        low, high = scales()[task].low, scales()[task].high
        easy = generator.normal(0.0, 0.2, cases)
        for agent, level in agents.items():
            for number in range(runs):
                noise = generator.normal(0.0, 0.1) + easy + generator.normal(0.0, 0.1, cases)
                returns = list(low + (high - low) * (level + noise))
                name = f"{task}-{agent}-{number}"
                made.append(synthetic_run(returns, task, agent, name=name, facts=(facts or {}).get(task), **more))
    return made


def write(runs: Sequence[RunRecord], folder: Path) -> Path:
    """Write records as run folders."""
    for number, run in enumerate(runs):
        target = folder / f"{number:03}"
        target.mkdir(parents=True)
        (target / "run.json").write_text(run.model_dump_json())
    return folder


def named(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return runs with the names of their entrants."""
    return name_runs(runs)[0]


def named_sides(sides: dict[str, Sequence[RunRecord]]) -> list[ComparedEntrant]:
    """Return the sides of a comparison, as `evopolicygym.compare` names them."""
    names = name_entrants(run_author(run) for runs in sides.values() for run in runs)
    return compared_entrants({path: with_names(runs, names) for path, runs in sides.items()})
