"""Options that the commands share that play episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.runs.settings import EngineName, IsolationChoice, Seeds

LEVELS = "auto is the better of levels A and B; none means no isolation"

SeedsChoice = Annotated[Seeds, typer.Option(help="Public cases of the paper, or cases sealed by your key.")]
SealKey = Annotated[Path | None, typer.Option(help="Key file for --seeds sealed (default: your standard key).")]
LocalJobs = Annotated[int, typer.Option(min=1, help="Episodes played in parallel.")]
Engine = Annotated[EngineName, typer.Option(help="Where episodes are played.")]
RayAddress = Annotated[
    str | None, typer.Option(help="Ray cluster to use, or auto (default: start one on this machine).")
]
PolicyIsolation = Annotated[IsolationChoice, typer.Option(help=f"Isolation of policies: {LEVELS}.")]
OptionalPolicyIsolation = Annotated[
    IsolationChoice | None, typer.Option("--isolation", help=f"Isolation of policies: {LEVELS}.")
]
MaxCandidates = Annotated[
    int | None, typer.Option(min=1, help="Select among the last N distinct checkpoints (default: all).")
]
