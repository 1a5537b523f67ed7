"""Agents that read and write JSON lines: real processes, correct and faulty ones."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from evopolicygym.agents.json_lines import AgentReply, Conversation, MalformedReply, parse_reply, prompt_line
from evopolicygym.agents.usage import Usage

ECHO = """
import json, sys
print("starting up", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    assert asked["type"] == "prompt"
    usage = {"fresh_input": 10, "output": 2, "cost_usd": 0.5, "cache_read": -1}
    reply = {"turn": asked["turn"], "text": asked["message"].upper(), "stop": asked["turn"] == 1}
    print(json.dumps(reply | {"data": {"usage": usage}}), flush=True)
"""


@contextmanager
def agent(source: str, heard=lambda line: None) -> Iterator[Conversation]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin and process.stdout
    try:
        yield Conversation(process.stdin, process.stdout, heard)
    finally:
        process.kill()
        process.communicate()


def test_a_conversation():
    heard: list[str] = []
    with agent(ECHO, heard.append) as conversation:
        first, second = conversation.prompt("hello\n\u2028 there"), conversation.prompt("again")
    assert first and first.text == "HELLO\n\u2028 THERE" and not first.stop
    assert first.usage == Usage(10, output=2, cost_usd=0.5)
    assert second and second.stop and second.turn == 1
    assert heard[0] == "starting up\n" and len(heard) == 3


def test_an_agent_that_exits():
    with agent("print('bye')") as conversation:
        assert conversation.prompt("hello") is None
        assert conversation.prompt("hello") is None


def test_an_agent_that_answers_another_turn():
    with (
        agent("""print('{"turn": 7}', flush=True); input()""") as conversation,
        pytest.raises(MalformedReply, match="turn 7"),
    ):
        conversation.prompt("hello")


@pytest.mark.parametrize("line", ['{"text": 1}', '{"stop": "no"}', '{"data": []}', '{"turn": true}', '{"turn": 1.0}'])
def test_an_answer_of_the_wrong_shape(line):
    with pytest.raises(MalformedReply, match="must be of type"):
        parse_reply(line, 1)


def test_all_fields_are_optional_and_other_output_is_ignored():
    assert parse_reply("{}", 3) == AgentReply(3)
    assert parse_reply("hello", 3) is parse_reply("[1]", 3) is parse_reply("", 3) is parse_reply("{torn", 3) is None
    assert prompt_line(0, 'a "b"\n') == '{"type": "prompt", "turn": 0, "message": "a \\"b\\"\\n"}\n'
