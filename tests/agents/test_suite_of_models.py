"""Suites of agents with models: caps on spending, and provider errors."""

from __future__ import annotations

import json

import pytest
from scripted_model import ScriptedModel

from server_helpers import command

KEY = "scripted-key-that-opens-nothing"
SUITE = """
tasks = ["toys:Toy-v0"]
repeats = 3
[splits]
seeds = "paper"
validation_cases = 2
heldout_cases = 3
[defaults]
budget = 8
[cap]
tokens = {cap}
[agents.model]
model = "openai/scripted"
base_url = "{url}/v1"
retries = 0
patience_minutes = 0
"""


def test_a_cap_on_spending_stops_new_runs_and_lets_running_ones_end(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    file, folder = tmp_path / "models.toml", tmp_path / "out"
    with ScriptedModel() as model:
        file.write_text(SUITE.format(url=model.url, cap=5000))
        capped = command("suite", "run", file, "--folder", folder, "--parallel-runs", 2, "--jobs", 1, "--json")
        assert capped.returncode == 1 and "cap on spending is reached" in capped.stderr
        rows = json.loads(capped.stdout)["runs"]
        assert sorted(row["status"] for row in rows) == ["scored", "scored", "waiting"]
        assert all(row["tokens"] > 5000 for row in rows if row["status"] == "scored")
        raised = command("suite", "run", file, "--folder", folder, "--set", "cap.tokens=1000000", "--jobs", 1, "--json")
    assert raised.returncode == 0 and json.loads(raised.stdout)["complete"]


@pytest.mark.slow  # the harness has patience of its own
def test_a_run_whose_provider_is_down_is_continued(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    file, folder = tmp_path / "models.toml", tmp_path / "out"
    with ScriptedModel(fault="429") as model:
        file.write_text(SUITE.format(url=model.url, cap=10**6))
        down = command("suite", "run", file, "--folder", folder, "--set", "repeats=1", "--json")
        (row,) = json.loads(down.stdout)["runs"]
        assert down.returncode == 5 and row["status"] == "suspended" and "provider_down" in row["reason"]
        model.fault = None
        again = command("suite", "run", file, "--folder", folder, "--set", "repeats=1", "--json")
    (row,) = json.loads(again.stdout)["runs"]
    assert again.returncode == 0 and row["status"] == "scored" and row["attempts"] == 1
