"""A login that a client renews in its sandbox replaces the user's own, unless something else was written there."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from server_helpers import COMMAND

LOGIN = {"oauth": {"token": "old", "renewal": "once", "expires": 1, "scopes": ["play"]}}
RENEWED = {"oauth": {"token": "new", "renewal": "again", "expires": 2.5, "scopes": ["play", "more"]}}
CLIENT = """
title = "Renews its login"
program = "bash"
argv = ["${{program}}", "-c", "exec python3 {script}"]
turns = "once"
credentials = [".renewer/login.json"]
version = []
"""
SCRIPT = """
import json, os, pathlib, subprocess, sys
subprocess.run([sys.executable, "submit.py", "0"], check=True)
login = pathlib.Path.home() / ".renewer/login.json"
"""
CASES = {
    "renewed": (f"login.write_text({json.dumps(RENEWED)!r})", RENEWED),
    "unchanged": ("", LOGIN),
    "of another form": ("""login.write_text('{"server": "evil.example"}')""", LOGIN),
    "a link": ("login.unlink(); login.symlink_to('/etc/hostname')", LOGIN),
    "gone": ("login.unlink(); login.parent.rmdir()", LOGIN),
}


QUICK = ("renewed", "of another form")


@pytest.mark.parametrize(
    "case", [*QUICK, *(pytest.param(case, marks=pytest.mark.slow) for case in CASES if case not in QUICK)]
)
def test_a_renewed_login_is_copied_back(case, tmp_path):
    write, expected = CASES[case]
    login, script = tmp_path / "home/.renewer/login.json", tmp_path / "renew.py"
    login.parent.mkdir(parents=True)
    login.write_text(json.dumps(LOGIN))
    script.write_text(SCRIPT + write)
    (tmp_path / "renewer.toml").write_text(CLIENT.format(script=script))
    words = ["run", "toys:Toy-v0", "--run", str(tmp_path / "run"), "--agent", str(tmp_path / "renewer.toml")]
    few = ["--budget", "1", "--validation-cases", "1", "--heldout-cases", "1", "--seeds", "paper", "--jobs", "1"]
    environment = os.environ | {"HOME": str(tmp_path / "home")}
    command = [*COMMAND, *words, *few, "--show", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(login.read_text()) == expected
    assert not (tmp_path / "run/agent/home/.renewer/login.json").is_file()
