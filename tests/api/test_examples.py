"""The code of docs/python.md and of examples/ runs as it is written."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import evopolicygym

REPOSITORY = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (REPOSITORY / "docs/python.md").read_text(), re.M | re.S)
SEARCH = REPOSITORY / "examples/agents/random_search.py"


def test_the_code_of_the_page_runs_from_top_to_bottom(tmp_path):
    """In one program: later blocks use what earlier ones made."""
    assert len(BLOCKS) >= 8
    (tmp_path / "page.py").write_text("\n".join(BLOCKS))
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    done = subprocess.run([sys.executable, "-W", "error", "page.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    played = sorted(evopolicygym.load_runs(tmp_path / "runs"), key=lambda run: run.record.times.opened)
    entered, searched, shipped = played
    assert (entered.name, entered.outcome, entered.record.entered) == ("hand-made", "scored", True)
    assert (searched.agent, searched.outcome, len(searched.record.submissions)) == ("python:random_search", "scored", 8)
    assert (shipped.agent, shipped.publishable) == ("starter", True)
    assert all(text in done.stdout for text in ("core16/acrobot", "Pendulum", "parametric_edits", "finished"))


def test_ten_lines_are_enough_for_a_random_search():
    functions = [node for block in BLOCKS for node in ast.walk(ast.parse(block)) if isinstance(node, ast.FunctionDef)]
    (search,) = [node for node in functions if node.name == "random_search"]
    assert (search.end_lineno or 0) - search.lineno + 1 <= 10


@pytest.mark.parametrize("task", ["core16/acrobot", REPOSITORY / "examples/tasks/pendulum.toml"])
def test_the_agent_plays_discrete_and_continuous_tasks(tmp_path, task):
    options = ["--task", str(task), "--budget", "8", "--folder", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, str(SEARCH), *options], capture_output=True, text=True)
    assert done.returncode == 0 and "scored, held-out score" in done.stdout, done.stderr
    run = evopolicygym.load_run(tmp_path / "run")
    assert run.agent == "python:random_search" and run.score == run.record.outcome.heldout.mean
    assert all(submission.verdict == "ok" for submission in run.record.submissions)
    assert not any(error for submission in run.record.submissions for error in submission.train.errors)


def test_the_task_file_passes_the_conformance_check():
    command = [sys.executable, "-m", "evopolicygym", "task", "check", "examples/tasks/pendulum.toml"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0 and "FAIL" not in done.stdout, done.stdout + done.stderr
