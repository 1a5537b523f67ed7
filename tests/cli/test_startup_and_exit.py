"""Start and end of every command: version, Ctrl-C at any time, pipes, streams, names, encodings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import evopolicygym
from evopolicygym.cli.main import COMMANDS, _app

COMMAND = [sys.executable, "-m", "evopolicygym"]
SAMPLE = Path(__file__).parents[2] / "examples" / "runs"
HEAVY = {"gymnasium", "numpy", "pydantic", "rich", "scipy", "starlette", "typer", "uvicorn"}


def run(*arguments: str | Path, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, **options)


def loaded(*arguments: str) -> set[str]:
    """Which modules a command has imported when it ends."""
    code = f"""
import atexit, sys
sys.argv = ["evopolicygym", *{arguments!r}]
atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))
from evopolicygym.__main__ import main
main()
"""
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.split())


def test_the_version_is_printed_without_heavy_imports():
    assert run("--version").stdout == f"{evopolicygym.__version__}\n"
    assert not HEAVY & loaded("--version")


def test_a_command_loads_no_other():
    assert not {"numpy", "starlette", "uvicorn", "evopolicygym.cli.run"} & loaded("agent", "list")


def test_help_names_every_command_and_what_it_is_about():
    text = run("--help").stdout
    assert all(f" {name} " in text for name in COMMANDS)
    assert "coding agents" in text and "--version" in text


def test_every_option_names_its_value_plainly():
    """No option shows a Python type, and no description keeps the line breaks of its source."""
    unnamed, broken = [], []

    def visit(command):
        broken.extend([command.name] if "\n" in command.help else [])
        context = command.context_class(command)
        unnamed.extend(
            (command.name, option.opts[0])
            for option in command.get_params(context)
            if option.metavar is None and "|" not in option.display_type(context)
        )
        for subcommand in getattr(command, "commands", {}).values():
            visit(subcommand)

    visit(typer.main.get_command(_app()))
    assert not unnamed and not broken


def test_an_unknown_command_gets_a_suggestion():
    done = run("evalute")
    assert done.returncode == 2 and "Did you mean 'evaluate'?" in done.stderr


@pytest.mark.parametrize("when", ["while modules load", "in the command"])
def test_ctrl_c_prints_no_traceback(when):
    """Stopped on its way, by its own hand: the same moment each time."""
    module = "typer" if when == "while modules load" else "evopolicygym.analysis.loading"
    code = f"""
import importlib.abc, os, signal, sys
class Stumble(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Stumble())
sys.argv = ["evopolicygym", "leaderboard", {str(SAMPLE)!r}]
from evopolicygym.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if when == "while modules load":
        assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
    else:
        assert (done.returncode, done.stderr) == (130, "evopolicygym: interrupted; every process is stopped\n")


def test_where_ctrl_c_is_ignored_it_stays_ignored():
    """As under nohup, or in the background of a script."""
    code = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.argv = ["evopolicygym", "agent", "list"]
from evopolicygym.__main__ import main
try:
    main()
finally:
    print(signal.getsignal(signal.SIGINT).name, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "SIG_IGN"


@pytest.mark.parametrize("arguments", [["analyze", SAMPLE, "--json"], ["task", "show", "core16/ant"], ["--version"]])
def test_a_closed_pipe_has_its_own_exit_code(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMAND, *map(str, arguments)], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode in (141, -signal.SIGPIPE)
    assert "Traceback" not in done.stderr


def test_a_broken_pipe_inside_a_command_is_an_error():
    """Such an error was once not printed."""
    code = """
import sys
from evopolicygym.cli import demo
from evopolicygym.cli.main import main

def demo_(): raise BrokenPipeError(32, "Broken pipe")

demo.demo, sys.argv = demo_, ["evopolicygym", "demo"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 4 and "a pipe broke" in done.stderr


def test_a_full_disk_says_what_is_lost_and_what_to_do():
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "task", "list", "--json"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr and "Free some space" in done.stderr and "--resume" in done.stderr


def test_a_version_that_cannot_be_written_is_no_traceback():
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "--version"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "the version cannot be written: No space left on device\n")


@pytest.mark.parametrize("room", ["nr_inodes=3", "size=4k"])
def test_a_full_disk_for_a_new_run_is_not_a_usage_error(room, tmp_path):
    """No room for its folders, or for what is in them."""
    fill = "head -c 4096 /dev/zero > full" if room.startswith("size") else "true"
    open_run = 'exec "$0" -m evopolicygym serve core16/acrobot --run run --seeds paper --isolation none'
    script = f"mount -t tmpfs -o {room} none . && cd $PWD && {fill} && {open_run}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, sys.executable], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 4, done.stderr
    assert "No space left on device: " in done.stderr and str(tmp_path / "run") in done.stderr
    assert "Free some space" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed):
    command = f'exec "$0" -m evopolicygym task list {closed}'
    done = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, text=True)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_a_terminal_that_knows_only_ascii():
    done = run("reproduce", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    code = "import evopolicygym.cli.main as m; m._prepare_streams(); print(chr(0x2588))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}
    )
    assert (done.returncode, done.stdout) == (0, "?\n"), done.stderr


def test_a_name_that_is_not_utf_8(tmp_path):
    folder = os.fsencode(tmp_path) + b"/r\xff"
    command = [*COMMAND, "run", "core16/acrobot", "--agent", "nop", "--seeds", "paper", "--run", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "is not UTF-8" in done.stderr and "Traceback" not in done.stderr
