"""`evopolicygym agent`, with real programs that are installed or missing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from server_helpers import command

DEFINITION = """\
title = "Mine"
program = "mine"
argv = ["${program}"]
keys = ["MINE_KEY"]
credentials = [".mine/login"]
[install]
command = "pip install mine==1.2.3"
version = "1.2.3"
"""


def program(folder: Path, source: str) -> None:
    (folder / "mine").write_text(f"#!{sys.executable}\n{source}\n")
    (folder / "mine").chmod(0o755)


@pytest.fixture
def check(tmp_path):
    """Check a client of our own, with these variables."""
    (tmp_path / "mine.toml").write_text(DEFINITION)

    def run(**variables: str):
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
        done = command("agent", "check", tmp_path / "mine.toml", "--json", env=os.environ | path | variables)
        return done.returncode, json.loads(done.stdout)

    return run


def test_list_names_every_client():
    rows = json.loads(command("agent", "list", "--json").stdout)
    names = {row["name"] for row in rows}
    assert names >= {"codex", "claude", "kimi", "qwen", "gemini", "opencode", "goose", "mini-swe-agent", "openhands"}
    assert "codex" in command("agent", "list").stdout


def test_not_installed_and_no_key(check):
    code, report = check()
    assert code == 1 and not report["ready"] and report["program"] is None
    assert "pip install mine==1.2.3" in report["missing"][0] and "MINE_KEY" in report["missing"][1]


def test_a_ready_agent_and_no_secret_in_the_output(check, tmp_path):
    program(tmp_path, "import os, sys; sys.exit('MINE_KEY' in os.environ) if not print('mine 1.2.3') else 0")
    code, report = check(MINE_KEY="very-secret")
    assert code == 0 and report["ready"] and report["version"] == "1.2.3" and report["key"] == "MINE_KEY"
    assert "very-secret" not in json.dumps(report)


def test_a_login_replaces_a_key_and_untested_versions_are_named(check, tmp_path):
    program(tmp_path, "print('v1.3.0')")
    (tmp_path / ".mine").mkdir()
    (tmp_path / ".mine" / "login").touch()
    code, report = check()
    assert code == 0 and report["key"] == "~/.mine/login" and "1.2.3" in report["remarks"][0]


def test_a_program_that_does_not_start(check, tmp_path):
    program(tmp_path, "raise SystemExit('SyntaxError 1.2.3')")
    code, report = check(MINE_KEY="k")
    assert code == 1 and "does not start" in report["missing"][0]


def test_a_built_in_agent_is_always_ready():
    assert command("agent", "check", "starter").returncode == 0


def test_an_unknown_agent():
    done = command("agent", "check", "cluade")
    assert done.returncode == 2 and "Did you mean claude" in done.stderr and "Traceback" not in done.stderr


def test_any_program_is_ready_once_it_is_named():
    done = command("agent", "check", "command")
    assert done.returncode == 0 and "--agent command -- PROGRAM" in done.stdout
