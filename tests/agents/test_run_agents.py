"""`evopolicygym run`: agents play whole runs in their sandbox, with limits, kills and resumed runs; all are scored."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from preloaded_cli import PreloadedCli
from run_helpers import KEY, run_agent, run_argv, run_to_record, run_until_time_limit, time_between_submissions
from scripted_model import ScriptedModel

from evopolicygym.agents import definitions
from evopolicygym.errors import UserError
from evopolicygym.runs.agent.shell_variables import PROXIES, URL_VARIABLES, check_shell, shell_model_url, shell_note
from evopolicygym.runs.settings import AgentSettings
from process_helpers import wait_until
from server_helpers import COMMAND, TOY, with_task

pytestmark = [pytest.mark.timeout(900)]


def test_an_agent_that_does_nothing_has_an_outcome(tmp_path):
    record = run_to_record(tmp_path / "run", "--agent", "nop")
    assert record["outcome"]["kind"] == "no_ok_submit"
    assert record["times"]["closed_because"] == "agent_stopped"


def test_the_starter_is_scored_and_its_isolation_recorded(tmp_path):
    record = run_to_record(tmp_path / "run", "--agent", "starter", "--seed", "3")
    assert record["outcome"]["kind"] == "scored" and record["outcome"]["stopped_early"]
    assert record["agent"]["name"] == "starter" and record["agent"]["seed"] == 3
    assert record["isolation"]["agent"] in ("A", "B") and record["isolation"]["publishable"]
    assert record["integrity"]["signs"] == [] and len(record["turns"]) == 1


def test_missing_isolation_is_recorded(tmp_path):
    record = run_to_record(
        tmp_path / "run", "--agent", "starter", "--agent-isolation", "none", "--agent-network", "open"
    )
    assert record["isolation"]["agent"] == "none" and record["isolation"]["agent_network"] == "open"
    assert not record["isolation"]["publishable"] and record["isolation"]["agent_residues"]
    assert record["outcome"]["kind"] == "scored"


LOOK_AROUND = """
import json, os, pathlib, subprocess
found = {}
for name in ("gymnasium", "evopolicygym", "mujoco", "numpy", "scipy"):
    found[name] = subprocess.run(["python3", "-c", f"import {name}"], capture_output=True).returncode == 0
run = pathlib.Path.cwd().parent
for name in ("ledger.jsonl", "hidden", "run.json", "config.toml"):
    found[name] = os.access(run / name, os.R_OK)
found["judge"] = any(b"cli.main" in pathlib.Path("/proc", p, "cmdline").read_bytes()
                     for p in os.listdir("/proc") if p.isdigit() and os.access(f"/proc/{p}/cmdline", os.R_OK)
                     and int(p) != os.getpid())
found["seed"] = os.environ["EVOPOLICYGYM_SEED"]
found["leaked"] = "SECRET_OF_THE_USER" in os.environ
subprocess.run(["python3", "submit.py", "0-1"], check=True)
print(json.dumps(found))
"""


def test_files_and_variables_of_an_agent(tmp_path):
    record = run_to_record(
        tmp_path / "run",
        "--agent",
        "command",
        "--seed",
        "7",
        "--",
        "python3",
        "-c",
        LOOK_AROUND,
        SECRET_OF_THE_USER="x",
    )
    printed = json.loads((tmp_path / "run/logs/agent/turn_001.out").read_text().splitlines()[-1])
    assert printed == {
        "gymnasium": False, "evopolicygym": False, "mujoco": False, "numpy": True, "scipy": True,
        "ledger.jsonl": False, "hidden": False, "run.json": False, "config.toml": False, "judge": False,
        "seed": "7", "leaked": False,
    }  # fmt: skip
    assert record["budget"]["charged"] == 2


TALKER = """
import json, subprocess, sys
for line in sys.stdin:
    asked = json.loads(line)
    subprocess.run([sys.executable, "submit.py", "0-3"], stdout=subprocess.DEVNULL)
    data = {"usage": {"fresh_input": 10, "output": 1}}
    print(json.dumps({"turn": asked["turn"], "text": "one more", "stop": False, "data": data}), flush=True)
