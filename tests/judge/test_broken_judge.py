"""A judge with a broken dependency: the run ends as judge_fault at the first fault that is permanent."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from conftest import TESTS, policy_source, toy_task
from evopolicygym.errors import Fault, IsolationUnavailable, UserError, is_permanent
from evopolicygym.execution.records import FaultReport
from evopolicygym.runs.run_status import read_state
from server_helpers import SMALL, Server, command

MISSING = "raise ModuleNotFoundError(\"No module named 'av'\", name='av')"
NO_LIBRARY = "raise OSError('libavcodec.so.61: cannot open shared object file: No such file or directory')"
TASK = """
env_id = "toys:Toy-v0"
title = "A toy"
family = "toys"
horizon = 10
requires = ["flimsy"]
observation_space = ""
action_space = ""
objective = "Play."
reward = "The action."
termination = "After ten steps."

[failure_return]
value = -5.0
derivation = "By decree."
"""


def shadow(folder: Path, module: str, source: str) -> None:
    """Add a module that shadows one of the same name for processes with the folder first in their path."""
    (folder / module).mkdir(parents=True, exist_ok=True)
    (folder / module / "__init__.py").write_text(source)


def path_with(folder: Path) -> str:
    return os.pathsep.join([str(folder), str(TESTS)])


def kill_worker(server: Server) -> None:
    (worker,) = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    os.kill(int(worker), 9)


def starter(root: Path, folder: Path):
    options = ("--agent", "starter", "--run", root, "--budget", "8", *SMALL)
    return command("run", "toys:Toy-v0", *options, env=os.environ | {"PYTHONPATH": path_with(folder)})


def test_a_missing_package_ends_the_run_at_once_and_is_named(tmp_path):
    shadow(tmp_path / "broken", "av", MISSING)
    done = starter(tmp_path / "runs" / "run", tmp_path / "broken")
    assert done.returncode == 4, done.stderr
    assert "No module named 'av'" in done.stderr and "doctor" in done.stderr and "no_ok_submit" not in done.stdout
    record = json.loads((tmp_path / "runs" / "run" / "run.json").read_text())
    assert record["outcome"]["kind"] == "judge_fault" and "No module named 'av'" in record["outcome"]["cause"]
    assert record["budget"] | {"refused": 0} == {"total": 8, "charged": 0, "remaining": 8, "refunds": 1, "refused": 0}
    assert record["times"]["closed_because"] == "judge_faults"
    assert "No module named 'av'" in (tmp_path / "runs/run/logs/agent/turn_001.out").read_text()
    assert command("verify", tmp_path / "runs" / "run").returncode == 0
    board = command("leaderboard", tmp_path / "runs", "--json")
    (missing,) = json.loads(board.stdout)["boards"][0]["tasks"][0]["missing"]
    assert board.returncode == 1 and "No module named 'av'" in missing["reason"]


def test_the_control_with_all_packages_is_scored(tmp_path):
    done = starter(tmp_path / "run", tmp_path / "nothing-here")
    assert done.returncode == 0, done.stderr
    outcome = json.loads((tmp_path / "run" / "run.json").read_text())["outcome"]
    assert outcome["kind"] == "scored" and outcome["cause"] is None


def test_the_response_to_the_agent_names_the_fault_and_says_to_stop(serve, tmp_path):
    shadow(tmp_path / "broken", "av", NO_LIBRARY)
    server = serve(PYTHONPATH=path_with(tmp_path / "broken"))
    server.policy()
    done = server.client("0-1")
    assert done.returncode == 4
    for words in ("the judge is broken", "libavcodec.so.61", "refunded", "policy needs no change", "stop here"):
        assert words in done.stderr
    code, refused = server.submit([0])
    assert code == 409 and refused["status"] == "run_closed" and "libavcodec.so.61" in refused["message"]
    assert refused["remaining_budget"] == 128
    assert server.finish(exit_code=4)["outcome"]["kind"] == "judge_fault"
    assert server.process.returncode == 4


def test_a_run_ended_by_a_vanished_package_is_finished_when_it_is_back(serve, tmp_path):
    """Earlier submissions are scored. Until the package is back, `finish` fails with the cause and changes nothing."""
    (tmp_path / "task.toml").write_text(TASK)
    shadow(tmp_path / "own", "flimsy", "")
    server = serve(task=str(tmp_path / "task.toml"), PYTHONPATH=path_with(tmp_path / "own"))
    server.policy()
    assert server.submit([0])[1]["status"] == "ok"
    shadow(tmp_path / "own", "flimsy", "import something_that_is_not_there")
    kill_worker(server)
    code, fault = server.submit([0])
    assert code == 503 and "something_that_is_not_there" in fault["message"] and "stop here" in fault["message"]
    state = read_state(server.root)
    assert state.refunds == 1 and state.remaining == 127
    failed = command("finish", server.root)
    assert failed.returncode == 4 and "something_that_is_not_there" in failed.stderr
    assert server.process.wait(60) == 4 and read_state(server.root).phase == "closed"
    shadow(tmp_path / "own", "flimsy", "")
    done = command("finish", server.root, "--json", env=os.environ | {"PYTHONPATH": path_with(tmp_path / "own")})
    outcome = json.loads(done.stdout)["outcome"]
    assert done.returncode == 4 and "something_that_is_not_there" in outcome["cause"], "its user learns of it"
    assert outcome["kind"] == "scored" and outcome["heldout"] is not None, "or breaking the judge were another try"


def test_a_run_with_refunded_submissions_alone_is_a_judge_fault(serve, tmp_path):
    server = serve(task="toys:Flaky-v0", TOY_MARKER=str(tmp_path / "marker"))
    server.policy()
    code, fault = server.submit([0])
    assert code == 503 and "submit again" in fault["message"]
    assert read_state(server.root).phase == "open"
    outcome = server.finish(exit_code=4)["outcome"]
    assert outcome["kind"] == "judge_fault" and "only once" in outcome["cause"]


def test_a_failed_import_of_the_simulator_is_a_fault_not_an_episode_error(policy_player):
    (outcome,) = policy_player(toy_task("Importing-v0")).outcomes(policy_source())
    assert isinstance(outcome, FaultReport) and outcome.permanent
    assert "a_package_that_nobody_has" in outcome.text


def test_a_run_that_cannot_open_leaves_nothing_behind(tmp_path):
    (tmp_path / "task.toml").write_text(TASK)
    for agent in (("run", "--agent", "starter"), ("serve",)):
        arguments = [agent[0], tmp_path / "task.toml", *agent[1:], "--run", tmp_path / "run", *SMALL]
        refused = command(*arguments)
        assert refused.returncode == 2 and "needs flimsy, which does not import" in refused.stderr
        assert "pip install flimsy" in refused.stderr and not (tmp_path / "run").exists()


def raised(error: Exception, cause: BaseException | None = None) -> Exception:
    try:
        raise error from cause
    except Exception as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (ModuleNotFoundError("No module named 'av'"), True),
        (raised(RuntimeError("pygame is not installed"), ImportError("libSDL2.so")), True),
        (OSError("libEGL.so.1: cannot open shared object file"), True),
        (UserError("the task cannot be played here"), True),
        (Fault("a mood", permanent=True), True),
        (Fault("the zygote forker is gone"), False),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (raised(ImportError("cannot map a library"), OSError(errno.EMFILE, "Too many open files")), False),
        (raised(UserError("a worker cannot start"), OSError(errno.EAGAIN, "Try again")), False),
        (raised(ImportError("no room"), MemoryError()), False),
        (IsolationUnavailable({"A": "not permitted"}, errno=errno.EPERM), True),
        (IsolationUnavailable({"A": "no memory"}, errno=errno.ENOMEM), False),
        (ValueError("anything else"), False),
    ],
)
def test_which_errors_are_permanent(error, permanent):
    assert is_permanent(error) is permanent
