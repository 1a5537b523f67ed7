"""Mistakes of users: reported before anything starts, with a remedy, exit code 2, and nothing left behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from command_server import run_command as run

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "runs"
POLICY = ROOT / "examples" / "acrobot"
NOP = ("run", "core16/acrobot", "--agent", "nop")
MODEL = ("run", "core16/acrobot", "--agent", "model", "--model", "openai/m", "--model-url")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def refused(done: subprocess.CompletedProcess[str], *says: str) -> None:
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert all(text in done.stderr for text in says), done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*NOP, "--budget", "-1"], "must be at least 1 (got: -1)"),
        ([*NOP, "--max-silence", "0"], "--max-silence must be greater than 0 (got: 0.0)"),
        ([*NOP, "--max-cost", "-1"], "--max-cost must be greater than 0 (got: -1.0)"),
        ([*NOP, "--max-turns", "0"], "--max-turns must be at least 1 (got: 0)"),
        ([*NOP, "--agent-host", "https://example.org"], "'https://example.org' is not host or host:port"),
        ([*NOP, "--agent-host", "two words"], "'two words' is not host or host:port"),
        ([*NOP, "--agent-host", "*.example.org"], "'*.example.org' is not host or host:port"),
        ([*NOP, "--agent-host", "example.org:99999"], "'example.org:99999' is not host or host:port"),
        ([*MODEL, "https://example.org:/v1"], "not an address"),
        ([*MODEL, "https://*.example.org/v1"], "not an address"),
        ([*MODEL, "localhost:8000/v1"], "'localhost:8000/v1' is not an address of a model's API"),
        ([*MODEL, "http://"], "not an address"),
        ([*MODEL, "http://two words/v1"], "not an address"),
        ([*MODEL, "http://127.0.0.1:99999/v1"], "not an address"),
        ([*MODEL, "http://models.example.org:8000/v1", "--no-gateway"], "-L 8000:models.example.org:8000 HOST"),
        ([*MODEL, "http://10.0.0.7/v1", "--no-gateway"], "the agent's proxy carries https only"),
        ([*NOP, "--show", "/no/such/file"], "/no/such/file does not exist"),
        ([*NOP, "--json-lines"], "--json-lines (json_lines=) needs --agent command"),
        ([*NOP, "--replay-speed", "20"], "--replay-speed 20 needs --replay-model"),
        ([*NOP, "--seal-key", "/no/such/key"], "cannot read the sealing key"),
        ([*NOP, "--seal-key", "k", "--seeds", "paper"], "would not be used"),
        ([*NOP, "--ray-address", "auto"], "Add --engine ray"),
        ([*NOP, "--jobs", "100000"], "100000 episodes at a time are too many"),
        (["serve", "core16/acrobot", "--jobs", "100000"], "Use at most --jobs"),
        (["run", "core16/acrobot", "core16/pusher"], "'core16/pusher' would not be used"),
        (["serve", "core16/acrobt"], "Did you mean core16/acrobot"),
        (["serve", "core16/acrobot", "--heldout-cases", "5000"], "must be at most 256 (got: 5000)"),
    ],
)
def test_a_run_that_is_refused_leaves_nothing_behind(arguments, says, tmp_path):
    refused(run(*arguments, "--run", tmp_path / "run"), says)
    assert not (tmp_path / "run").exists()


def test_a_client_file_with_an_invalid_host_leaves_nothing_behind(tmp_path):
    client = 'title = "Mine"\nprogram = "true"\nargv = ["true"]\nversion = []\nhosts = ["https://api.example.org"]\n'
    (tmp_path / "mine.toml").write_text(client)
    done = run("run", "core16/acrobot", "--agent", tmp_path / "mine.toml", "--run", tmp_path / "run")
    refused(done, "'https://api.example.org' is not host or host:port")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--cases", ""], "'' is not a case"),
        (["--cases", "5-2"], "go backwards: write 2-5"),
        (["--seeds", "paper", "--seal-key", "k"], "would not be used"),
        (["--ray-address", "auto"], "Add --engine ray"),
        (["--cases", "0-1023", "--jobs", "100000"], "1024 episodes at a time are too many"),
    ],
)
def test_invalid_options_of_evaluate(options, says):
    refused(run("evaluate", POLICY, "core16/acrobot", *options), says)


def test_options_of_a_resumed_run_that_may_not_change(tmp_path):
    folder = tmp_path / "run"
    done = run(*NOP, "--seeds", "paper", "--run", folder)
    assert done.returncode == 0, done.stderr
    refused(run("run", "--resume", folder, "--budget", "5", "--model", "x"), "--model, --budget cannot be given")
    refused(run("run", "core16/pusher", "--resume", folder), "task is 'core16/acrobot' there, 'core16/pusher' here")
    assert run("run", "core16/acrobot", "--resume", folder, "--jobs", "1").returncode == 0
    repeated = run(*NOP, "--seeds", "paper", "--run", folder)
    assert "nothing was played" in repeated.stderr and "plays" not in repeated.stderr
    refused(run("run", "--resume", folder, "--jobs", "100000"), "Use at most --jobs")


def test_invalid_suites(tmp_path):
    suite = ("suite", "run", ROOT / "suites" / "smoke.toml")
    refused(run(*suite, "--ray-address", "auto", cwd=tmp_path), "--engine ray")
    refused(run(*suite, "--jobs", "100000", cwd=tmp_path), "Use at most --jobs")
    assert not (tmp_path / "runs").exists()


def test_a_folder_without_a_run_is_a_usage_error(tmp_path):
    """`verify` exits with 1 for a run that does not hold; a slip of the pen must not look like one."""
    refused(run("verify", tmp_path / "nothing"), "holds no run")
    (tmp_path / "run.json").write_text("{}")
    assert run("verify", tmp_path).returncode == 1
    refused(run("verify", tmp_path, "--jobs", "100000"), "Use at most --jobs")


def test_checking_a_task_on_no_cases():
    refused(run("task", "check", "core16/acrobot", "--cases", "0"), "greater than or equal to 1")


def test_unreadable_runs_are_named_by_compare(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{")
    refused(run("compare", tmp_path / "a", tmp_path / "b"), "compare needs two sides", "broken", str(tmp_path / "a"))


def test_figures_into_a_file(tmp_path):
    (tmp_path / "file").touch()
    done = run("report", SAMPLE, "-o", tmp_path / "page.html", "--figures", tmp_path / "file")
    refused(done, "Name a folder with --figures (figures=)")
    assert not (tmp_path / "page.html").exists()
