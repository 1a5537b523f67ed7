"""Whole runs through the gateway: where the key is not, what is counted, limits, and provider errors."""

from __future__ import annotations

import json
import subprocess

import pytest
from evolution_script import evolve
from run_helpers import RealClientRun, run_to_record
from scripted_model import ScriptedModel

CANARY = "canary-key-that-must-not-be-found-0123456789"
pytestmark = pytest.mark.timeout(300)

# Asks the model once, then looks for the key in all that it can read: its environment, processes, files. The first
# letter is apart, so that the program does not find itself.
LOOKING = f"""
import json, os, pathlib, subprocess, sys, urllib.request
wanted = ("c" + {CANARY[1:]!r}).encode()
body = json.dumps({{"model": "scripted", "messages": [{{"role": "user", "content": str(dict(os.environ))}}]}}).encode()
headers = {{"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
answer = urllib.request.urlopen(urllib.request.Request(url, body, headers)).read()
places = ["/proc", "/etc", "/run", "/tmp", "/root", "/home", "/dev/shm", os.environ["HOME"], "..", "../.."]
found, read = [], 0
pathlib.Path.home().joinpath("looked").write_text("here")
for place in places:
    for folder, _, names in os.walk(place):
        for name in names:
            path = os.path.join(folder, name)
            is_text = name in ("environ", "cmdline", "maps", "comm", "status", "cgroup")
            if (folder.startswith("/proc") and not is_text) or not os.path.isfile(path):
                continue
            try:
                with open(path, "rb") as file:
                    read += 1
                    if wanted in file.read(1 << 24):
                        found.append(path)
            except OSError:
                pass
mine = wanted in repr(os.environb).encode() or wanted in answer
subprocess.run([sys.executable, "submit.py", "0-3"], check=True)
print("FOUND", json.dumps([found, mine, read]))
"""


@pytest.mark.parametrize("level", ["A", "B"])
def test_a_jailed_agent_that_looks_everywhere_does_not_find_the_key(level, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "agent.py").write_text(LOOKING)
    run = tmp_path / "run"
    with ScriptedModel() as model:
        record = run_to_record(
            run, "--agent", "command", "--agent-env", "OPENAI_API_KEY", "--model-url", f"{model.url}/v1",
            "--agent-isolation", level, "--", "python3", str(tmp_path / "mine" / "agent.py"), OPENAI_API_KEY=CANARY,
        )  # fmt: skip
    out = (run / "logs/agent/turn_001.out").read_text()
    visible, mine, read = json.loads(out.partition("FOUND ")[2])
    assert (visible, mine) == ([], False) and read >= 1
    (asked,) = model.seen
    assert asked["key"] == CANARY and "OPENAI_API_KEY" in asked["asked"] and CANARY not in asked["asked"]
    assert not subprocess.run(["grep", "-rlF", CANARY, str(run)], capture_output=True, text=True).stdout
    assert record["agent"]["settings"]["model_access"] == "gateway"
    assert record["turns"][0]["usage"]["requests"] == 1 and record["turns"][0]["usage"]["fresh_input"] == 900


def test_the_shell_of_a_real_client_does_not_see_the_key(tmp_path):
    """Claude Code's commands see its environment and the files of its HOME."""
    heard: list[str] = []

    def script(past):
        heard.extend(item.text for item in past if item.kind == "result")
        return evolve(past) if heard else f"$ env; cat /proc/*/environ; grep -rlF {CANARY[:9]}'{CANARY[9:]}' ~ . /tmp"

    with ScriptedModel(script) as model:
        real = RealClientRun("claude", model)
        real.environment["ANTHROPIC_API_KEY"] = CANARY
        real.plays(tmp_path / "run", "--max-turns", "1")
    assert "ANTHROPIC_API_KEY=sk-evopolicygym-" in heard[0] and CANARY not in json.dumps(model.seen[0]["asked"])
    assert not any(CANARY in text for text in heard) and {row["key"] for row in model.seen} == {CANARY}


