"""However a command ends, it leaves no process, no mount and no temporary file."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from conftest import policy_source, write_policy
from process_helpers import alive, descendants, wait_until

SLEEPY = policy_source(act="import time; time.sleep(0.2); return 0")


def start(
    tmp_path: Path,
    isolation: str,
    output: int = subprocess.DEVNULL,
    task: str = "core16/acrobot",
    more: tuple[str, ...] = (),
    **options: Any,
) -> subprocess.Popen[bytes]:
    policy = write_policy(tmp_path / "policy", SLEEPY)
    command = [sys.executable, "-m", "evopolicygym.cli.main", "evaluate", str(policy), task,
               "--seeds", "paper", "--jobs", "2", "--isolation", isolation, *more]  # fmt: skip
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp"), "MARK": str(tmp_path)}
    (tmp_path / "tmp").mkdir()
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=output, **options)


@pytest.mark.parametrize("isolation", ["A", "B"])
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_leaves_nothing_behind(tmp_path, isolation, ending):
    mounts = Path("/proc/self/mountinfo").read_text()
    process = start(tmp_path, isolation)
    # two workers, each with a zygote forker, a zygote (at level A an outer and an inner one) and a policy
    assert wait_until(lambda: len(descendants(process.pid)) >= (10 if isolation == "A" else 8))
    relatives = descendants(process.pid)
    process.send_signal(ending)
    code = process.wait(timeout=20)
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[ending]
    assert wait_until(lambda: not alive(relatives)), alive(relatives)
    assert wait_until(lambda: not list((tmp_path / "tmp").iterdir())), list((tmp_path / "tmp").iterdir())
    assert Path("/proc/self/mountinfo").read_text() == mounts


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_recording_leaves_nothing_behind(tmp_path, ending):
    record = tmp_path / "record"
    process = start(tmp_path, "A", task="toys:Vast-v0", more=("--cases", "0-1", "--record", str(record), "--video"))
    assert wait_until(lambda: sum(held(pid, record) for pid in descendants(process.pid)) > 4 << 20)
    relatives = descendants(process.pid)
    process.send_signal(ending)
    process.wait(timeout=20)
    assert wait_until(lambda: not alive(relatives)), alive(relatives)
    assert sorted(path.name for path in record.rglob("*")) == ["ep_000", "ep_001"]


def held(pid: int, folder: Path) -> int:
    """Return the bytes of open files of a process in a folder, deleted ones included."""
    with suppress(OSError):
        opened = list(Path(f"/proc/{pid}/fd").iterdir())
        return sum(os.stat(entry).st_size for entry in opened if os.readlink(entry).startswith(f"{folder}/"))
    return 0


@pytest.mark.parametrize("delay", [0.05, 0.3, 0.6, 0.9])
def test_a_kill_while_starting_leaves_nothing_behind(tmp_path, delay):
    process = start(tmp_path, "A")
    time.sleep(delay)
    relatives = descendants(process.pid)
    process.kill()
    process.wait()
    relatives += [pid for relative in relatives for pid in descendants(relative)]
    assert wait_until(lambda: not alive(relatives)), alive(relatives)
    assert wait_until(lambda: not list((tmp_path / "tmp").iterdir())), list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("delay", [0.05, 0.1, 0.2])
def test_ctrl_c_while_workers_start_reaches_the_command_alone(tmp_path, delay):
    """A terminal sends it to all processes in the foreground: the command must be the only one."""
    keyboard, terminal = pty.openpty()
    process = start(tmp_path, "A", terminal, stdin=terminal, preexec_fn=lambda: os.login_tty(0))
    os.close(terminal)
    assert wait_until(lambda: descendants(process.pid), step=0.005)
    time.sleep(delay)
    relatives = descendants(process.pid)
    os.write(keyboard, b"\x03")
    assert process.wait(timeout=60) == 130
    assert wait_until(lambda: not alive(relatives)), alive(relatives)
    output = os.read(keyboard, 1 << 16).decode()
    os.close(keyboard)
    assert "interrupted; every process is stopped" in output and "Traceback" not in output, output
