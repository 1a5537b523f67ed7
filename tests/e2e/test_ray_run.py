"""Whole commands on a local Ray cluster: the same outcome, no key leaves the judge, nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from conftest import policy_source, write_policy
from evopolicygym.tasks.sealing import KEY_VARIABLE
from process_helpers import alive, descendants, wait_until
from server_helpers import COMMAND

SMALL = ("--agent", "tuner", "--budget", "16", "--validation-cases", "4", "--heldout-cases", "4", "--json")
SLEEPY = policy_source(act="import time; time.sleep(0.2); return 0")
KEY = "ab" * 32


def play(root: Path, *options: str) -> dict:
    argv = [*COMMAND, "run", "core16/acrobot", "--run", str(root), *SMALL, *options]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, env=os.environ | {KEY_VARIABLE: KEY})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow  # tests/suites/test_suite_on_ray.py compares runs on Ray, too
def test_a_run_on_ray_has_the_same_outcome(tmp_path):
    local, remote = play(tmp_path / "local"), play(tmp_path / "remote", "--engine", "ray")
    assert remote["outcome"] == local["outcome"] and remote["outcome"]["kind"] == "scored"
    for name in ("train", "verdict", "cases", "checkpoint"):
        assert [submission[name] for submission in remote["submissions"]] == [
            submission[name] for submission in local["submissions"]
        ]
    assert remote["ids"] == local["ids"] and local["isolation"]["nodes"] == []
    (node,) = remote["isolation"]["nodes"]
    assert node["level"] == remote["isolation"]["policy"] and node["seats"] >= 1 and node["refused"] == ""
    verified = subprocess.run([*COMMAND, "verify", str(tmp_path / "remote")], env=os.environ | {KEY_VARIABLE: KEY})
    assert verified.returncode == 0


@pytest.mark.parametrize("ending", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_run_on_ray_leaves_nothing_behind_and_no_key_in_ray(tmp_path, ending):
    with tempfile.TemporaryDirectory(prefix="epg-", dir="/tmp") as short:  # the names of Ray's sockets are long
        end_and_look(Path(short), tmp_path, ending)


def end_and_look(folder: Path, tmp_path: Path, ending: signal.Signals) -> None:
    argv = [*COMMAND, "evaluate", str(write_policy(tmp_path / "policy", SLEEPY)), "core16/acrobot", "--engine", "ray"]
    environment = os.environ | {"TMPDIR": str(folder), KEY_VARIABLE: KEY}
    process = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert wait_until(
        lambda: any(b"worker_entry.py" in told(entry, "cmdline") for entry in descendants(process.pid))
    )  # a seat plays
    relatives = descendants(process.pid)
    assert not [pid for pid in relatives if KEY.encode() in told(pid, "environ")]
    process.send_signal(ending)
    process.wait(timeout=300)
    assert wait_until(lambda: not alive(relatives)), alive(relatives)
    assert wait_until(lambda: not list(folder.iterdir())), list(folder.rglob("*"))


def told(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


def test_without_ray_the_command_says_how_to_get_it(tmp_path):
    code = "import sys; sys.modules['ray'] = None; from evopolicygym.cli.main import main; main()"
    policy = str(write_policy(tmp_path / "policy", SLEEPY))
    argv = [sys.executable, "-c", code, "evaluate", policy, "core16/acrobot", "--engine", "ray"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode != 0 and "pip install '.[ray]'" in done.stderr and "Traceback" not in done.stderr
