"""A user's type checker sees real types: the package ships `py.typed`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

SCRIPT = """
import evopolicygym
from evopolicygym import Workspace, evaluate, leaderboard, list_tasks, load_run, load_runs, load_task, run


def agent(workspace: Workspace) -> None:
    feedback = workspace.submit([0, 1])
    reveal_type(feedback.returns)  # tuple[float, ...]
    reveal_type(workspace.path)  # pathlib.Path


reveal_type(list_tasks())  # list[str]
reveal_type(load_task("core16/acrobot"))  # evopolicygym.tasks.task.Task
found = evaluate("folder", "core16/acrobot", split="heldout", cases=[0])
reveal_type(found)  # evopolicygym.execution.evaluation.Evaluation
reveal_type(found.mean)  # float | None
reveal_type(run("core16/acrobot", agent, budget=8))  # evopolicygym.api.results.Run
reveal_type(load_run("runs/one").score)  # float | None
reveal_type(load_runs("runs")[0])  # evopolicygym.api.results.Run
reveal_type(leaderboard(load_runs("runs")).boards)  # tuple[BOARD, ...]
reveal_type(evopolicygym.compare("a", "b"))  # evopolicygym.api.statistics.Comparison
reveal_type(evopolicygym.analyze("runs"))  # evopolicygym.api.statistics.Analysis
with evopolicygym.serve("core16/acrobot", "runs/two", budget=8) as served:
    reveal_type(served.workspace)  # evopolicygym.api.workspace.Workspace
    reveal_type(served.finish())  # evopolicygym.api.results.Run
reveal_type(evopolicygym.finish("runs/one"))  # evopolicygym.api.results.Run
reveal_type(evopolicygym.score("runs/one", all_checkpoints=True))  # evopolicygym.api.results.Run
reveal_type(evopolicygym.verify("runs/one").ok)  # bool
reveal_type(evopolicygym.run_suite("suite.toml").complete)  # bool
reveal_type(evopolicygym.suite_status("runs/suite").runs)  # evopolicygym.api.results.Runs
reveal_type(evopolicygym.write_report("runs", "page.html").page)  # pathlib.Path
reveal_type(evopolicygym.check_task("core16/acrobot")[0].ok)  # bool
reveal_type(evopolicygym.reproduce().holds)  # bool
reveal_type(evopolicygym.describe_task("core16/acrobot").text)  # str
reveal_type(evopolicygym.check_agent("tuner").ready)  # bool
"""
WRONG = """
import evopolicygym

evopolicygym.evaluate("folder", "core16/acrobot", split="test")
evopolicygym.run("core16/acrobot", lambda workspace: workspace.nothing)
evopolicygym.no_such_name
"""


EXAMPLE = Path(__file__).parents[2] / "examples/agents/random_search.py"


@pytest.fixture(scope="module")
def reported(tmp_path_factory) -> dict[str, list[str]]:
    """What mypy reports of each script: strictly, and without this repository's configuration; imports are followed
    into the installed package."""
    folder = tmp_path_factory.mktemp("typed")
    for name, script in (("right", SCRIPT), ("wrong", WRONG), ("example", EXAMPLE.read_text())):
        (folder / f"{name}.py").write_text(script)
    options = ["--strict", "--config-file=", "--python-executable", sys.executable, "--cache-dir", "cache"]
    command = [sys.executable, "-m", "mypy", *options, "right.py", "wrong.py", "example.py"]
    lines = subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout.splitlines()
    return {name: [line for line in lines if line.startswith(f"{name}.py")] for name in ("right", "wrong", "example")}


def test_a_user_of_mypy_sees_real_types(reported):
    wanted = re.findall(r"reveal_type\(.*\)  # (.*)", SCRIPT)
    seen = [text for text in reported["right"] if "Revealed type" in text]
    revealed = [re.search(r'Revealed type is "(.*)"', text)[1].replace("builtins.", "") for text in seen]
    revealed = [re.sub(r"\[evopolicygym\.analysis\.\S*, ", "[BOARD, ", text) for text in revealed]
    assert revealed == wanted


def test_mypy_reports_wrong_uses_of_the_api(reported):
    errors = [text for text in reported["wrong"] if ": error:" in text]
    assert [re.search(r"\[([a-z-]+)\]$", text)[1] for text in errors] == ["arg-type", "attr-defined", "attr-defined"]


def test_the_example_of_an_agent_is_typed(reported):
    assert not reported["example"]


def test_the_wheel_ships_the_marker_of_a_typed_package(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = ZipFile(wheel).namelist()
    assert "evopolicygym/py.typed" in names and "evopolicygym/docs/python.md" in names
    assert "evopolicygym/docs/tutorials/compare-two-agents.md" in names
