"""A run of a shifted task: told to the agent as such, verified by playing it again, without plain anchors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import evopolicygym
from evopolicygym import UserError, Workspace
from evopolicygym.analysis.leaderboard.build import leaderboard
from evopolicygym.execution.anchors import measure
from evopolicygym.execution.engine import LocalEngine
from evopolicygym.reference.anchors import AnchorFile, stored_anchors
from evopolicygym.runs.settings import RunSettings
from evopolicygym.tasks.sealing import create_key

TASK = "core16/mountain-car-continuous"
SMALL = {"budget": 2, "validation_cases": 1, "heldout_cases": 2, "seeds": "paper", "variant": "shifted"}
POLICY = """
class Policy:
    def __init__(self, obs_space, action_space, env_meta): pass
    def reset(self, episode_index): pass
    def act(self, obs): return [0.4]
"""


def submit_once(workspace: Workspace) -> None:
    workspace.policy.write_text(POLICY)
    workspace.submit([0, 1])


@pytest.fixture
def key(tmp_path: Path) -> Path:
    create_key(tmp_path / "seal.key")
    return tmp_path / "seal.key"


def verify(folder: Path, key: Path) -> subprocess.CompletedProcess[str]:
    environment = {"EVOPOLICYGYM_SEAL_KEY_FILE": str(key), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "evopolicygym", "verify", str(folder), "--jobs", "1"]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_a_shifted_run_is_told_scored_and_verified(tmp_path, key):
    run = evopolicygym.run(TASK, submit_once, folder=tmp_path / "run", seal_key=key, **SMALL)
    plain = evopolicygym.run(TASK, submit_once, folder=tmp_path / "plain", **SMALL | {"variant": "plain"})
    assert run.outcome == plain.outcome == "scored" and run.returns != plain.returns
    texts = [(tmp_path / name / "workspace/AGENTS.md").read_text() for name in ("run", "plain")]
    assert ["rules differ" in text for text in texts] == [True, False]
    assert run.record.options.variant == run.record.ids.fingerprint["variant"]["name"] == "shifted"
    assert verify(run.folder, key).returncode == 0
    other = tmp_path / "other.key"
    create_key(other)
    assert verify(run.folder, other).returncode != 0
    check_anchors(run, key)


def check_anchors(run: evopolicygym.Run, key: Path) -> None:
    """Plain anchors and the plain scale do not apply; anchors of the same key do."""
    settings = RunSettings.make(task=TASK, seeds="paper", seal_key=key, variant="shifted")
    task, splits = settings.played_task(), settings.splits()
    with LocalEngine(task) as engine:
        anchors = measure(engine, task, splits, heldout_cases=2, train_cases=1, repeats=1)
    own = AnchorFile(schema_version=1, command="", splits_id=splits.id, tasks={task.id: anchors})
    for files, reason in (([stored_anchors()], "each key of a shifted task"), ([stored_anchors(), own], None)):
        (board,) = leaderboard([run.record], files).boards
        (table,) = board.tasks
        assert (reason in table.no_anchors) if reason else (table.no_anchors is None and table.trivial)
        assert all((row.normalised is None) is bool(reason) for row in table.rows)


def test_a_task_without_a_table_is_refused_before_anything_is_opened(tmp_path):
    key = tmp_path / "none" / "seal.key"
    with pytest.raises(UserError, match="CartPole-v1 has no shifted variant"):
        evopolicygym.run("CartPole-v1", submit_once, folder=tmp_path / "run", seal_key=key, **SMALL)
    assert not (tmp_path / "run").exists() and not key.parent.exists()