def test_without_the_gateway_the_agent_has_its_key(tmp_path):
    with ScriptedModel() as model:
        options = ("--agent", "model", "--model", "openai/scripted", "--model-url", f"{model.url}/v1", "--no-gateway")
        record = run_to_record(tmp_path / "run", *options, OPENAI_API_KEY=CANARY)
    assert record["agent"]["settings"]["model_access"] == "direct" and record["usage"]["sources"] == ["client"]
    assert record["turns"][0]["calls"] is None and record["times"]["closed_because"] == "budget_spent"


@pytest.mark.parametrize(
    ("limit", "name"),
    [(("--max-requests", "3"), "requests"), pytest.param(("--max-tokens", "2500"), "tokens", marks=pytest.mark.slow)],
)
def test_the_request_that_would_exceed_a_limit_is_refused(limit, name, tmp_path):
    with ScriptedModel() as model:
        options = ("--agent", "model", "--model", "openai/scripted", "--model-url", f"{model.url}/v1", *limit)
        record = run_to_record(tmp_path / "run", *options, OPENAI_API_KEY=CANARY)
    (turn,) = record["turns"]
    assert record["times"]["closed_because"] == f"limit_{name}" and turn["failure"] == "limit"
    assert turn["usage"]["requests"] == 3 == len(model.seen) == record["usage"]["requests"]


def test_errors_of_the_provider_are_waited_out_in_the_gateway(tmp_path):
    """The client does not notice, and the time is not the agent's."""
    statuses = [429, 503, 529]

    def script(past):
        model.fault = f"{statuses.pop(0)}:1" if statuses else None
        return evolve(past)

    with ScriptedModel(script) as model:
        options = ("--agent", "model", "--model", "openai/scripted", "--model-url", f"{model.url}/v1")
        record = run_to_record(tmp_path / "run", *options, OPENAI_API_KEY=CANARY)
    assert record["times"]["closed_because"] == "budget_spent" and not statuses
    assert {turn["failure"] for turn in record["turns"]} == {None}
    first = record["turns"][0]["calls"]
    assert (first["requests"], first["retries"], first["failed"]) == (4, 3, 0) and first["waited_s"] >= 3
    assert first["trouble"] > 0


def test_an_agent_that_invents_a_refused_key_is_scored(tmp_path):
    """It has worked, and the gateway saw no refusal: a bad run must not become a missing one."""
    words = "test -e tried || python3 submit.py 0-3; touch tried; exit 77"
    with ScriptedModel() as model:
        options = ("--agent", "command", "--agent-env", "OPENAI_API_KEY", "--model-url", f"{model.url}/v1")
        record = run_to_record(tmp_path / "run", *options, "--", "bash", "-c", words, OPENAI_API_KEY=CANARY)
    assert [turn["failure"] for turn in record["turns"]] == ["authentication"] * 4 and not model.seen
    assert record["times"]["closed_because"] == "agent_failed" and record["outcome"]["kind"] == "scored"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model", "path", "key", "wire"),
    [
        ("goose", "anthropic/claude-scripted", "", "ANTHROPIC_API_KEY", "Messages"),
        ("mini-swe-agent", "anthropic/claude-scripted", "", "ANTHROPIC_API_KEY", "Messages"),
        ("opencode", "anthropic/claude-scripted", "/v1", "ANTHROPIC_API_KEY", "Messages"),
        ("opencode", "openai/gpt-scripted", "/v1", "OPENAI_API_KEY", "Responses"),
    ],
)
def test_a_client_of_many_providers_is_sent_to_the_address_of_its_models(name, model, path, key, wire, tmp_path):
    with ScriptedModel() as server:
        real = RealClientRun(name, server)
        real.options = ("--agent", name, "--model", model, "--model-url", server.url + path)
        real.environment = {"PATH": real.environment["PATH"], key: CANARY}
        record = real.plays(tmp_path / "run", "--max-turns", "1")
    (turn,) = record["turns"]
    assert turn["failure"] is None and turn["usage"]["source"] == "gateway" and len(record["submissions"]) == 1
    assert {row["format"] for row in server.seen} == {wire} and {row["key"] for row in server.seen} == {CANARY}
    assert turn["usage"]["requests"] == len(server.seen) == turn["usage"]["output"] // 50
