"""What `--help` shows of every command, and what the shell completes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from command_server import run_command as run
from evopolicygym.cli.help_text import EXAMPLES, PANELS
from evopolicygym.cli.main import _app

CLONE_ONLY = ("examples/", "suites/", "tests/", "benchmarks/")  # folders that an installed package lacks
INSTALLED = Path(sys.executable).with_name("evopolicygym")


def visible_commands() -> dict[str, Any]:
    """Return every command that help lists, by its path."""
    root = typer.main.get_command(_app())
    commands, remaining = {}, [("", root)]
    while remaining:
        path, command = remaining.pop()
        commands[path] = command
        remaining += [
            (f"{path} {name}".strip(), below)
            for name, below in getattr(command, "commands", {}).items()
            if not below.hidden
        ]
    return commands


def test_every_help_has_an_example_that_the_command_line_accepts():
    commands = visible_commands()
    assert EXAMPLES.keys() == commands.keys() and len(commands) > 25
    for path, command in commands.items():
        words = shlex.split(EXAMPLES[path])[1:]
        assert " ".join(words).startswith(path) and EXAMPLES[path] in command.epilog
        level = commands[""]
        while hasattr(level, "commands"):
            level = level.commands[words.pop(0)]
        level.make_context(level.name, words)  # raises for an unknown option or a missing argument
        assert not [word for word in words if word.startswith(CLONE_ONLY)]


def test_an_option_with_a_fixed_choice_shows_its_values():
    commands = visible_commands()
    parameters = [parameter for command in commands.values() for parameter in command.params]
    choices = [
        option for option in parameters if option.param_type_name == "option" and option.type_descriptor.is_choice
    ]
    assert len(choices) > 20 and all(option.metavar is None for option in choices)


@pytest.mark.parametrize("words", [[], ["run"], ["suite"], ["suite", "run"]])
def test_h_is_help(words):
    done = run(*words, "-h")
    assert done.returncode == 0 and done.stdout == run(*words, "--help").stdout
    assert "Example: evopolicygym" in done.stdout


def test_a_narrow_terminal_shows_the_names_of_options_whole():
    environment = os.environ | {"COLUMNS": "60"}
    shown = subprocess.run([INSTALLED, "run", "-h"], env=environment, capture_output=True, text=True).stdout
    options = {name for option in visible_commands()["run"].params for name in option.opts if name.startswith("--")}
    assert options and options <= set(shown.split()) and max(map(len, shown.splitlines())) <= 60


def test_many_options_are_grouped_and_every_grouped_option_exists():
    commands = visible_commands()
    options = {name: {option.opts[0] for option in command.params} for name, command in commands.items()}
    options["run"] |= options["serve"]  # they share their panels
    assert all(PANELS[name].keys() <= options[name] for name in PANELS if name != "serve")
    assert {name for name in options if len(options[name]) > 14} <= PANELS.keys()
    first = [option.opts[0] for option in commands["run"].params[2:] if option.rich_help_panel is None]
    assert first == ["--agent", "--model", "--seed", "--name", "--run", "--resume", "--seeds", "--budget", "--json"]
    assert "Limits of the agent" in run("run", "--help").stdout


@pytest.mark.parametrize(
    ("line", "expected"), [("evopolicygym lea", "leaderboard"), ("evopolicygym suite run --dr", "--dry-run")]
)
def test_the_shell_completes_commands_and_options(line, expected):
    environment = os.environ | {
        "_EVOPOLICYGYM_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    done = subprocess.run([INSTALLED], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and done.stdout.split() == [expected], done.stderr
