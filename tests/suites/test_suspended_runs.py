"""Runs of a suite that are suspended are started again at its end, a few times, and the status says so."""

from __future__ import annotations

import json
import os
import subprocess

from server_helpers import COMMAND

SUITE = """
tasks = ["toys:Toy-v0"]
splits = {{seeds = "paper", validation_cases = 1, heldout_cases = 1}}
defaults = {{budget = 4}}
[agents.passing]
name = "command"
command = ["bash", "-c", {passing!r}]
retries = 0
[agents.faking]
name = "command"
command = ["bash", "-c", "test -e tried || python3 submit.py 0-1; touch tried; exit 75"]
retries = 0
[agents.lasting]
name = "command"
command = ["bash", "-c", "exit 77"]
"""
# Its network comes back after two starts.
PASSING = "echo x >> starts; test $(wc -l < starts) -gt 2 || exit 75; python3 submit.py 0-3"


def test_suspended_runs_are_retried_at_the_end(tmp_path):
    file, folder = tmp_path / "trouble.toml", tmp_path / "out"
    file.write_text(SUITE.format(passing=PASSING))
    words = [*COMMAND, "suite", "run", str(file), "--folder", str(folder), "--jobs", "1", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env=os.environ)
    faking, lasting, passing = sorted(json.loads(done.stdout)["runs"], key=lambda row: row["agent"])
    assert done.returncode == 5, done.stderr
    assert passing["status"] == "scored" and passing["charged"] == 4 and passing["attempts"] == 1
    assert faking["status"] == "scored" and faking["charged"] == 2, "an agent cannot keep its score from the board"
    assert faking["reason"] == "agent_failed" and faking["attempts"] == 1
    assert lasting["status"] == "suspended" and lasting["score"] is None
    assert lasting["reason"] == "authentication: exit code 77 (started 3 times)"
