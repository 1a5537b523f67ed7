"""`evopolicygym transcript`: text for people, JSON for programs, ATIF for other tools; and runs without a recording."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from model_chats import ModelChat
from scripted_model import ScriptedModel

import evopolicygym
from evopolicygym.cli.text.transcript import transcript_lines
from evopolicygym.gateway.conversation import ConversationStep, ConversationThread, StepKind
from evopolicygym.gateway.exchange import ModelApi
from evopolicygym.gateway.messages import MessagePart, MessageRole, PartKind
from evopolicygym.gateway.recording.store import ExchangeStore
from server_helpers import COMMAND

TESTS = Path(__file__).parents[1]
EXAMPLE = TESTS.parent / "examples" / "runs" / "acrobot__tuner__s0"
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202eesrever"


def script(history):
    done = sum(past.kind == "result" for past in history)
    return ("$ cat AGENTS.md", "$ python3 submit.py 0-7", "All is done.")[min(done, 2)]


@pytest.fixture
def recorded(tmp_path):
    """A finished run with a recording: the first submission was made while the second command ran."""
    root = tmp_path / "run"
    shutil.copytree(EXAMPLE, root)
    charged = evopolicygym.load_run(root).record.submissions[0].charged_at.timestamp()
    with ScriptedModel(script) as model:
        chat = ModelChat(model, ModelApi.OPENAI_RESPONSES)
        title = ModelChat(model, ModelApi.OPENAI_RESPONSES, system="Find a title.")
        title.has_tools = False
        chat.prompt(f"Begin. {'word ' * 40}", lambda command: f"{HOSTILE} {command}\n" + "a line of output\n" * 100)
        title.prompt("Begin.")
    store = ExchangeStore(root, {})
    for number, (at, exchange) in enumerate(
        zip((-20, -10, 0.5, 1), (*chat.exchanges, *title.exchanges), strict=True), 1
    ):
        store.append(replace(exchange, number=number, started_at=charged + at, duration_s=0.25))
    store.close()
    return root


def test_text_is_pleasant_and_tame(recorded):
    done = subprocess.run([*COMMAND, "transcript", str(recorded)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80 and not any(line != line.rstrip() for line in lines)
    assert not set(HOSTILE) & set("\x1b\x07\u202e") & set(done.stdout) and "\\x1b[2J" in done.stdout
    assert lines[0] == "core16/acrobot, played by tuner"
    assert lines[1] == "4 answers, tokens: 4,000 in (400 cached), 200 out (28 reasoning)"
    words = done.stdout
    places = [words.index(part) for part in
              ("== conversation 1", "-- turn 1", "  system\n", "    Begin. word", "  > bash: cat AGENTS.md",
               "  | a line", "lines left out", "  > bash: python3 submit.py 0-7", "*** submission 1: ok",
               "    All is done.", "== side call 1", "    A title")]  # fmt: skip
    assert places == sorted(places)
    whole = "\n".join(transcript_lines(evopolicygym.transcript(recorded), is_full=True))
    assert whole.count("| a line of output") == 200 and "left out" not in whole


def test_json_and_atif_have_everything(recorded):
    done = subprocess.run([*COMMAND, "transcript", str(recorded), "--format", "json"], capture_output=True, text=True)
    values = json.loads(done.stdout)
    assert values == json.loads(json.dumps(evopolicygym.transcript(recorded).as_dict()))
    main, side = values["threads"]
    kinds = [step["kind"] for step in main["steps"] if step["kind"] != "submission"]
    assert kinds == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert (main["kind"], side["kind"], values["source"], main["tools"]) == ("main", "side", "gateway", ["bash"])
    assert HOSTILE in main["steps"][3]["parts"][0]["text"] and main["steps"][2]["usage"]["output"] == 50


def test_atif_follows_its_rules(recorded):
    """The rules of version 1.7: steps are numbered from 1, only the agent has calls, each result names a call of its
    step, and embedded trajectories have ids of their own."""
    trajectory = evopolicygym.transcript(recorded).as_atif()
    embedded = trajectory["subagent_trajectories"]
    for part in (trajectory, *embedded):
        assert part["schema_version"] == "ATIF-v1.7" and part["agent"]["name"] == "tuner" and part["agent"]["version"]
        assert [step["step_id"] for step in part["steps"]] == list(range(1, len(part["steps"]) + 1))
        for step in part["steps"]:
            calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
            results = {result["source_call_id"] for result in step.get("observation", {"results": ()})["results"]}
            assert results <= calls and isinstance(step["message"], str)
            assert step["source"] in ("system", "user", "agent")
            assert step["source"] == "agent" or not {"tool_calls", "metrics", "model_name"} & set(step)
    identities = [part["trajectory_id"] for part in (trajectory, *embedded)]
    assert len(set(identities)) == 2
    agent = [step for step in trajectory["steps"] if step["source"] == "agent"]
    assert agent[0]["tool_calls"][0]["arguments"] == {"command": "cat AGENTS.md"}
    assert agent[0]["metrics"]["prompt_tokens"] == 1000 and agent[0]["metrics"]["cached_tokens"] == 100
    submissions = [step["extra"]["submission"] for step in trajectory["steps"]
                   if step.get("extra", {}).get("kind") == "submission"]  # fmt: skip
    assert submissions == list(range(1, len(evopolicygym.load_run(recorded).record.submissions) + 1))
    assert trajectory["final_metrics"]["total_completion_tokens"] == 150


def test_a_run_without_a_recording(tmp_path):
    """The client's own output is read as far as it goes; without it the message says why there is nothing."""
    root = tmp_path / "run"
    shutil.copytree(EXAMPLE, root)
    with pytest.raises(evopolicygym.UserError, match="tuner made no recorded call to a model"):
        evopolicygym.transcript(root)
    events = [
        {"type": "item.completed", "item": {"type": "command_execution", "command": "cat feedback/summary.json",
                                            "aggregated_output": "mean -90"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "It is better."}},
    ]  # fmt: skip
    (root / "logs" / "agent").mkdir(parents=True, exist_ok=True)
    (root / "logs" / "agent" / "turn_001.out").write_text("noise\n" + "\n".join(map(json.dumps, events)))
    read = evopolicygym.transcript(root)
    assert read.conversation.source == "client" and "client's own output" in read.conversation.notes[0]
    text = "\n".join(transcript_lines(read))
    places = [text.index(part) for part in ("> cat feedback", "| mean -90", "    It is better.", "*** submission 1")]
    assert places == sorted(places)


