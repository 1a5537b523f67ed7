"""submit.py as agents use it: killed, cut off, misled, on other Pythons. It never charges twice and never shows a
traceback of its own."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from conftest import policy_source
from process_helpers import wait_until
from server_helpers import SMALL, Server

PYTHONS = [*sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3")), Path("/usr/bin/python3")]


@pytest.fixture(scope="module")
def server(serve_for_all: Callable[..., Server]) -> Server:
    return serve_for_all("--budget", "1000", *SMALL)


@pytest.fixture(autouse=True)
def _fresh(server: Server) -> Iterator[None]:
    """A good policy, and nothing left of other tests."""
    server.policy()
    door = (server.workspace / "door.json").read_bytes()
    yield
    for name in (".pending.json", "door.json"):
        path = server.workspace / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (server.workspace / "door.json").write_bytes(door)


def start(server: Server, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    script = [sys.executable, str(server.workspace / "submit.py"), *arguments]
    return subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def pending(server: Server) -> Path:
    return server.workspace / ".pending.json"


def plain(done: subprocess.CompletedProcess[str]) -> bool:
    return "Traceback" not in done.stdout + done.stderr


def test_it_prints_the_result(server):
    left = server.remaining()
    done = server.client("0,1,1")
    assert done.returncode == 0 and plain(done)
    assert "mean return" in done.stdout and f"remaining budget: {left - 3}" in done.stdout
    named = re.findall(r"details: (\S+)/", done.stdout)[0]
    assert (server.workspace / named / "summary.json").exists()
    assert not pending(server).exists() and server.remaining() == left - 3


def test_json_is_the_summary(server):
    done = server.client("0,1", "--json")
    summary = json.loads(done.stdout)
    assert json.loads((server.workspace / summary["feedback"] / "summary.json").read_text()) == summary


def test_help_explains_options_and_exit_codes(server):
    """Every option and exit code, and what to do when it was killed."""
    done = server.client("--help")
    for word in (
        "0-7",
        "--check",
        "--info",
        "--task",
        "--json",
        "run it again",
        "charged once",
        "feedback/",
        "Exit codes",
    ):
        assert word in done.stdout, word


def test_info_and_task(server):
    assert json.loads(server.client("--info", "--json").stdout)["state"]["remaining_budget"] == server.remaining()
    lines = server.client("--info").stdout.splitlines()
    assert lines[0].startswith(f"budget: {server.remaining()} of ") and len(lines) == 7
    assert lines[3] == "observation: Box of shape (2,), float64, -inf to inf" and lines[4] == "action: Discrete, 0 to 2"
    assert server.client("--task").stdout.strip() in (server.workspace / "AGENTS.md").read_text()


def test_a_killed_client_shows_the_result_when_run_again(server):
    """The result is printed in the end, for one charge; also where the kill came before anything was sent."""
    chance = random.Random(3)
    for attempt in range(5):
        left, kills = server.remaining(), 0
        for _ in range(3):
            process = start(server, "4,5")
            time.sleep(chance.uniform(0.0, 0.6))
            kills += process.poll() is None
            process.kill()
            printed, _ = process.communicate()
            if "mean return" in printed:
                break
        else:
            printed = server.client("4,5").stdout
        assert "mean return" in printed, attempt
        assert server.remaining() == left - 2 and not pending(server).exists()


def test_without_cases_it_continues_an_interrupted_submission(server):
    left = server.remaining()
    pending(server).write_text(json.dumps({"key": f"interrupted-{left}", "cases": "7"}))
    done = server.client()
    assert done.returncode == 0 and "case 7" in done.stdout and "nothing is charged again" in done.stderr
    assert server.remaining() == left - 1 and not pending(server).exists()
    idle = server.client()
    assert idle.returncode == 2 and "nothing to wait for" in idle.stderr and server.remaining() == left - 1


def test_an_interrupted_submission_comes_before_new_cases(server):
    left = server.remaining()
    pending(server).write_text(json.dumps({"key": f"before-{left}", "cases": "7"}))
    done = server.client("8,9")
    assert done.returncode == 0 and "case 7" in done.stdout and "case 8" in done.stdout
    assert server.remaining() == left - 3


def test_refusals_are_printed(server):
    left = server.remaining()
    for cases, why in (
        ("0-5000", "out of range"),
        ("0-128", "at most 128"),
    ):
        done = server.client(cases)
        assert done.returncode == 2 and plain(done) and why in done.stderr, done.stderr
        assert f"Remaining budget: {left}" in done.stderr
    assert not pending(server).exists() and server.remaining() == left


@pytest.mark.parametrize(
    ("cases", "hint"),
    [
        (["0 1"], "cannot read '0 1': write 0,1 or 0-1;"),
        (["0", "1", "5"], "cannot read '0 1 5': write 0,1,5 or 0-5;"),
        (["a"], "cannot read 'a': write numbers and ranges, such as 0-7"),
        ([""], "cannot read ''"),
    ],
)
def test_cases_that_cannot_be_read(server, cases, hint):
    left = server.remaining()
    done = server.client(*cases)
    assert done.returncode == 2 and hint in done.stderr and "nothing was submitted" in done.stderr
    assert server.remaining() == left and not pending(server).exists()
    code, answer = server.submit(" ".join(cases))
    assert code == 400 and answer["message"].startswith("cannot read '")


def test_many_cases_are_told_in_short(server):
    server.policy(policy_source("if obs[1] > 0.9: raise ValueError\nreturn 1"))
    done = server.client("0-19")
    assert "quantiles" in done.stdout and "the worst 5:" in done.stdout
    assert done.stdout.count("  case ") == 5 and "failed: act_error" in done.stdout
    again = server.client("0-16")
    n_failed = int(re.findall(r": (\d+) of 17 episodes FAILED; status ok", again.stdout.splitlines()[0])[0])
    compared = 17 - n_failed
    assert f"on {compared} of 17 cases: +0 (0 better, 0 worse, {compared} equal)" in again.stdout


def test_a_policy_that_does_not_load(server):
    server.policy("import nonsense\n")
    done = server.client("0")
    assert done.returncode == 1 and "nonsense" in done.stdout and plain(done)


@pytest.mark.parametrize(
    ("source", "good"),
    [
        (policy_source(), True),
        (policy_source(init="assert obs_space['high'] in (float('inf'), [float('inf')] * 2), obs_space"), True),
        (policy_source(init="raise ValueError('no')"), False),
        (policy_source(reset="raise SystemExit(0)"), False),
        (policy_source().replace("def act", "def react"), False),
        (policy_source(act="return int(obs[0]) % 3 + obs.shape[0] - 2"), True),
        (policy_source(act="return obs[7]"), False),
        (policy_source(act="return 'left'"), False),
        ("def broken(:\n", False),
    ],
)
def test_check_reports_whether_the_policy_loads(server, source, good):
    left = server.remaining()
    server.policy(source)
    done = server.client("--check")
    assert (done.returncode == 0) == good and done.returncode in (0, 1), done.stderr
    assert "nothing was submitted" in (done.stdout if good else done.stderr)
    assert server.remaining() == left and not (server.workspace / "system/__pycache__").exists()


def test_check_uses_recorded_observations(server):
    """The luck of the first case, which is no zero."""
    server.policy(policy_source(act="print('asked', obs[1] > 0); return 1"))
    assert server.client("0").returncode == 0
    done = server.client("--check")
    assert "recorded observations of " in done.stdout and done.stdout.count("asked True") == 11
    assert "11 act() took" in done.stdout and "of CPU time each, at most" in done.stdout
    assert "an episode that is not its own" in done.stdout


@pytest.mark.parametrize(("level", "seen"), [("trajectory", "first observation of train case 0"), ("score", "zeros")])
def test_check_before_any_feedback(serve, level, seen):
    """A real observation, unless recordings are not shown at all. Nothing is charged for it."""
    server = serve("--feedback", level, *SMALL)
    server.policy(policy_source(act="print('asked', obs[1]); return 1"))
    done = server.client("--check")
    assert seen in done.stdout and server.remaining() == 128
    luck = float(re.findall(r"asked (\S+)", done.stdout)[0])
    server.policy(policy_source(act="print(repr(float(obs[1]))); return 1"))
    server.submit("0")
    told = (server.root / "feedback/submit_001/episodes/ep_000/stdout.txt").read_text().splitlines()[0]
    assert luck == (float(told) if level == "trajectory" else 0.0)
    assert len(list((server.root / "checkpoints").iterdir())) == 1


def test_check_finds_large_arrays_in_all_that_was_recorded(serve):
    server = serve(task="toys:Nested-v0")
    server.policy(policy_source(act="return 1 if obs['deep'].popitem()[1][1].tolist() == [0.5] * 300 else 0"))
    assert server.client("0").returncode == 0
    assert "recorded observations of submit_001/episodes/ep_000 with 1 first" in server.client("--check").stdout


TAMPERED = [
    b"",
    b"[]",
    b"null",
    b"7",
    b'"x"',
    b"{}",
    b'{"key": 1}',
    b'{"key": "a b", "cases": "0"}',
    b"\xff\xfe",
    b"[" * 99999,
]


@pytest.mark.parametrize("content", TAMPERED)
def test_a_tampered_pending_file_is_ignored(server, content):
    left = server.remaining()
    pending(server).write_bytes(content)
    done = server.client("2")
    assert done.returncode == 0 and plain(done) and "ignored" in done.stderr
    assert server.remaining() == left - 1


def test_a_folder_instead_of_the_pending_file(server):
    left = server.remaining()
    pending(server).mkdir()
    (pending(server) / "x").touch()
    done = server.client("2")
    assert done.returncode == 2 and plain(done) and "nothing was submitted" in done.stderr
    assert server.remaining() == left and not list(server.workspace.glob(".pending.json.*"))


@pytest.mark.parametrize(
    "content",
    [None, b"", b"[]", b"{}", b'{"api": 3}', b'{"api": "file:///etc/passwd"}', b'{"api": "http://a b"}', b"\xff"],
)
def test_a_tampered_door_json(server, content):
    path = server.workspace / "door.json"
    path.write_bytes(content) if content is not None else path.unlink()
    done = server.client("2", env={"PATH": os.environ["PATH"]})
    assert done.returncode == 3 and plain(done) and "door.json" in done.stderr


def test_the_address_may_come_from_the_environment(server):
    (server.workspace / "door.json").unlink()
    assert server.client("--info", env=os.environ | {"EVOPOLICYGYM_API": server.api}).returncode == 0


def test_no_proxy_is_used(server):
    nowhere = {
        "http_proxy": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "all_proxy": "http://127.0.0.1:9",
    }
    assert server.client("--info", env=os.environ | nowhere).returncode == 0


@pytest.mark.parametrize("python", PYTHONS, ids=str)
def test_every_python_without_packages_runs_it(server, python):
    version = subprocess.run(
        [python, "-c", "import sys; print(sys.version_info >= (3, 8))"], capture_output=True, text=True
    )
    if version.stdout.strip() != "True":
        pytest.skip(f"{python} is older than 3.8, or broken")
    script = [python, "-I", "-S", "-W", "error", str(server.workspace / "submit.py"), "6"]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "mean return" in done.stdout, done.stderr


HOSTILE = policy_source("raise ValueError('\\x1b[2J\\x07\\u202eé\\u4e2d\\x00 end')")


@pytest.mark.parametrize(
    "environment",
    [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii"}],
)
def test_any_text_of_a_policy_can_be_printed(server, environment):
    server.policy(HOSTILE)
    for arguments in (["0"], ["0", "--json"]):
        done = server.client(*arguments, env=os.environ | environment)
        assert done.returncode == 0 and plain(done) and "end" in done.stdout, done.stderr
        assert not set("\x1b\x07\x00\u202e") & set(done.stdout + done.stderr)


def test_a_broken_pipe_keeps_the_result_for_the_next_call(server):
    """The result was not read, so the next call prints it."""
    left = server.remaining()
    process = start(server, "5")
    assert process.stdout and process.stderr
    process.stdout.close()
    errors = process.stderr.read()
    assert process.wait(60) == 141 and "Traceback" not in errors
    process.stderr.close()
    assert "mean return" in server.client("5").stdout and server.remaining() == left - 1


class Stranger(BaseHTTPRequestHandler):
    """Something else that listens where the server was."""

    replies = [
        (404, b"{}"),
        (200, b"<html>hello</html>"),
        (500, b"oops"),
        (200, b"[]"),
        (200, b"3"),
        (200, b"{}"),
        (200, b"\xff"),
    ]

    def do_GET(self) -> None:
        self.close_connection = True
        code, body = self.replies[0]
        type(self).replies = self.replies[1:] or self.replies
        self.send_response(code)
        self.send_header("Content-Length", str(len(body) + (not self.replies)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


def test_a_server_that_restarts_at_another_port(serve, tmp_path):
    """It is killed while the client waits; its port is taken by something that answers, and answers nonsense."""
    gate = tmp_path / "gate"
    server = serve(task="toys:Gated-v0", TOY_GATE=str(gate))
    server.policy()
    first = server.api
    client = start(server, "0-2")
    while server.call("GET", "/info")[1]["state"]["running"] is None:
        time.sleep(0.02)
    server.kill()
    stranger = HTTPServer(("127.0.0.1", urlsplit(first).port or 0), Stranger)
    threading.Thread(target=stranger.serve_forever, daemon=True).start()
    try:
        server.start(TOY_GATE=str(gate))
        assert server.api != first and server.api.rpartition("/")[2] == first.rpartition("/")[2]
        gate.touch()
        printed, errors = client.communicate(timeout=120)
    finally:
        stranger.shutdown()
        stranger.server_close()
    assert client.returncode == 0 and "mean return" in printed and "Traceback" not in errors, errors
    assert server.remaining() == 125


def test_a_busy_server_and_a_spent_budget(serve, tmp_path):
    """Another submission is waited for; when the budget is spent, the refusal says so; a restart keeps the address."""
    gate = tmp_path / "gate"
    server = serve("--budget", "3", *SMALL, task="toys:Gated-v0", TOY_GATE=str(gate))
    server.policy()
    first = server.api
    assert server.submit([0], wait=False)[0] == 202
    waiting = start(server, "1,2")
    assert waiting.stderr and "still running" in waiting.stderr.readline()
    server.kill()
    server.start(TOY_GATE=str(gate))
    assert server.api == first
    gate.touch()
    printed, _ = waiting.communicate(timeout=120)
    assert waiting.returncode == 0 and "remaining budget: 0" in printed
    done = server.client("0")
    assert done.returncode == 2 and "run_closed" in done.stderr and plain(done)
    assert not pending(server).exists()


def test_two_clients_at_the_same_time(server):
    """Both print their results; neither removes the pending file of the other."""
    left = server.remaining()
    both = [start(server, cases) for cases in ("0", "1")]
    printed = [process.communicate(timeout=120) for process in both]
    assert all(process.returncode == 0 for process in both), printed
    assert all("mean return" in out and "Traceback" not in errors for out, errors in printed)
    assert server.remaining() == left - 2 and not pending(server).exists()


def test_a_missing_server_is_waited_for(server, tmp_path):
    """Until the client is killed; the key is kept for the next call."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    (server.workspace / "door.json").write_text(json.dumps({"api": f"http://127.0.0.1:{port}/x"}))
    process = start(server, "3")
    assert process.stderr and "trying again" in process.stderr.readline()
    process.kill()
    process.communicate()
    assert json.loads(pending(server).read_text())["cases"] == "3"


