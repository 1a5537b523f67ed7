"""Texts of `--help`: names of values, groups of options, and an example for each command."""

from __future__ import annotations

import re
import shutil
from typing import Any, Final

HELP_FLAGS: Final = ["--help", "-h"]
LEAST_WIDTH: Final = 80  # of the panels: in less, Typer cuts off the names of options
# Command to one command line. Files in it are the user's: an installed package has no `examples/` and no `suites/`.
EXAMPLES: Final = {
    "": "evopolicygym run core16/acrobot --agent tuner",
    "evaluate": "evopolicygym evaluate my-policy core16/acrobot --cases 0-7",
    "demo": "evopolicygym demo --task core16/mountain-car-continuous",
    "run": "evopolicygym run core16/acrobot --agent tuner --budget 32 --run runs/first",
    "serve": "evopolicygym serve core16/reacher --run runs/by-hand",
    "finish": "evopolicygym finish runs/by-hand",
    "score": "evopolicygym score runs/first --all-checkpoints",
    "verify": "evopolicygym verify runs/first",
    "leaderboard": "evopolicygym leaderboard runs --paper",
    "compare": "evopolicygym compare runs/a runs/b",
    "analyze": "evopolicygym analyze runs",
    "report": "evopolicygym report runs -o report.html",
    "transcript": "evopolicygym transcript runs/first",
    "tail": "evopolicygym tail runs/first",
    "import": "evopolicygym import downloads/runs --folder imported",
    "reproduce": "evopolicygym reproduce",
    "docs": "evopolicygym docs agents",
    "doctor": "evopolicygym doctor",
    "suite": "evopolicygym suite run my-suite.toml",
    "suite run": "evopolicygym suite run my-suite.toml --dry-run",
    "suite status": "evopolicygym suite status runs/my-suite",
    "task": "evopolicygym task show core16/acrobot",
    "task list": "evopolicygym task list --all",
    "task show": "evopolicygym task show core16/acrobot --text full",
    "task check": "evopolicygym task check my-task.toml",
    "task anchors": "evopolicygym task anchors core16/acrobot --output anchors.json",
    "agent": "evopolicygym agent list",
    "agent list": "evopolicygym agent list",
    "agent check": "evopolicygym agent check claude",
    "baseline": "evopolicygym baseline curve core16/acrobot --algo ars --steps 100000",
    "baseline curve": "evopolicygym baseline curve core16/acrobot --algo ars --steps 100000",
    "seeds": "evopolicygym seeds new",
    "seeds new": "evopolicygym seeds new --out my.key",
    "seeds disclose": "evopolicygym seeds disclose",
}
# Options of commands with many, by panel. The others, which a first use may need, are in the first panel.
_PANELS_OF_RUNS: Final = {
    "Model and client": "--model-url --model-ca --model-header --model-patience --gateway --option --json-lines "
    "--prices --replay-model --replay-speed",
    "Limits of the agent": "--max-turns --max-hours --max-tokens --max-cost --max-requests --max-retries --max-silence",
    "What the agent gets": "--text --variant --own-models --feedback --video",
    "Isolation and access": "--isolation --agent-isolation --agent-network --agent-env --agent-host --show",
    "Hidden scoring": "--seal-key --validation-cases --heldout-cases --max-candidates --validate --anchors",
    "Where episodes are played": "--jobs --engine --ray-address --stock",
}
_PANELS_OF_COMMAND: Final = {
    "run": _PANELS_OF_RUNS,
    "serve": _PANELS_OF_RUNS,
    "evaluate": {
        "Enter it as a row of leaderboards": "--enter --run --budget --validation-cases --heldout-cases --own-models "
        "--feedback",
        "Which task": "--text --variant --seal-key --salt",
        "Recording": "--record --video",
        "Where episodes are played": "--jobs --engine --ray-address --isolation --stock",
    },
    "suite run": {
        "Checks before it starts": "--dry-run --live --skip-unready",
        "Limits of all runs together": "--max-tokens --max-cost --max-requests",
        "Where episodes are played": "--jobs --parallel-runs --engine --ray-address",
    },
}
PANELS: Final = {
    command: {option: panel for panel, options in panels.items() for option in options.split()}
    for command, panels in _PANELS_OF_COMMAND.items()
}
# What `--help` calls the value of an option. An option with a fixed choice of values shows them instead.
_OPTIONS_OF_VALUE: Final = {
    "N": "--jobs --seed --max-turns --max-tokens --max-retries --budget --validation-cases --heldout-cases "
    "--max-candidates --parallel-runs --max-requests --keys --steps --first-seed --hidden",
    "COLUMNS": "--width",
    "HOURS": "--max-hours",
    "MINUTES": "--max-silence --model-patience",
    "SECONDS": "--seconds",
    "DOLLARS": "--max-cost",
    "DIFFERENCE": "--effect",
    "FACTOR": "--replay-speed",
    "CASES": "--cases",
    "TASK": "--task",
    "NAME": "--name --enter --agent --model --agent-env --algo",
    "OLD=NEW": "--label",
    "NAME=VALUE": "--option --set",
    "NAME=VARIABLE": "--model-header",
    "URL": "--model-url",
    "HOST[:PORT]": "--agent-host",
    "ADDRESS": "--ray-address",
    "SALT": "--salt",
    "FOLDER": "--expert --run --resume --replay-model --record --folder --figures",
    "PATH": "--show --curves",
    "FILE": "--model-ca --seal-key --prices --anchors --output --input --out --file --labels",
}
VALUE_NAMES: Final = {option: value for value, options in _OPTIONS_OF_VALUE.items() for option in options.split()}


def tidy_help(command: Any, path: str = "") -> None:
    """Tidy the help of the command at ``path`` and of those below it: join the lines of its description, name the
    values of its options plainly, not by Python types, group many options, and add an example."""
    if shutil.get_terminal_size().columns < LEAST_WIDTH:
        command.rich_markup_mode = None  # plain text, in which names are whole
    command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", command.help or "")
    if path in EXAMPLES:
        command.epilog = f"Example: {EXAMPLES[path]}"
    context = command.context_class(command, help_option_names=HELP_FLAGS)
    for parameter in (*command.params, command.get_help_option(context)):
        if parameter.param_type_name == "argument":
            parameter.metavar = parameter.name.upper()
            parameter.display_type_rich = lambda ctx: ""  # its name says it; Typer has no setting for this
            continue
        name = None if parameter.type_descriptor.is_choice else VALUE_NAMES.get(parameter.opts[0])
        parameter.metavar = "" if parameter.is_flag else parameter.metavar or name
        if path in PANELS:
            parameter.rich_help_panel = PANELS[path].get(parameter.opts[0])
    for name, subcommand in getattr(command, "commands", {}).items():
        tidy_help(subcommand, f"{path} {name}".strip())