def test_a_damaged_recording_is_read_as_far_as_it_goes(recorded):
    path = recorded / "logs" / "model" / "exchanges.bin"
    path.write_bytes(path.read_bytes()[:-10])
    done = subprocess.run([*COMMAND, "transcript", str(recorded)], capture_output=True, text=True)
    assert done.returncode == 0 and "note: the last " in done.stdout and "cat AGENTS.md" in done.stdout


def test_a_long_word_and_very_many_lines_are_shortened_at_once(recorded):
    """The time to wrap a word grew with the square of its length, and every line was wrapped to be counted."""
    read = evopolicygym.transcript(recorded)
    for text, shown_whole in (("x" * 8_000_000, 8_000_000), ("\nx" * 150_000, 150_000)):
        part = MessagePart(MessageRole.USER, PartKind.TEXT, text)
        thread = ConversationThread(steps=[ConversationStep(StepKind.USER, 1.0, (part,))])
        long = replace(read, conversation=replace(read.conversation, threads=(thread,)))
        began = time.process_time()
        short, whole = ("\n".join(transcript_lines(long, is_full=is_full)) for is_full in (False, True))
        assert time.process_time() - began < 5.0
        assert "characters left out (--full shows them)" in short and len(short) < 5000
        assert whole.count("x") >= shown_whole
