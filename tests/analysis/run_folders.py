"""Write small run folders as a judge would, from a list of submissions."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from evopolicygym.analysis.edits.code_reader_child import read_code
from evopolicygym.tasks.ids import comparable_id

OPENED = datetime(2026, 1, 1, tzinfo=UTC)
Files = Mapping[str, str | bytes]


@dataclass(frozen=True)
class Step:
    """One submission: the files of the policy, its train returns, its hidden-validation mean. It comes ``thinking``
    seconds after the last reply, and the judge takes a second."""

    files: Files
    validation: float | None = 0.0
    returns: Sequence[float] = (1.0,)
    cases: Sequence[int] = ()
    verdict: str = "ok"
    refunded: bool = False
    errors: Sequence[str | None] = ()
    length: int = 10
    clipped: int = 0
    thinking: float = 60.0

    @property
    def is_ok(self) -> bool:
        return self.verdict == "ok" and not self.refunded


def source(text: str, **step: Any) -> Step:
    """Return a step whose policy is one file."""
    return Step({"policy.py": text}, **step)


@dataclass
class WrittenRun:
    """A run folder that was written; ``facts`` are the content of its run.json."""

    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)

    def rewrite(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "run.json").write_text(json.dumps(self.facts))


def write_run(
    folder: Path,
    steps: Sequence[Step],
    *,
    budget: int = 128,
    task: str = "core16/acrobot",
    demand: str = "tuning",
    agent: str | None = "tuner",
    code: bool = True,
) -> WrittenRun:
    """Write a run folder with these submissions. ``code=False`` leaves out the code metrics of the checkpoints."""
    hashes = [write_checkpoint(folder / "checkpoints", step.files) for step in steps]
    made = sorted(zip(hashes, steps, strict=True), key=lambda pair: pair[1].is_ok)  # those decide about validation
    checkpoints = dict.fromkeys(hashes) | {
        name: _checkpoint(folder / "checkpoints" / name, step, code) for name, step in made
    }
    charged = sum(len(step.returns) for step in steps if not step.refunded)
    scored = [
        (step.validation, number)
        for number, step in enumerate(steps, start=1)
        if step.is_ok and step.validation is not None
    ]
    written = WrittenRun(folder, {
        "schema_version": 1,
        "evopolicygym": "0.1.0",
        "id": folder.name,
        "status": "finished",
        "task": {
            "id": task, "env_id": "Acrobot-v1", "version": 1, "title": "Acrobot", "family": "gym_box2d",
            "demand": demand, "horizon": 500, "failure_return": -500.0,
        },
        "ids": ids(budget),
        "options": {
            "validation_cases": 2, "heldout_cases": 2, "validate_when": "after", "video": "none", "stock": False,
        },
        "agent": {"name": agent, "model": None, "version": None, "seed": 3, "settings": {}} if agent else None,
        "isolation": {"policy": "A", "agent": "A", "agent_network": "none", "publishable": True},
        "implementation": "fast",
        "budget": {
            "total": budget, "charged": charged, "remaining": budget - charged, "refunds": 0,
            "refused": {"busy": 2, "budget_invalid": 1},
        },
        "submissions": _submissions(steps, hashes),
        "checkpoints": list(checkpoints.values()),
        "outcome": _outcome(max(scored) if scored else None, hashes, budget - charged),
        "times": {
            "opened": OPENED.isoformat(), "closed": None, "finished": None, "closed_because": None,
            "train_s": 1.0, "hidden_s": 1.0,
        },
        "usage": None,
        "ledger_head": hashlib.sha256(str(folder).encode()).hexdigest(),
    })  # fmt: skip
    written.rewrite()
    return written


def ids(budget: int) -> dict[str, Any]:
    facts = {"budget": budget, "validation_cases": 2, "heldout_cases": 2}
    return {"splits_id": "paper", "comparable_id": comparable_id(facts), "bit_id": "b-1", "fingerprint": facts}


def write_checkpoint(store: Path, files: Files) -> str:
    contents = {name: text if isinstance(text, bytes) else text.encode() for name, text in files.items()}
    manifest = "\n".join(f"{hashlib.sha256(data).hexdigest()} {name}" for name, data in sorted(contents.items()))
    name = hashlib.sha256(manifest.encode()).hexdigest()
    for path, data in contents.items():
        (store / name / path).parent.mkdir(parents=True, exist_ok=True)
        (store / name / path).write_bytes(data)
    return name


def result(returns: Sequence[float], length: int = 10, errors: Sequence[str | None] = ()) -> dict[str, Any]:
    return {
        "returns": list(returns),
        "lengths": [length] * len(returns),
        "errors": list(errors) or [None] * len(returns),
        "mean": math.fsum(returns) / len(returns),
        "std": statistics.pstdev(returns),
    }


def _checkpoint(stored: Path, step: Step, code: bool) -> dict[str, Any]:
    return {
        "hash": stored.name,
        "files": len(step.files),
        "bytes": sum(map(len, step.files.values())),
        "code": read_code(stored) if code else None,
        "validation": None if not step.is_ok or step.validation is None else result([step.validation] * 2),
        "heldout": None,
    }


def _submissions(steps: Sequence[Step], hashes: Sequence[str]) -> list[dict[str, Any]]:
    submissions, now = [], OPENED
    for number, (step, name) in enumerate(zip(steps, hashes, strict=True), start=1):
        charged_at = now + timedelta(seconds=step.thinking)
        now = charged_at + timedelta(seconds=1)
        submissions.append({
            "number": number,
            "checkpoint": name,
            "cases": list(step.cases or range(len(step.returns))),
            "charged": len(step.returns),
            "charged_at": charged_at.isoformat(),
            "judged_at": now.isoformat(),
            "verdict": None if step.refunded else step.verdict,
            "refunded": step.refunded,
            "train": result(step.returns, step.length, step.errors) if step.is_ok else None,
            "clipped_actions": step.clipped,
            "wall_s": 1.0,
        })  # fmt: skip
    return submissions


def _outcome(best: tuple[float, int] | None, hashes: Sequence[str], remaining: int) -> dict[str, Any]:
    mean, number = best if best else (None, None)
    return {
        "kind": "scored" if best else "no_ok_submit",
        "submission": number,
        "checkpoint": hashes[number - 1] if number else None,
        "validation_mean": mean,
        "heldout": result([mean - 1.0] * 2) if mean is not None else None,
        "repeat": "equal" if best else None,
        "stopped_early": remaining > 0,
        "budget_left": remaining,
    }