def test_a_closed_run_is_not_waited_for(serve):
    """Neither by a later client nor by one that was waiting for the server."""
    one = serve()
    one.policy()
    assert one.client("0").returncode == 0
    one.kill()
    waiting = start(one, "1")
    assert waiting.stderr and "trying again" in waiting.stderr.readline()
    one.finish()
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 2 and "the run is closed" in said and "Traceback" not in said
    for arguments in (["2"], [], ["--info"], ["--check"]):
        done = one.client(*arguments)
        assert done.returncode == 2 and "the run is closed" in done.stderr and plain(done)


def test_a_run_that_is_closed_while_its_last_submission_plays(serve, tmp_path):
    """It was charged and played: a client that waits for it prints its result, not a refusal."""
    gate = tmp_path / "gate"
    one = serve(task="toys:Gated-v0", TOY_GATE=str(gate))
    one.policy()
    waiting = start(one, "0")
    wait_until(lambda: one.call("GET", "/info")[1]["state"]["running"])
    time.sleep(2)  # by now it was told that it runs, and asks once a second
    waiting.send_signal(signal.SIGSTOP)
    gate.touch()
    assert one.finish()["budget"]["charged"] == 1
    waiting.send_signal(signal.SIGCONT)
    printed, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 0 and "submit_001: ok" in printed, said
    assert not pending(one).exists()


def test_a_server_that_restarts_is_waited_for(serve):
    one = serve()
    one.policy()
    one.kill()
    waiting = start(one, "0")
    assert waiting.stderr and "trying again" in waiting.stderr.readline()
    one.start()
    printed, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 0 and "mean return" in printed, said
