"""Turns are read in a limited child process: the same facts, and no harm from what the agent wrote."""

from __future__ import annotations

import json
import os
import resource
import threading
import time
from dataclasses import replace

import pytest

from evopolicygym.agents import definitions
from evopolicygym.agents.definitions import ExtractRule
from evopolicygym.agents.failures import FailureKind
from evopolicygym.agents.turn import ProcessExit
from evopolicygym.agents.usage import Usage
from evopolicygym.judge.shortage import WAIT_OVER, WAITING_PREFIX, ShortagePause
from evopolicygym.runs.agent import turn_reader
from evopolicygym.runs.agent.process import AgentCommand, CliAgent, TurnRequest

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
    assert turn_reader.read_turn(client, transcript, ended) == expected
    if name == "codex":
        assert (expected.session, expected.text) == ("t-1", "a lone \ud800 and \x1b[2J")


def test_a_pattern_that_never_ends_costs_the_turn_and_nothing_else(transcript, ended, monkeypatch):
    """In the judge it would hold the interpreter: no other thread ran until it ended."""
    client = definitions.load("codex").model_copy(update={"text": (ExtractRule(line=BACKTRACKING),)})
    transcript.write_text("a" * 200 + "\n")
    monkeypatch.setattr(turn_reader, "CPU_S", 1)
    answers, ticks = [], 0
    thread = threading.Thread(target=lambda: answers.append(turn_reader.read_turn(client, transcript, ended)))
    thread.start()
    while thread.is_alive():
        time.sleep(0.05)
        ticks += 1
    assert ticks >= 10
    failure = answers[0].failure
    assert failure.kind is FailureKind.CLIENT and "took more than 1 s of CPU time" in failure.text
    assert (answers[0].exit_code, answers[0].wall_s, answers[0].session) == (0, 2.5, "s-1")


def test_a_reader_that_fails_says_why(transcript, ended):
    client = definitions.load("codex").model_copy(update={"text": (ExtractRule(line="("),)})
    failure = turn_reader.read_turn(client, transcript, ended).failure
    assert failure.kind is FailureKind.CLIENT and "what it left cannot be read" in failure.text
    assert "missing ), unterminated subpattern" in failure.text


def test_a_shortage_delays_the_reading_and_changes_nothing(transcript, ended, tmp_path):
    """A real one, of open files, which ends when the user is told."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    command = AgentCommand(definitions.load("codex"), tmp_path, ended.home)
    agent = CliAgent(command, sandbox=None, level=None, transcripts=tmp_path)
    notices = []

    def notify(text: str) -> None:
        notices.append(text)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    request = TurnRequest(1, "", None, None, lambda progress: None, ShortagePause(tmp_path, notify).retry)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 2, limits[1]))
        turn = agent.recover_turn(request)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert turn.session == "t-1" and turn.failure.kind is FailureKind.INTERRUPTED
    assert [text.startswith(beginning) for text, beginning in zip(notices, (WAITING_PREFIX, WAIT_OVER), strict=True)]
