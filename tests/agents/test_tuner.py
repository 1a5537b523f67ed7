"""The tuner plays whole runs on a real server: its submissions are valid and repeatable, also after kills."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from builtin_helpers import AGENTS, play_builtin, start_builtin

from evopolicygym.runs.run_status import read_state
from evopolicygym.tasks.registry import CORE16_ORDER

SMALL = ("--budget", "28", "--validation-cases", "1", "--heldout-cases", "2", "--jobs", "1", "--seeds", "paper")


def submissions(server):
    """Checkpoint and cases of each, in order."""
    return [
        (submission.charged.checkpoint.hash, submission.charged.cases)
        for submission in read_state(server.root).submissions.values()
    ]


def wait_for_budget(server, remaining):
    while server.remaining() > remaining:
        time.sleep(0.05)


def test_same_seed_same_submissions_even_when_killed(serve):
    """Killed twice, once while a submission may be under way; then it goes on, and spends the budget exactly."""
    calm, hunted = (serve(*SMALL, task="core16/acrobot", name=name) for name in ("calm", "hunted"))
    first = start_builtin(calm, "tuner", seed=3)
    for remaining in (24, 12):
        second = start_builtin(hunted, "tuner", seed=3)
        wait_for_budget(hunted, remaining)
        second.kill()
        second.wait()
    assert first.wait() == 0
    assert play_builtin(hunted, "tuner", seed=3).returncode == 0
    assert submissions(calm) == submissions(hunted)
    assert calm.remaining() == hunted.remaining() == 0
    record = calm.finish()
    assert {submission["verdict"] for submission in record["submissions"]} == {"ok"}
    assert all(set(submission["train"]["errors"]) == {None} for submission in record["submissions"])
    assert record["outcome"]["heldout"]["mean"] > -200


def test_another_seed_tries_other_policies(serve):
    runs = []
    for seed in (0, 1):
        server = serve(
            "--budget", "14", "--jobs", "1", "--seeds", "paper", task="learnable_toys:Tracking-v0", name=f"s{seed}"
        )
        assert play_builtin(server, "tuner", seed=seed).returncode == 0
        runs.append(submissions(server))
    assert runs[0] != runs[1]


@pytest.mark.parametrize("toy", ["Nested-v0", "Aborting-v0"])
def test_every_kind_of_feedback_is_read(serve, toy):
    """Large arrays at any depth, and no trajectory at all where the simulator died."""
    server = serve("--budget", "4", "--jobs", "1", "--seeds", "paper", task=f"toys:{toy}")
    done = play_builtin(server, "tuner", seed=0)
    assert done.returncode == 0, done
    assert server.remaining() == 0


def test_programs_that_ship_need_no_package():
    """In the agent's jail neither this package nor a simulator can be imported."""
    allowed = {*sys.stdlib_module_names, "numpy", "scipy", "cma", "features", "actor"}
    for path in (AGENTS / "builtin").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert {name.split(".")[0] for name in names} <= allowed, path


@pytest.mark.slow
@pytest.mark.parametrize("slug", CORE16_ORDER)
def test_every_submission_is_valid_on_every_task(serve, slug):
    options = ("--budget", "40", "--validation-cases", "1", "--heldout-cases", "1", "--jobs", "2", "--seeds", "paper")
    server = serve(*options, task=f"core16/{slug}")
    done = play_builtin(server, "tuner")
    assert done.returncode == 0, done.stderr
    record = server.finish()
    assert record["budget"]["remaining"] == 0
    assert {submission["verdict"] for submission in record["submissions"]} == {"ok"}
    assert all(set(submission["train"]["errors"]) == {None} for submission in record["submissions"])


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_tuner_beats_trivial_policies():
    benchmark = Path(__file__).parents[2] / "benchmarks" / "tuner.py"
    assert subprocess.run([sys.executable, benchmark], env=os.environ).returncode == 0
