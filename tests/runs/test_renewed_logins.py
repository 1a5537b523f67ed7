"""A login that a client renews in its sandbox replaces the user's own, unless something else was written there, or the
run folder comes from another person."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

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


SMALL = ("--budget", "1", "--validation-cases", "1", "--heldout-cases", "1", "--seeds", "paper")
QUICK = ("renewed", "of another form")


@pytest.mark.parametrize(
    "case", [*QUICK, *(pytest.param(case, marks=pytest.mark.slow) for case in CASES if case not in QUICK)]
)
def test_a_renewed_login_is_copied_back(case, tmp_path):
    write, expected = CASES[case]
    login = user_login(tmp_path / "home")
    done = play(tmp_path, "home", write, "toys:Toy-v0", *SMALL, "--run", str(tmp_path / "run"))
    assert json.loads(login.read_text()) == expected
    assert ("~/.renewer/login.json was replaced" in done.stderr) == (expected == RENEWED)
    assert not (tmp_path / "run/agent/home/.renewer/login.json").is_file()
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert any("replaces the user's own" in residue for residue in record["isolation"]["agent_residues"])


def test_a_login_that_a_run_folder_brings_is_not_copied_back(tmp_path):
    """Its author has planted it, and waits until another user resumes the run."""
    user_login(tmp_path / "author")
    play(tmp_path, "author", "", "toys:Toy-v0", *SMALL, "--run", str(tmp_path / "brought"))
    lines = (tmp_path / "brought/ledger.jsonl").read_bytes().splitlines(keepends=True)
    begun = next(number for number, line in enumerate(lines) if b'"kind":"prompted"' in line)
    (tmp_path / "brought/ledger.jsonl").write_bytes(b"".join(lines[:begun]))
    (tmp_path / "brought/run.json").unlink()
    planted = tmp_path / "brought/agent/home/.renewer/login.json"
    planted.parent.mkdir(exist_ok=True)
    planted.write_text(json.dumps(LOGIN | {"oauth": LOGIN["oauth"] | {"token": "of the author"}}))
    program = tmp_path / "brought/agent/programs/sitecustomize.py"  # it would run before each Python of the agent
    program.write_text(f"open({str(tmp_path / 'run/agent/home/ran')!r}, 'w')")
    for name, write in (("user", ""), ("renewed", CASES["renewed"][0])):
        login, run = user_login(tmp_path / name), tmp_path / "run"
        shutil.copytree(tmp_path / "brought", run, symlinks=True)
        done = play(tmp_path, name, write, "toys:Toy-v0", "--resume", str(run), "--no-anchors")
        assert json.loads(login.read_text()) == LOGIN and "was replaced" not in done.stderr
        assert "~/.renewer/login.json will not be replaced if the run renews it" in done.stderr
        assert not (run / "agent/home/ran").exists() and not (run / "agent/programs/sitecustomize.py").exists()
        shutil.rmtree(run)


def user_login(home: Path) -> Path:
    login = home / ".renewer/login.json"
    login.parent.mkdir(parents=True)
    login.write_text(json.dumps(LOGIN))
    return login


def play(folder: Path, home: str, write: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Play a run as the user of a HOME, with a client that submits and then does what ``write`` says."""
    script = folder / "renew.py"
    script.write_text(SCRIPT + write)
    (folder / "renewer.toml").write_text(CLIENT.format(script=script))
    environment = os.environ | {"HOME": str(folder / home), "XDG_CONFIG_HOME": str(folder / home / ".config")}
    agent = ["--agent", str(folder / "renewer.toml"), "--show", str(script)]
    command = [*COMMAND, "run", *words, "--jobs", "1", *agent]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done
