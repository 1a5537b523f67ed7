"""Options that several commands share, with their help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evopolicygym.judge.judge import Videos
from evopolicygym.runs.settings import EngineName, IsolationChoice, Seeds

TASK_HELP = "Task: core16/NAME, a Gymnasium id, module:Env-v0, or a task file."
LEVELS = "auto is the better of levels A and B; none means no isolation"

TaskName = Annotated[str, typer.Argument(help=TASK_HELP)]
RunFolder = Annotated[Path, typer.Argument(help="Folder of the run.")]
RunFolders = Annotated[list[Path], typer.Argument(help="Run folders, or folders that contain runs at any depth.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

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
Video = Annotated[Videos, typer.Option(help="Train episodes to record as video.")]
Paper = Annotated[bool, typer.Option("--paper", help="Add the rows that the paper published.")]
Anchors = Annotated[
    list[Path] | None, typer.Option(help="File of anchors measured on your own cases (benchmarks/anchors.py).")
]
OwnTask = Annotated[
    str | None,
    typer.Option("--task", help="Name the run's task again, if its code is your own module or file: you trust it."),
]
