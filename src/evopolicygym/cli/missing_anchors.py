"""Measure random and trivial policies at the end of `run` and `suite run`, so that boards have their rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from evopolicygym.cli.output import episode_progress, print_hint
from evopolicygym.errors import Fault, UserError

MissingAnchors = Annotated[
    bool,
    typer.Option(
        "--anchors/--no-anchors", help="Measure random and trivial policies at the end, once per task and key."
    ),
]
LATER = "`evopolicygym task anchors TASK` measures them later"


def add_missing_anchors(root: Path, given: Mapping[str, Any]) -> None:
    """Measure trivial policies on the cases of a finished run if there are none yet, with the ``given`` settings of the
    command. Whatever goes wrong costs these rows and nothing else."""
    from evopolicygym.api.anchors import measure_missing_anchors

    try:
        with episode_progress() as progress:
            chosen = {name: given.get(name) for name in ("task", "seal_key", "jobs")}
            measured = measure_missing_anchors(root, **chosen, started=_print_start, progress=progress)
    except KeyboardInterrupt:
        print_hint(f"random and trivial policies were not measured; {LATER}")
        return
    except (UserError, Fault, OSError) as error:
        print_hint(f"random and trivial policies were not measured: {error}; {LATER}")
        return
    if measured:
        means = ", ".join(f"{name} {mean:.5g}" for name, mean in measured.means().items())
        print_hint(f"trivial policies on the same held-out cases: {means}")


def _print_start(task: str) -> None:
    print_hint(
        f"measuring random and trivial policies on the held-out cases of {task}, once for all its runs; "
        "Ctrl-C or --no-anchors leaves them out"
    )
