"""However an agent ends, no process that it started is left."""

from __future__ import annotations

import os
import secrets
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agent_testbed import AgentTestbed

from evopolicygym.sandbox.agent.agent_sandbox import AgentLevel
from process_helpers import wait_until

HERE = Path(__file__).parent
LEVELS = list(AgentLevel)
WITHOUT_NAMESPACE = [AgentLevel.B, AgentLevel.NONE]
# Two forks and a session of its own, deaf to all that can be ignored, and holding our output open.
DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        open("alive", "w").close()
        time.sleep(600)
    os._exit(0)
while not os.path.exists("alive"):
    time.sleep(0.01)
"""
BOMB = """
import os, time
open("alive", "w").close()
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.001)
"""
# Always a new process, never an old one.
CHAIN = """
import os, time
open("alive", "w").close()
while True:
    if os.fork():
        os._exit(0)
    time.sleep(0.0005)
"""


@pytest.fixture(scope="module")
def testbed():
    with AgentTestbed() as opened:
        yield opened


@pytest.fixture
def mark(testbed):
    (testbed.workspace / "alive").unlink(missing_ok=True)
    return f"mark-{secrets.token_hex(8)}"


def marked(mark: str) -> list[int]:
    """Return the processes of the agent, found by an argument that they all have."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "cmdline").read_bytes():
                pids.append(int(folder.name))
        except OSError:
            continue
    return pids


@pytest.mark.parametrize("level", LEVELS)
class TestEnds:
    def test_exit_codes_pass_through(self, testbed, level):
        assert testbed.shell("exit 7", level)[0] == 7
        assert testbed.shell("kill -KILL $$", level)[0] == 128 + signal.SIGKILL

    def test_a_running_program_is_waited_for_and_can_be_terminated(self, testbed, level):
        script = "trap 'exit 5' TERM; touch alive; while :; do sleep 0.05; done"
        (testbed.workspace / "alive").unlink(missing_ok=True)
        with testbed.start(["/bin/bash", "-c", script], level) as process:
            assert process.wait(0.05) is None
            assert wait_until((testbed.workspace / "alive").exists)
            process.terminate()
            assert process.wait(60) == 5

    def test_background_processes_end_with_the_program(self, testbed, level, mark):
        code, text = testbed.run(["python", "-c", DAEMON, mark], level)
        assert (code, marked(mark)) == (0, []), text
        assert (testbed.workspace / "alive").exists()

    def test_kill_ends_all_processes(self, testbed, level, mark):
        reader, writer = os.pipe()
        with testbed.start(["python", "-c", f"{DAEMON}\ntime.sleep(600)", mark], level, output=writer) as process:
            os.close(writer)
            assert wait_until((testbed.workspace / "alive").exists)
            assert marked(mark)
            process.kill()
            assert marked(mark) == []
            process.kill()  # again does no harm
        assert os.read(reader, 1) == b""  # nobody holds the output
        os.close(reader)

    @pytest.mark.parametrize("source", [BOMB, CHAIN], ids=["bomb", "chain"])
    def test_a_fork_bomb_is_bounded_and_ends(self, testbed, level, mark, source):
        if level is AgentLevel.NONE and source is BOMB:
            pytest.skip("there is no limit of processes without isolation")
        with testbed.start(["python", "-c", source, mark], level, processes=80) as process:
            assert wait_until((testbed.workspace / "alive").exists)
            time.sleep(1)
            assert len(marked(mark)) <= 80
            process.kill()
        assert marked(mark) == []

    def test_the_agent_ends_when_the_judge_is_killed(self, testbed, level, mark):
        source = f"{DAEMON}\ntime.sleep(600)"
        judge = subprocess.Popen(
            [sys.executable, str(HERE / "short_lived_judge.py"), level, mark, source, str(testbed.folder)]
        )
        try:
            assert wait_until((testbed.workspace / "alive").exists)
            assert marked(mark)
        finally:
            judge.kill()
            judge.wait()
        assert wait_until(lambda: not [pid for pid in marked(mark) if pid != judge.pid])
        assert wait_until(lambda: stat.S_IMODE(testbed.folder.stat().st_mode) == 0o700)  # permissions are restored
