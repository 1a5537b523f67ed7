"""Run folders as the public reference code writes them, small ones, for tests of the import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

POLICY = """
class Policy:
    def __init__(self, env_meta):
        self.gain = {gain}

    def act(self, obs):
        return {action}
"""


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def first_version(root: Path, status: str = "completed") -> Path:
    """Write a run as version 0.1 does: two submissions of Acrobot, the second selected."""
    outcome: dict[str, Any] = {"status": status, "error": None, "val_scores": {"0": -400.0, "1": -90.5}}
    outcome |= {"best_submit_index": 1, "heldout_returns": [-80.0, -100.0] * 16, "heldout_mean_return": -90.0}
    if status != "completed":
        outcome = {"status": status, "error": "the provider is gone" if status == "error" else None}
    write(
        root / "run.json",
        {
            "schema_version": "0.1",
            "protocol_version": "protocol/v2.0",
            "model": "some-model-1",
            "env": "gymnasium/Acrobot-v1",
            "exp_id": "s0",
            "experiment_dimensions": {"episode_budget": 8},
            "timing": {"start_time": "2026-05-01T10:00:00Z", "end_time": "2026-05-01T11:00:00Z"},
            "outcome": outcome,
            "versions": {"data_heldout_hash": "sha256:5e6f", "data_valid_hash": "sha256:3c4d"},
        },
    )
    for index, returns in enumerate(([-500.0, -300.0], [-90.0, -95.0])):
        write(root / f"checkpoints/submit_{index:03d}/policy.py", POLICY.format(gain=index + 1, action=index))
        write(root / f"checkpoints/submit_{index:03d}/metrics.json", {"lines": 5})
        summary = {"status": "ok", "env_instances": [0, 1], "returns": returns, "lengths": [500, 300]}
        write(root / f"workspace/feedback/submit_{index:03d}/summary.json", summary)
    write(root / "logs/codex_turns/turn_000.txt", "hello")
    return root


def third_version(root: Path, reason: str = "finished") -> Path:
    """Write a run as version 0.3 does: the scores of hidden cases are aggregates."""
    submissions = [{"submission_id": f"submission-00000{n}", "episode_indices": [n]} for n in (1, 2)]
    write(
        root / "run.json",
        {
            "schema": "evopolicygym/run-record/v8",
            "library_version": "0.3.0",
            "benchmark": {"id": "gymnasium/Acrobot-v1"},
            "config": {"seed": 7, "episode_budget": 4, "assessment": {"split": "test", "episodes": 3}},
            "agent": {"name": "codex", "model": "some-model-2"},
            "terminal_reason": reason,
            "final_submission_id": "submission-000002" if reason == "finished" else None,
            "submissions": submissions,
        },
    )
    for made in submissions:
        folder = root / "submissions" / made["submission_id"]
        write(folder / "program/policy.py", POLICY.format(gain=1, action=made["episode_indices"][0]))
        write(folder / "feedback.json", {"episodes": [{"reward": -100.0, "steps": 101, "failure": None}]})
    candidates = [{"submission_id": made["submission_id"], "score": -120.0} for made in submissions]
    write(root / "validation/report.json", {"score_direction": "maximize", "candidates": candidates})
    if reason == "finished":
        write(root / "assessment/report.json", {"score_direction": "maximize", "score": -110.0})
    return root