"""


def test_a_json_lines_agent(tmp_path):
    record = run_to_record(tmp_path / "run", "--agent", "command", "--json-lines", "--", "python3", "-c", TALKER)
    assert record["times"]["closed_because"] == "budget_spent" and len(record["turns"]) == 3
    assert record["usage"]["input_tokens"] == 30 and record["usage"]["dollars"] is None


def test_a_json_lines_agent_that_exits_at_once(tmp_path):
    """Its turns fail, and the run is suspended. The broken pipe is not mistaken for one of our own output."""
    done = run_agent(tmp_path / "run", "--agent", "command", "--json-lines", "--", "/bin/true")
    assert done.returncode == 5, done.stderr
    record = json.loads(done.stdout)
    assert record["suspended"]["reason"] == "agent_never_worked"
    assert [turn["failure"] for turn in record["turns"]] == ["client"] * 3


def test_a_limit_of_turns_is_a_result(tmp_path):
    record = run_to_record(
        tmp_path / "turns", "--agent", "command", "--json-lines", "--max-turns", "2", "--", "python3", "-c", TALKER
    )
    assert record["times"]["closed_because"] == "limit_turns" and record["outcome"]["budget_left"] == 4


def test_a_limit_of_hours_is_a_result(tmp_path):
    sleeper = "import subprocess, sys, time; subprocess.run([sys.executable, 'submit.py', '0']); time.sleep(600)"

    def plays(root, hours):
        return run_to_record(root, "--agent", "command", "--max-hours", hours, "--", "python3", "-c", sleeper)

    record = run_until_time_limit(plays, tmp_path)
    assert record["outcome"]["kind"] == "scored" and len(record["turns"]) == 1


SLOW_STARTER = "import subprocess, sys, time; subprocess.run([sys.executable, 'submit.py', '0-3']); time.sleep({}); " \
    "subprocess.run([sys.executable, 'submit.py', '4-7'])"  # fmt: skip


def test_a_killed_run_continues_and_leaves_no_process(tmp_path):
    root = tmp_path / "run"
    marker = f"time.sleep(0.5 if __import__('os').path.exists('second') else 500); open('second', 'w') #{os.getpid()}"
    code = SLOW_STARTER.format(0) + "; " + marker
    command = run_argv(root, "--agent", "command", "--", "python3", "-c", code)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not (root / "workspace/feedback/submit_002").exists():
        assert process.poll() is None
        time.sleep(0.1)
    pulse = root / "logs/agent/pulse"
    shown = _seconds(pulse)
    assert wait_until(lambda: _seconds(pulse) > shown + 1), "a silent agent shows no sign of life"
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 60
    while alive := [p for p in Path("/proc").glob("[0-9]*/cmdline") if marker.encode() in _read(p)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.1)
    (root / "workspace" / "second").touch()
    lived = _seconds(pulse)
    later = time.time() + 48 * 3600
    for path in (root / "logs/agent").iterdir():
        os.utime(path, (later, later))  # as if the run had been copied two days later
    done = subprocess.run(
        [*COMMAND, "run", TOY, "--resume", str(root), "--json"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["budget"]["charged"] == 12 and len(record["submissions"]) == 3
    assert [turn["failure"] for turn in record["turns"]] == ["interrupted", None]
    assert record["turns"][0]["wall_s"] == lived, "until the last sign of life, and not till now"
    assert subprocess.run([*COMMAND, *with_task("verify", root)], capture_output=True, timeout=300).returncode == 0


def _seconds(pulse: Path) -> float:
    return float(pulse.read_text().split()[1]) if pulse.exists() else 0.0


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


TWO_KEYS = ("--agent-env", "OPENAI_API_KEY", "--agent-env", "GEMINI_API_KEY")
MISTAKES = [
    (("--agent", "codexx"), "codex"),
    (("--agent", "command"), "--agent command needs a program"),
    (("--agent", "command", "--", "./not-there.sh"), "./not-there.sh does not exist"),
    (("--agent", "command", "--", "no-such-program"), "the agent would not find no-such-program"),
    (("--agent", "command", "--agent-env", "NOT_SET", "--", "true"), "the variable NOT_SET is not set"),
    (
        ("--agent", "command", *TWO_KEYS, "--model-url", "https://models.example.com/v1", "--", "true"),
        "--model-url is one server, and --agent-env names the keys of several: OPENAI_API_KEY and GEMINI_API_KEY",
    ),
    (("--agent", "codex", "--option", "x"), "NAME=VALUE"),
    (("--agent", "goose"), "goose cannot play here"),
    (("--agent", "tuner", "--model", "gpt-5.5"), "Leave --model (model=) out"),
    (("--agent", "tuner", "--max-turns", "0"), "turns must be at least 1 (got: 0)"),
    (("--agent", "tuner", "--prices", "/not-there.toml"), "price file"),
    (("--agent", "tuner", "--option", "x=1"), "tuner has no option 'x'"),
    (("--agent", "model", "--model", "openai/x"), "no key: set OPENAI_API_KEY or ANTHROPIC_API_KEY"),
]


def test_variables_of_the_shell_are_not_ignored(tmp_path, monkeypatch):
    """A suite, and a run that is resumed, say where the model is asked; a proxy that is not used is refused."""
    for name in (*PROXIES, *URL_VARIABLES.values()):
        monkeypatch.delenv(name, raising=False)
    settings = AgentSettings(name="model", model="openai/x")
    client = definitions.load("model")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    check_shell(client, settings)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example.com/v1")
    with pytest.raises(UserError, match=r"OPENAI_BASE_URL is https://models\.example\.com/v1"):
        check_shell(client, settings)
    check_shell(client, settings.model_copy(update={"base_url": "https://models.example.com/v1"}))
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com:8080")
    check_shell(client, settings)
    with pytest.raises(UserError, match="HTTPS_PROXY is set, but model reaches its model without the gateway"):
        check_shell(client, settings.model_copy(update={"gateway": False}))


@pytest.mark.parametrize(
    ("agent", "key", "variable"),
    [
        ("codex", "CODEX_API_KEY", "OPENAI_BASE_URL"),
        ("claude", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL"),
        ("kimi", "KIMI_MODEL_API_KEY", "KIMI_MODEL_BASE_URL"),
    ],
)
def test_an_address_belongs_to_every_key_of_a_client(agent, key, variable, monkeypatch):
    client = definitions.load(agent)
    for name in (*client.keys, *URL_VARIABLES.values()):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "https://models.example.com/v1")
    settings = AgentSettings(name=agent)
    assert shell_model_url(agent, None, ()) is None
    assert (f"{variable} is not used" in (shell_note(settings) or "")) is bool(client.credentials)
    monkeypatch.setenv(key, KEY)
    address = shell_model_url(agent, None, ())
    assert address and address.variable == variable and shell_note(settings) is None


@pytest.fixture(scope="module")
def prepared():
    with PreloadedCli() as made:
        yield made


@pytest.mark.parametrize(("options", "message"), MISTAKES)
def test_invalid_options_are_named(tmp_path, prepared, options, message):
    """Before anything begins: no run is left behind."""
    words = run_argv(tmp_path / "run", *options)[len(COMMAND) :]
    done = prepared.run(words, PATH="/usr/bin:/bin", OPENAI_API_KEY="", ANTHROPIC_API_KEY="", GEMINI_API_KEY="")
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("model", [(), ("--model", "gpt-5.5")])
def test_the_neutral_harness_says_how_models_are_named(tmp_path, model):
    done = run_agent(tmp_path / "run", "--agent", "model", *model, OPENAI_API_KEY=KEY)
    assert done.returncode == 2 and "openai or anthropic" in done.stderr and not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    done = run_agent(tmp_path / "file" / "run", "--agent", "nop")
    assert done.returncode == 2 and "Name a" in done.stderr and "folder with --run" in done.stderr


@pytest.mark.parametrize(
    ("provider", "key", "base", "more"),
    [("openai", "OPENAI_API_KEY", "/v1", ()), ("anthropic", "ANTHROPIC_API_KEY", "/v1", ()),
     ("anthropic", "ANTHROPIC_API_KEY", "", ("--no-gateway",))],
)  # fmt: skip
def test_the_neutral_harness_with_any_model(provider, key, base, more, tmp_path):
    with ScriptedModel() as model:
        record = run_to_record(
            tmp_path / "run", "--agent", "model", "--model", f"{provider}/scripted",
            "--model-url", f"{model.url}{base}", *more, **{key: KEY},
        )  # fmt: skip
    assert {row["path"] for row in model.seen} == {
        "/v1/messages" if provider == "anthropic" else "/v1/chat/completions"
    }
    assert record["times"]["closed_because"] == "budget_spent" and record["outcome"]["submission"] == 3
    assert len(record["turns"]) == 2 and record["usage"]["input_tokens"] == 11 * 900
    assert record["usage"]["cached_tokens"] == 11 * 100 and record["usage"]["output_tokens"] == 11 * 50
    assert [
        (submission["feedback_opened"], submission["tokens"]["output"], submission["tokens_by"])
        for submission in time_between_submissions(tmp_path / "run")
    ] == [
        ([], 3 * 50, "request"),
        (["submit_001/summary.json"], 4 * 50, "request"),
        (["submit_002/summary.json"], 3 * 50, "request"),
    ]
