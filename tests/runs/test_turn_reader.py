"""Turns are read in a limited child process: the same facts, and no harm from what the agent wrote."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from evopolicygym.agents import definitions
from evopolicygym.agents.definitions import ExtractRule
from evopolicygym.agents.failures import FailureKind
from evopolicygym.agents.turn import ProcessExit, Turn
from evopolicygym.agents.usage import Usage
from evopolicygym.errors import Fault
from evopolicygym.judge.shortage import WAIT_OVER, WAITING_PREFIX, ShortagePause, scarce_resource
from evopolicygym.judge.state import RunPhase
from evopolicygym.runs.agent import turn_reader
from evopolicygym.runs.agent.limits import AgentLimits, TurnProgress, TurnWatch
from evopolicygym.runs.agent.loop import AgentLoop, NoSharing, turn_event
from evopolicygym.runs.agent.process import AgentCommand, CliAgent, TurnRequest
from evopolicygym.runs.agent.turn_files import Heartbeat
from evopolicygym.runs.serve import _RunService
from evopolicygym.sandbox import limited_process
from process_helpers import alive, descendants, wait_until

ENDED = ProcessExit(0, 2.5, home=None, session="s-1", before=Usage(10, output=1))
BACKTRACKING = r"(?:(?:a|aa)+)+(b)"  # takes exponential time over a line of a's


@pytest.fixture
def transcript(tmp_path):
    path = tmp_path / "turn_001.out"
    events = [
        {"type": "thread.started", "thread_id": "t-1"},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "a lone \ud800 and \x1b[2J"}},
        {"type": "turn.completed", "usage": {"input_tokens": 30, "cached_input_tokens": 5, "output_tokens": 7}},
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + "no JSON \udcff", errors="surrogateescape")
    return path


@pytest.fixture
def ended(tmp_path):
    (tmp_path / "home").mkdir()
    return replace(ENDED, home=tmp_path / "home")


@pytest.mark.parametrize("name", [*definitions.names(), definitions.COMMAND])
def test_the_child_reads_what_the_definition_says(name, transcript, ended):
    client = definitions.load(name)
    with transcript.open(errors="replace") as lines:
        expected = client.read(lines, ended)
    assert turn_reader.read_turn_in_child(client, transcript, ended) == expected
    if name == "codex":
        assert (expected.session, expected.text) == ("t-1", "a lone \ud800 and \x1b[2J")


def test_a_pattern_that_never_ends_costs_the_turn_and_nothing_else(transcript, ended, monkeypatch):
    """In the judge it would hold the interpreter: no other thread ran until it ended."""
    client = definitions.load("codex").model_copy(update={"text": (ExtractRule(line=BACKTRACKING),)})
    transcript.write_text("a" * 200 + "\n")
    monkeypatch.setattr(turn_reader, "CPU_S", 1)
    answers, ticks = [], 0
    thread = threading.Thread(target=lambda: answers.append(turn_reader.read_turn_in_child(client, transcript, ended)))
    thread.start()
    while thread.is_alive():
        time.sleep(0.05)
        ticks += 1
    assert ticks >= 10
    failure = answers[0].failure
    assert failure.kind is FailureKind.CLIENT and "reading it took more than" in failure.text
    assert (answers[0].exit_code, answers[0].wall_s, answers[0].session) == (0, 2.5, "s-1")


SLOW = """
import sys
from pathlib import Path
from evopolicygym.agents import definitions
from evopolicygym.agents.definitions import ExtractRule
from evopolicygym.agents.turn import ProcessExit
from evopolicygym.runs.agent.turn_reader import read_turn_in_child
client = definitions.load("codex").model_copy(update={"text": (ExtractRule(line=sys.argv[2]),)})
read_turn_in_child(client, Path(sys.argv[1]), ProcessExit(0, 1.0, Path("/nonexistent")))
"""


@pytest.fixture
def slow_reading(transcript):
    """A process that reads a turn, and the process that it started for that, which works."""
    transcript.write_text("a" * 200 + "\n")
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(transcript), BACKTRACKING], stderr=subprocess.PIPE, start_new_session=True
    )
    assert wait_until(lambda: any(b"turn_reader_child" in command_line(pid) for pid in descendants(process.pid)))
    yield process, descendants(process.pid)[0]
    process.kill()
    process.communicate()


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_the_reader_dies_with_its_judge(slow_reading):
    judge, reader = slow_reading
    judge.kill()
    judge.wait()
    assert wait_until(lambda: not alive([reader]))


def test_ctrl_c_does_not_reach_the_reader(slow_reading):
    """It goes to the group of the judge. A reader that it ended would be recorded as the agent's failure."""
    judge, reader = slow_reading
    assert os.getpgid(reader) == reader != os.getpgid(judge.pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_reader_that_somebody_kills_is_no_failure_of_the_agent(number, slow_reading):
    """The kernel does, and programs that watch over memory. The run's pause reads the turn again, as below."""
    judge, reader = slow_reading
    os.kill(reader, number)
    _, words = judge.communicate(timeout=120)
    assert b"ReaderLost: [Errno 12]" in words and b"was killed" in words


def test_the_reader_needs_no_disk(transcript, ended, monkeypatch):
    """An agent can fill it, and hid its tokens from the judge by that."""
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    assert turn_reader.read_turn_in_child(definitions.load("codex"), transcript, ended).usage


def test_any_search_path_of_the_judge_will_do(transcript, ended, tmp_path, monkeypatch):
    """Python ignores entries that are no text. A colon separates nothing here: code beside the package never runs."""
    installed, beside = tmp_path / "a:b", tmp_path / "a" / "evopolicygym"
    for folder in (installed, beside):
        folder.mkdir(parents=True)
    (installed / "evopolicygym").symlink_to(Path(limited_process.PACKAGE_ROOT) / "evopolicygym")
    (beside / "__init__.py").write_text("raise SystemExit(3)")
    monkeypatch.setattr(limited_process, "PACKAGE_ROOT", str(installed))
    monkeypatch.setattr(sys, "path", [tmp_path, None, "", "relative", "/long" * 40_000, *sys.path])
    turn = turn_reader.read_turn_in_child(definitions.load("codex"), transcript, ended)
    assert turn.session == "t-1" and turn.failure is None


def test_a_reader_that_fails_says_why(transcript, ended):
    client = definitions.load("codex").model_copy(update={"text": (ExtractRule(line="("),)})
    failure = turn_reader.read_turn_in_child(client, transcript, ended).failure
    assert failure.kind is FailureKind.CLIENT and "what it left cannot be read" in failure.text
    assert "missing ), unterminated subpattern" in failure.text


def test_a_reader_without_descriptors_is_no_failure_of_the_agent(transcript, ended):
    """A lease makes the kernel refuse to open the transcript with the number of a shortage."""
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel's note that somebody wants to open it
    lease = os.open(transcript, os.O_RDWR)
    try:
        try:
            fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            pytest.skip(f"no leases on this file system: {error.strerror}")
        with pytest.raises(turn_reader.ReaderLost) as lost:
            turn_reader.read_turn_in_child(definitions.load("codex"), transcript, ended)
        assert lost.value.errno == errno.EAGAIN
    finally:
        os.close(lease)
        signal.signal(signal.SIGIO, before)
    assert turn_reader.read_turn_in_child(definitions.load("codex"), transcript, ended).session == "t-1"


def test_an_installation_that_breaks_during_a_run_is_a_fault_of_the_judge(transcript, ended, tmp_path, monkeypatch):
    """As an agent's failure, it would end the run after three turns."""
    monkeypatch.setattr(limited_process, "PACKAGE_ROOT", str(tmp_path))
    with pytest.raises(Fault, match="ended with exit code 1"):
        turn_reader.read_turn_in_child(definitions.load("codex"), transcript, ended)


@pytest.fixture
def agent(ended, tmp_path):
    """It has lived for 9 s in its first turn."""
    agent = CliAgent(AgentCommand(definitions.load("codex"), tmp_path, ended.home), None, None, transcripts=tmp_path)
    Heartbeat(tmp_path).beat(1, 9.0)
    return agent


@contextmanager
def no_open_files():
    """Let this process open nothing; yield what ends that."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)

    def end() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    try:
        yield end
    finally:
        end()


def test_a_shortage_delays_the_reading_and_changes_nothing(transcript, agent, tmp_path):
    """A real one, of open files, which ends when the user is told."""
    notices = []
    with no_open_files() as end:
        pause = ShortagePause(tmp_path, lambda text: (notices.append(text), end()))
        turn = agent.recover_turn(TurnRequest(1, "", None, None, lambda progress: None, pause.retry))
    assert (turn.session, turn.wall_s, turn.failure.kind) == ("t-1", 9.0, FailureKind.INTERRUPTED)
    assert [text.startswith(beginning) for text, beginning in zip(notices, (WAITING_PREFIX, WAIT_OVER), strict=True)]


def test_a_run_that_is_stopped_in_a_shortage_leaves_the_turn_to_a_resumed_one(transcript, agent, tmp_path):
    """Nothing is recorded, and nothing looks like a shortage in which the turn could be played again."""
    judge = SimpleNamespace(shortage=ShortagePause(tmp_path, lambda text: loop.stop.set()))
    loop = AgentLoop(judge, agent, AgentLimits(), NoSharing(), None)
    request = TurnRequest(1, "", None, None, lambda progress: None, loop._retry)
    with no_open_files(), pytest.raises(Fault, match="cannot be read: Too many open files") as fault:
        agent.recover_turn(request)
    assert scarce_resource(fault.value) is None
    assert agent.recover_turn(request).session == "t-1"


def test_one_look_at_a_time_is_taken_at_the_turns_of_a_run(transcript, agent, ended, monkeypatch):
    """Each may take minutes and 2 GiB, and goes on when its turn is over."""
    client = definitions.load("codex").model_copy(update={"text": (ExtractRule(line=BACKTRACKING),)})
    monkeypatch.setattr(turn_reader, "CPU_S", 3)
    monkeypatch.setattr(agent, "_command", replace(agent._command, client=client))
    transcript.write_text("a" * 200 + "\n")
    first = threading.Thread(target=agent._read_now, args=(transcript, ended))
    first.start()
    assert wait_until(agent._looking.locked)
    assert "is still being read" in agent._read_now(transcript, ended).failure.text
    first.join()
    assert "took more than 3 s" in agent._read_now(transcript, ended).failure.text


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_turn_that_cannot_be_recorded_keeps_a_run_from_being_finished(is_finished, tmp_path):
    """`finish` says so, and can be repeated."""

    async def play() -> str:
        try:
            await asyncio.sleep(60 if is_finished else 0)
        finally:
            raise Fault("how a turn ended cannot be read")

    async def end() -> str:
        broken = asyncio.get_running_loop().create_future()
        service = _RunService(None, SimpleNamespace(broken=broken))
        if is_finished:
            service._finish_requested.set()
        return await service.wait_for_end(play())

    with pytest.raises(Fault, match="cannot be read"):
        asyncio.run(end())


def test_limits_are_watched_while_a_turn_is_read(tmp_path):
    """It may have printed so much that this takes minutes."""
    may_end = threading.Event()

    def read_turn() -> Turn:
        may_end.wait(60)
        return Turn(None, 0.0, usage=Usage(output=100))

    state = SimpleNamespace(turns=[], phase=RunPhase.OPEN, submissions={})
    judge = SimpleNamespace(state=state, activity=SimpleNamespace())
    watch = TurnWatch(judge, AgentLimits(tokens=10), threading.Event(), lambda turn: turn_event(turn, 0, None, None))
    progress = TurnProgress(lambda: 0, read_turn)
    watch._next_look_at = 0.0
    assert watch(progress) is None and watch(progress) is None, "it does not wait"
    may_end.set()
    assert wait_until(lambda: watch(progress) is not None)
