"""Runs of a generated task: recorded with their scale, continued and verified with the recorded draw, silent about the
key."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import evopolicygym
from evopolicygym.analysis.leaderboard.build import leaderboard
from evopolicygym.cli.text.run import show_outcome
from evopolicygym.record_checks import contradiction
from evopolicygym.run_record import RunRecord
from evopolicygym.tasks.novel import generate
from evopolicygym.tasks.novel.generate import world_key
from evopolicygym.tasks.sealing import create_key
from forged_runs import forge

TASK = "novel/control-1"
KEY = bytes(range(32))
SMALL = {"budget": 2, "validation_cases": 1, "heldout_cases": 2}
POLICY = """
class Policy:
    def __init__(self, obs_space, action_space, env_meta): print(env_meta)
    def reset(self, episode_index): pass
    def act(self, obs): return [0.1 * float(obs[0])]
"""
AGENT = """
import json, os, pathlib, subprocess, sys
cache, *_ = sys.argv[1:]
subprocess.run([sys.executable, "submit.py", "0-1"], check=True)
readable = []
for folder in (cache, os.path.expanduser("~/.cache/evopolicygym")):
    readable += [str(path) for path in pathlib.Path(folder).rglob("*")]
files = [path for path in pathlib.Path(".").rglob("*") if path.is_file()]
named = [str(path) for path in files if b"novel/" in path.read_bytes() or b"control-1" in path.read_bytes()]
named += [name for name, value in os.environ.items() if "novel/" in value or "control-1" in value]
print("SEEN", json.dumps([readable, named]))
"""


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "seal.key"
    path.write_text(KEY.hex())
    path.chmod(0o600)
    return path


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """Make the generator forget what it drew, as on another machine."""

    def forget() -> None:
        monkeypatch.setenv(generate.CACHE_VARIABLE, str(tmp_path / "empty"))
        generate._cached.cache_clear()

    return forget


def check_failed_episode(run: Path, copy: Path, capsys) -> None:
    """A failed episode counts as the lower end of the scale, for what is printed and for tables."""
    record = json.loads((run / "run.json").read_text())
    scale, heldout = record["task"]["scale"], record["outcome"]["heldout"]
    (selected,) = (checkpoint for checkpoint in record["checkpoints"] if checkpoint["heldout"] == heldout)
    heldout["errors"][0] = selected["heldout"]["errors"][0] = "act_error"
    copy.mkdir()
    (copy / "run.json").write_text(json.dumps(record))
    show_outcome(copy, json=False)
    low, returns = scale["low"], [scale["low"], *heldout["returns"][1:]]
    expected = (sum(returns) / len(returns) - low) / (scale["high"] - low)
    assert f"normalised   {expected:.3f}: " in capsys.readouterr().out
    (normalised,) = evopolicygym.load_runs(copy).runs["normalised"]
    assert normalised == pytest.approx(expected, abs=1e-12)


def verify(folder: Path, key: Path) -> subprocess.CompletedProcess[str]:
    environment = {"EVOPOLICYGYM_SEAL_KEY_FILE": str(key), "PATH": "/usr/bin:/bin", "HOME": str(folder.parent)}
    command = [sys.executable, "-m", "evopolicygym", "verify", str(folder), "--jobs", "1"]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_a_run_is_continued_and_verified_with_the_recorded_draw(tmp_path, key, empty_cache, capsys):
    folder = tmp_path / "run"
    with evopolicygym.serve(TASK, folder, seal_key=key, **SMALL) as served:
        served.workspace.policy.write_text(POLICY)
        served.workspace.submit([0, 1])
    capsys.readouterr()
    empty_cache()
    run = evopolicygym.finish(folder)
    assert run.outcome == "scored" and "drawing" not in capsys.readouterr().err
    scale, options = run.record.task.scale, run.record.ids.fingerprint["env_options"]
    show_outcome(folder, json=False)
    normalised = (run.record.outcome.heldout.mean - scale.low) / (scale.high - scale.low)
    assert f"normalised   {normalised:.3f}: 0 is the best trivial policy ({scale.low:.6g})" in capsys.readouterr().out
    assert scale and options == {"draw": scale.draws - 1, "low": scale.low, "high": scale.high}
    check_failed_episode(folder, tmp_path / "failed", capsys)
    (board,) = leaderboard([run.record], ()).boards
    (row,) = board.tasks[0].rows
    assert row.normalised == pytest.approx((run.score - scale.low) / (scale.high - scale.low))
    again = verify(folder, key)
    assert again.returncode == 0 and "drawing" not in again.stderr, again.stdout + again.stderr
    create_key(tmp_path / "other.key")
    refused = verify(folder, tmp_path / "other.key")
    assert refused.returncode != 0 and "key" in refused.stdout + refused.stderr
    check_silent(folder)
    check_forged_scale(folder, key)
    check_forged(run.record)


def check_silent(folder: Path) -> None:
    """Neither the sealing key nor the key of the world is in the run's folder."""
    secrets = [
        secret for key in (KEY, world_key(TASK, KEY)) for secret in (key, key.hex().encode(), repr(key).encode())
    ]
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not any(secret in data for secret in secrets), path


def check_forged_scale(folder: Path, key: Path) -> None:
    """Whoever has the key measures the scale again; without it, verify says that it is not confirmed."""

    def change(facts: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        for table in (facts["task"]["scale"], fingerprint["env_options"]):
            table["high"] = table["low"] + 1e-3

    forged = forge(folder, folder.with_name("forged"), change)
    printed = verify(forged, key).stdout
    assert "the recorded scale is" in printed and "ok   replay" in printed, printed
    assert "the scale of the task is not confirmed" in verify(forged, folder / "missing.key").stdout


def check_forged(record: RunRecord) -> None:
    """A scale that is not the one behind the comparable_id is a contradiction."""
    data = record.model_dump()
    data["task"]["scale"]["high"] += 1.0
    assert contradiction(record) is None
    assert contradiction(RunRecord.model_validate(data)) == "scale is not the one in its fingerprint"


def test_a_blind_agent_reads_neither_the_cache_nor_the_name(tmp_path, key):
    (tmp_path / "agent.py").write_text(AGENT)
    cache = generate._cache_folder()
    evopolicygym.load_task(TASK, seal_key=key)
    assert list(cache.iterdir())
    run = tmp_path / "run"
    options = ["--text", "blind", "--budget", "2", "--validation-cases", "1", "--heldout-cases", "1", "--seal-key", key]
    command = ["run", TASK, "--run", run, *options, "--agent", "command", "--", "python3", tmp_path / "agent.py", cache]
    done = subprocess.run([sys.executable, "-m", "evopolicygym", *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = (run / "logs/agent/turn_001.out").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("SEEN")]
    readable, named = json.loads(line.removeprefix("SEEN "))
    assert readable == [] and named == []
