"""The commands that `evopolicygym demo` prints at its end work as they are printed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import typer

from evopolicygym.cli.demo import next_commands
from evopolicygym.cli.main import _app

ROOT = Path(__file__).parents[2]
RUN = ROOT / "examples" / "runs" / "acrobot__tuner__s0"
BIN = Path(sys.executable).parent


def without_bin(path: str) -> str:
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if Path(folder) != BIN)


def test_the_printed_commands_work_where_the_command_is_not_on_the_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", without_bin(os.environ["PATH"]))
    (_, activate), *commands = next_commands(RUN)
    *quick, (_, play) = [(purpose, line) for purpose, line in commands if " verify " not in line]
    for _, line in quick:
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stderr)
    assert (tmp_path / "report.html").exists()
    version = subprocess.run(["sh", "-c", f"{activate} && evopolicygym --version"], capture_output=True, text=True)
    assert version.returncode == 0, version.stderr
    command = typer.main.get_command(_app()).commands["run"]
    command.make_context("run", shlex.split(play)[2:])  # raises for an unknown option


def test_the_command_is_printed_as_the_shell_finds_it(monkeypatch):
    monkeypatch.chdir(BIN.parents[1])
    monkeypatch.setenv("PATH", without_bin(os.environ["PATH"]))
    lines = [line for _, line in next_commands(Path("runs/with space"))]
    assert lines[0] == f". {BIN.parent.name}/bin/activate"
    assert lines[1] == f"{BIN.parent.name}/bin/evopolicygym verify 'runs/with space'"
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    lines = [line for _, line in next_commands(Path("runs/a"))]
    assert lines[0] == "evopolicygym verify runs/a"
