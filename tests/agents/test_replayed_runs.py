"""Runs are recorded and replayed: the same client plays the same run again, without a key and without a server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from run_helpers import KEY, RealClientRun, run_agent
from scripted_model import ScriptedModel
from wire_formats import INPUT, OUTPUT

import evopolicygym
from evopolicygym.gateway.recording.reader import ModelRecording

pytestmark = pytest.mark.timeout(900)
EXAMPLE = Path(__file__).parents[2] / "examples" / "runs" / "acrobot__tuner__s0"  # has no recording
FAST = ("--replay-speed", "1e9")
OTHERS = ("claude", "goose", "kimi", "qwen", "gemini", "opencode", "openhands", "mini-swe-agent")
CLIENTS = ["codex", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]


class ReplayedClient(RealClientRun):
    """The same client without a model: nothing listens, and no key is set."""

    def __init__(self, name: str, recorded: Path) -> None:
        with ScriptedModel() as model:
            super().__init__(name, model)
        self.options = (*self.options[: self.options.index("--model-url")], "--replay-model", str(recorded), *FAST)
        self.environment = {key: value for key, value in self.environment.items() if value != KEY}


def facts(record):
    """Return what the agent made of its budget, and what it was worth."""
    names = ("number", "checkpoint", "cases", "charged", "verdict", "train")
    submissions = [{name: submission[name] for name in names} for submission in record["submissions"]]
    turns = [{name: turn[name] for name in ("submissions", "failure", "model", "usage")} for turn in record["turns"]]
    outcome = {name: record["outcome"][name] for name in ("kind", "submission", "checkpoint", "heldout")}
    return {"submissions": submissions, "turns": turns, "outcome": outcome, "closed": record["times"]["closed_because"]}


def record_run(name: str, root: Path) -> dict[str, Any]:
    with ScriptedModel() as model:
        return RealClientRun(name, model).plays(root)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run of the neutral harness, and its record."""
    root = tmp_path_factory.mktemp("runs") / "recorded"
    return root, record_run("model", root)


def check_replay(name: str, root: Path, record: dict[str, Any], folder: Path) -> None:
    assert record["agent"]["settings"]["model_access"] == "gateway" and len(record["submissions"]) == 3
    replayed = ReplayedClient(name, root).plays(folder)
    assert facts(replayed) == facts(record)
    assert replayed["agent"]["settings"]["model_access"] == "replay"
    assert replayed["agent"]["settings"]["replay_of"] == record["id"]


def test_a_recorded_run_of_the_harness_is_played_again(recorded, tmp_path):
    check_replay("model", *recorded, tmp_path / "replayed")


@pytest.mark.parametrize("name", CLIENTS)
def test_a_recorded_run_is_played_again(name, tmp_path):
    record = record_run(name, tmp_path / "recorded")
    check_replay(name, tmp_path / "recorded", record, tmp_path / "another" / "replayed")


def test_the_recording_is_complete_and_without_keys(tmp_path):
    """The agent prints the environment of all processes that it sees; neither key nor token is in what we write."""

    def script(past):
        done = sum(item.kind == "result" for item in past)
        return ("$ cat /proc/*/environ | tr '\\0' '\\n'", "$ python3 submit.py 0-11", "Done.")[min(done, 2)]

    with ScriptedModel(script) as model:
        root = tmp_path / "run"
        record = RealClientRun("model", model).plays(root)
    calls = list(ModelRecording(root))
    assert [call.response_body for call in calls] and len(calls) == len(model.seen) == 3
    assert [json.loads(call.request_body) for call in calls][-1] != {} and calls[-1].turn == 1
    read = evopolicygym.transcript(root)
    (thread,) = read.conversation.threads
    kinds = [step.kind for step in thread.steps]
    assert kinds == ["system", "user", "assistant", "tool", "assistant", "submission", "tool", "assistant"]
    usage = read.conversation.usage
    assert usage and (usage.fresh_input or 0) + (usage.cache_read or 0) == 3 * INPUT and usage.output == 3 * OUTPUT
    assert record["turns"][0]["usage"]["output"] == 3 * OUTPUT
    environment = next(part.text for step in thread.steps for part in step.parts if part.kind == "result")
    assert "OPENAI_API_KEY=[gateway token]" in environment
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    texts = [path.read_bytes() for path in files] + [repr(calls).encode(), *(call.request_body for call in calls)]
    assert not any(KEY.encode() in text for text in texts)
    ours = [path.read_bytes() for path in files if not path.is_relative_to(root / "agent")]  # there it wrote it itself
    assert not any(re.search(rb"sk-evopolicygym-[0-9a-f]{48}", text) for text in [*ours, *texts[len(files) :]])


def test_a_client_that_asks_something_else_is_stopped(recorded, tmp_path):
    """Another task text is another prompt: the replay ends at the first call, with a diff and its own exit code."""
    other = ReplayedClient("model", recorded[0])
    done = run_agent(tmp_path / "other", *other.options, "--text", "full", **other.environment)
    assert done.returncode == 6 and "Traceback" not in done.stderr, done.stderr
    assert "the replay of" in done.stderr and "something else than recorded call" in done.stderr
    assert "--- the recorded client asked" in done.stderr and "+++ this client asks" in done.stderr


def test_runs_that_cannot_be_replayed(recorded, tmp_path):
    other = ReplayedClient("model", recorded[0])
    done = run_agent(tmp_path / "other", *other.options, "--no-gateway")
    assert done.returncode == 2 and "does not reach its model through the gateway" in done.stderr
    empty = ReplayedClient("model", EXAMPLE)
    done = run_agent(tmp_path / "other", *empty.options)
    assert done.returncode == 2 and "has no recorded calls to a model" in done.stderr
    assert not (tmp_path / "other").exists()
