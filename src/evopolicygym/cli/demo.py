"""`evopolicygym demo`: a whole run under the full protocol, with no key and no network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from evopolicygym.cli.output import stderr, stdout
from evopolicygym.cli.run import new_folder, play
from evopolicygym.reference import anchors
from evopolicygym.reference.paper import best_agent, published
from evopolicygym.run_record import RunRecord, load
from evopolicygym.runs.settings import AgentSettings, Seeds

WIDTH: Final = 64
HEIGHT: Final = 8


def points(record: RunRecord) -> Iterator[tuple[int, float]]:
    """After each submission: episodes consumed, and the best validation mean so far."""
    means = {one.hash: one.validation.mean for one in record.checkpoints if one.validation}
    consumed, best = 0, None
    for one in record.submissions:
        consumed += one.charged
        if one.verdict == "ok" and one.checkpoint in means:
            best = max(means[one.checkpoint], best) if best is not None else means[one.checkpoint]
        if best is not None:
            yield consumed, best


def curve(record: RunRecord) -> list[str]:
    """Lines of text; none when nothing was validated."""
    known = list(points(record))
    if not known:
        return []
    low, high = known[0][1], known[-1][1]
    rows = [[" "] * WIDTH for _ in range(HEIGHT)]
    for column in range(WIDTH):
        reached = [best for consumed, best in known if consumed <= (column + 1) * record.budget.total / WIDTH]
        if reached:
            rows[HEIGHT - 1 - _level(reached[-1], low, high)][column] = "▀"
    labels = {0: f"{high:.5g}", HEIGHT - 1: f"{low:.5g}"}
    body = [f"{labels.get(number, ''):>10} ┤{''.join(row)}" for number, row in enumerate(rows)]
    return [*body, f"{'':>10} └{'─' * WIDTH}", f"{'episodes':>10}  0{record.budget.total:>{WIDTH - 1}}"]


def _level(value: float, low: float, high: float) -> int:
    return round((value - low) / (high - low) * (HEIGHT - 1)) if high > low else HEIGHT - 1


def demo(
    task: Annotated[str, typer.Option(help="Which task is played.")] = "core16/acrobot",
    run: Annotated[Path | None, typer.Option(help="Folder of the run (default: new, in runs/).")] = None,
) -> None:
    """Let the built-in tuner play one run on the paper's cases, and show what came of it."""
    stderr.print(f"The built-in agent `tuner` (no model, no key) plays {task}: 128 train episodes, 16 validation cases")
    stderr.print("that select one of its checkpoints, 32 held-out cases that measure it. The cases are the paper's.")
    stderr.print()
    who = AgentSettings(name="tuner")
    root = run or new_folder(task, who)
    play(root, who, {"task": task, "seeds": Seeds.PAPER, "agent": who}, json=False)
    _explain(load(root), root)


def _explain(record: RunRecord, root: Path) -> None:
    stdout.print()
    for line in curve(record):
        stdout.print(line)
    stdout.print(f"{'':10}  best validation mean so far, against episodes consumed")
    stdout.print()
    for name, value in _beside(record):
        stdout.print(f"{name:24} {value:>12.5g}")
    stdout.print(f"\nEverything is in {root}:")
    stdout.print("run.json is the record, workspace/ what the agent saw, checkpoints/ what it submitted.")
    stdout.print("`evopolicygym verify` on that folder recomputes the score, `report -o report.html` draws the run.")


def _beside(record: RunRecord) -> list[tuple[str, float]]:
    """The score, and on the same held-out cases: trivial policies, and the best agent of the paper."""
    rows = [("this run, held-out", record.outcome.heldout.mean)] if record.outcome and record.outcome.heldout else []
    if known := anchors.stored_anchors().tasks.get(record.task.id):
        cases = record.options.heldout_cases
        rows += [(f"{name} policy", anchor.mean(cases)) for name, anchor in known.trivial().items()]
    if table := published().get(record.task.id):
        rows.append(("best agent of the paper", table[best_agent(record.task.id)]))
    return rows
