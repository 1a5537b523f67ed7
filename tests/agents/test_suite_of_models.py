"""Suites of agents with models: caps on spending, and provider errors."""

from __future__ import annotations

import json
import threading
import time

import pytest
from evolution_script import evolve
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


def test_a_cap_ends_all_runs_with_the_call_that_would_exceed_it(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    file, folder = tmp_path / "models.toml", tmp_path / "out"
    options = ("--folder", folder, "--parallel-runs", 2, "--jobs", 1, "--json")
    with ScriptedModel() as model:
        file.write_text(SUITE.format(url=model.url, cap=10**6))
        capped = command("suite", "run", file, *options, "--max-requests", 7)
        assert capped.returncode == 1 and "the suite's cap is reached" in capped.stderr
        rows = json.loads(capped.stdout)["runs"]
        begun = [row for row in rows if row["status"] != "waiting"]
        assert len(begun) == 2 and sum(row["requests"] for row in begun) == len(model.seen) == 7
        assert {row["reason"] for row in begun} <= {"limit_suite_requests", "agent_never_worked"}
        raised = command("suite", "run", folder, "--set", "repeats=3", "--max-requests", 1000, "--jobs", 1, "--json")
    assert raised.returncode == 0 and json.loads(raised.stdout)["complete"]


class OnceLimited(ScriptedModel):
    """Refuses one call with 429 and asks to retry after six seconds. ``times``: when each call arrived."""

    def __init__(self, number: int) -> None:
        self._number, self._of_thread = number, threading.local()  # a connection has a thread of its own
        self.times: list[float] = []
        super().__init__(self._play)

    @property
    def fault(self) -> str | None:
        return getattr(self._of_thread, "fault", None)

    @fault.setter
    def fault(self, value: str | None) -> None:
        self._of_thread.fault = value

    def _play(self, history):
        self.times.append(time.monotonic())
        self.fault = "429:6" if len(self.times) == self._number else None
        return evolve(history)


def test_runs_of_a_suite_wait_together(tmp_path, monkeypatch):
    """One run is told to wait, and the other one, a process of its own with the same key, makes no call meanwhile but
    the one that may be on its way. No client sees the refusal."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    file, folder = tmp_path / "models.toml", tmp_path / "out"
    with OnceLimited(4) as model:
        text = SUITE.format(url=model.url, cap=10**6).replace("patience_minutes = 0", "patience_minutes = 5")
        file.write_text(text.replace("repeats = 3", "repeats = 2"))
        done = command("suite", "run", file, "--folder", folder, "--parallel-runs", 2, "--jobs", 1, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["complete"], done.stderr
    records = [json.loads(path.read_text()) for path in folder.glob("**/run.json")]
    calls = [turn["calls"] for record in records for turn in record["turns"]]
    assert len(records) == 2 and sum(call["retries"] for call in calls) == 1
    assert not any(turn["failure"] for record in records for turn in record["turns"])
    refused_at = model.times[3]
    assert len([moment for moment in model.times[4:] if moment < refused_at + 5.5]) <= 1


@pytest.mark.slow
@pytest.mark.timeout(1200)  # the harness has patience of its own: two minutes in each of three attempts
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


def test_a_live_preflight_asks_each_model_for_one_word(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    file, folder = tmp_path / "models.toml", tmp_path / "out"
    check = ("suite", "run", file, "--folder", folder, "--dry-run", "--live", "--json")
    with ScriptedModel() as model:
        file.write_text(SUITE.format(url=model.url, cap=10**6))
        ready = command(*check)
        assert ready.returncode == 0 and model.seen, ready.stdout
        model.fault = "401"
        refused = command(*check)
    (answered,), (failed,) = (
        [check for check in json.loads(done.stdout)["preflight"]["checks"] if check["kind"] == "agent"]
        for done in (ready, refused)
    )
    assert answered["ok"] and "answered in" in answered["detail"]
    assert refused.returncode == 1 and not failed["ok"] and "401" in failed["detail"], failed
    assert not folder.exists()
