"""`evopolicygym demo`: one run under the full protocol, without a model, a key or a network."""

from __future__ import annotations

import shlex
import shutil
import sys
from bisect import bisect_right
from pathlib import Path
from typing import Annotated, Final

import typer

from evopolicygym.api.run import new_folder
from evopolicygym.cli.output import stderr, stdout
from evopolicygym.cli.run import play_and_show
from evopolicygym.reference import anchors
from evopolicygym.reference.paper import best_agent, published
from evopolicygym.run_record import RunRecord, load
from evopolicygym.runs.settings import AgentSettings, Seeds

COMMAND: Final = "evopolicygym"
WIDTH: Final = 64
HEIGHT: Final = 8


def demo(
    task: Annotated[str, typer.Option(help="Task to play.")] = "core16/acrobot",
    run: Annotated[Path | None, typer.Option(help="Folder of the run (default: a new one in runs/).")] = None,
) -> None:
    """Play one run with the built-in agent `tuner` on the paper's cases, and show the result. Needs no key."""
    stderr.print(
        f"The built-in agent `tuner` (no model, no key) plays {task} with 128 train episodes. 16 hidden validation"
    )
    stderr.print("cases select one of its checkpoints, 32 held-out cases measure it. The cases are the paper's.")
    stderr.print()
    agent = AgentSettings(name="tuner")
    given = {"task": task, "seeds": Seeds.PAPER, "agent": agent}
    root = run or new_folder(given, agent)
    play_and_show(root, agent, given, json=False)
    _explain(load(root), root)


def _explain(record: RunRecord, root: Path) -> None:
    stdout.print()
    for line in _curve(record):
        stdout.print(line)
    stdout.print(f"{'':10}  best validation mean so far; each row halves the gap to the best")
    stdout.print()
    for name, value in _references(record):
        stdout.print(f"{name:24} {value:>12.5g}")
    stdout.print(f"\nThe run is in {root}:")
    stdout.print("run.json is the record, workspace/ is the agent's folder, checkpoints/ holds what it submitted.")
    stdout.print("\nWhat you can do next:")
    for purpose, command in next_commands(root):
        stdout.print(f"  {purpose:24} {command}")


def next_commands(root: Path) -> list[tuple[str, str]]:
    """Return what to do after the run in ``root``: purposes, and command lines that work in the current shell."""
    program, run = _program(), shlex.quote(str(root))
    commands = [
        ("recompute the score", f"{program} verify {run}"),
        ("draw the run", f"{program} report {run} -o report.html"),
        ("rank it with the paper's", f"{program} leaderboard {run} --paper"),
        ("list the agents", f"{program} agent list"),
        ("list the pages of docs", f"{program} docs"),
        ("play another task", f"{program} run core16/mountain-car-continuous --agent tuner --seeds paper"),
    ]
    activate = Path(sys.executable).with_name("activate")
    if program == COMMAND or not activate.exists():
        return commands
    return [("use evopolicygym alone", f". {_shown(activate)}"), *commands]


def _program() -> str:
    """Return how the current shell can start this installation."""
    installed, on_path = Path(sys.executable).with_name(COMMAND), shutil.which(COMMAND)
    if not installed.exists():
        return f"{shlex.quote(sys.executable)} -m evopolicygym"
    return COMMAND if on_path and installed.samefile(on_path) else _shown(installed)


def _shown(path: Path) -> str:
    """Return a path for the shell, relative if it is below the current folder."""
    below = path.is_relative_to(Path.cwd()) and path.parent != Path.cwd()
    return shlex.quote(str(path.relative_to(Path.cwd()) if below else path))


def _references(record: RunRecord) -> list[tuple[str, float]]:
    """Return the score, and those of trivial policies and of the paper's best agent on the same held-out cases."""
    rows = [("this run, held-out", record.outcome.heldout.mean)] if record.outcome and record.outcome.heldout else []
    if task_anchors := anchors.stored_anchors().tasks.get(record.task.id):
        cases = record.options.heldout_cases
        rows += [(f"{name} policy", anchor.mean(cases)) for name, anchor in task_anchors.trivial().items()]
    if table := published().get(record.task.id):
        rows.append(("best agent of the paper", table[best_agent(record.task.id)]))
    return rows


def _curve(record: RunRecord) -> list[str]:
    """Draw the best validation mean against the episodes used; no lines if nothing was validated.

    The first policy is often far below all others: on a linear axis every later gain would be in the top row.
    """
    from evopolicygym.analysis.gain import learning_curve  # scipy takes a while to import

    curve = learning_curve(record)
    if curve is None or not curve.points:
        return []
    levels = _levels(curve.points[0].best, curve.points[-1].best)
    rows = [[" "] * WIDTH for _ in levels]
    for column in range(WIDTH):
        if reached := [p for p in curve.points if p.episodes <= (column + 1) * record.budget.total / WIDTH]:
            rows[bisect_right(levels, reached[-1].best) - 1][column] = "▀"
    lines = [f"{level:>10.5g} ┤{''.join(row)}".rstrip() for level, row in zip(levels, rows, strict=True)]
    return [*reversed(lines), f"{'':>10} └{'─' * WIDTH}", f"{'episodes':>10}  0{record.budget.total:>{WIDTH - 1}}"]


def _levels(low: float, high: float) -> list[float]:
    """Return the least value of each row, from the bottom: each row halves the distance to the best value."""
    between = [high - (high - low) / 2**row for row in range(1, HEIGHT - 1)]
    return [low, *between, high] if high > low else [high]
