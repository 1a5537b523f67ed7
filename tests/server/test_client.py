"""submit.py as agents use it: what it prints, its options, tampered files, other Pythons. It never shows a traceback of
its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from client_helpers import fresh, pending, plain

from conftest import policy_source
from server_helpers import SMALL, Server

OTHERS = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))
PYTHONS = [*(path for path in OTHERS if int(path.parts[-3].split(".")[1]) >= 8), Path("/usr/bin/python3")]


@pytest.fixture(scope="module")
def shared_server(serve_for_all: Callable[..., Server]) -> Server:
    return serve_for_all("--budget", "1000", *SMALL)


@pytest.fixture
def server(shared_server: Server) -> Iterator[Server]:
    yield from fresh(shared_server)


def test_it_prints_the_result(server):
    remaining = server.remaining()
    done = server.client("0,1,1")
    assert done.returncode == 0 and plain(done)
    assert "mean return" in done.stdout and f"remaining budget: {remaining - 3}" in done.stdout
    named = re.findall(r"details: (\S+)/", done.stdout)[0]
    assert (server.workspace / named / "summary.json").exists()
    assert not pending(server).exists() and server.remaining() == remaining - 3


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


def test_refusals_are_printed(server):
    remaining = server.remaining()
    for cases, why in (
        ("0-5000", "out of range"),
        ("0-128", "at most 128"),
    ):
        done = server.client(cases)
        assert done.returncode == 2 and plain(done) and why in done.stderr, done.stderr
        assert f"Remaining budget: {remaining}" in done.stderr
    assert not pending(server).exists() and server.remaining() == remaining


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
    remaining = server.remaining()
    done = server.client(*cases)
    assert done.returncode == 2 and hint in done.stderr and "nothing was submitted" in done.stderr
    assert server.remaining() == remaining and not pending(server).exists()
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
