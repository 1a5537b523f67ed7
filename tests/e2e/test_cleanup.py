"""However it ends, nothing stays behind: no process, no mount, no temporary file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import policy_source, write_policy

SLEEPY = policy_source(act="import time; time.sleep(0.2); return 0")


def start(tmp_path: Path, isolation: str) -> subprocess.Popen[bytes]:
    policy = write_policy(tmp_path / "policy", SLEEPY)
    command = [sys.executable, "-m", "evopolicygym.cli.main", "evaluate", str(policy), "core16/acrobot",
               "--seeds", "paper", "--jobs", "2", "--isolation", isolation]  # fmt: skip
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp"), "MARK": str(tmp_path)}
    (tmp_path / "tmp").mkdir()
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def family(root: int) -> list[int]:
    """All descendants, whatever their session."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def wait_until(condition, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def alive(pids: list[int]) -> list[int]:
    def running(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    return [pid for pid in pids if running(pid)]


@pytest.mark.parametrize("isolation", ["A", "B"])
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(tmp_path, isolation, ending):
    mounts = Path("/proc/self/mountinfo").read_text()
    process = start(tmp_path, isolation)
    # two workers, each with a nursery, a zygote (at level A an outer and an inner one) and a policy
    assert wait_until(lambda: len(family(process.pid)) >= (10 if isolation == "A" else 8))
    relatives = family(process.pid)
    process.send_signal(ending)
    code = process.wait(timeout=20)
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[ending]
    assert wait_until(lambda: not alive(relatives)), alive(relatives)
    assert wait_until(lambda: not list((tmp_path / "tmp").iterdir())), list((tmp_path / "tmp").iterdir())
    assert Path("/proc/self/mountinfo").read_text() == mounts


@pytest.mark.parametrize("delay", [0.05, 0.3, 0.6, 0.9])
def test_killed_while_starting_leaves_nothing(tmp_path, delay):
    process = start(tmp_path, "A")
    time.sleep(delay)
    relatives = family(process.pid)
    process.kill()
    process.wait()
    relatives += [pid for relative in relatives for pid in family(relative)]
    assert wait_until(lambda: not alive(relatives)), alive(relatives)
    assert wait_until(lambda: not list((tmp_path / "tmp").iterdir())), list((tmp_path / "tmp").iterdir())
